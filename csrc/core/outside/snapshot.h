/* A snapshot of a thread that runs Lua, as the BPF program of csrc/bpf/outside/snapshot.c writes it into its ring: the registers of
 * the thread in user space, and pieces of its memory: what changes while the thread runs on (its C stack, its Lua stacks), and the
 * objects that name the functions on these stacks. The unwinder finds the rest, which does not change while a function exists, in the
 * memory of the process.
 *
 * Most stacks have the same functions as an earlier one. So the objects of a stack have a key: a hash of their addresses and of all that
 * tells one function from another that lies in the same memory later. The program reads and hashes them at each sample; if the
 * collector keeps objects with this key already, the snapshot does not have them.
 *
 * While compiled code runs, or C code that Lua has called, the whole stack has a key too, since nothing else decides which stack it is.
 * If the collector has unwound a stack with this key, the program only counts the sample. So an event that comes often does not fill
 * the ring.
 *
 * There is room for some thousand keys of each kind. Keys of functions, states and processes that no longer exist are not used again, but
 * take room. So when many samples have found no room, the next generation of keys begins: its number is mixed into each key, and the keys of
 * the last generation are given up. */
#ifndef PF_SNAPSHOT_H
#define PF_SNAPSHOT_H

#ifdef __bpf__
#include <linux/types.h>
typedef __u8 pf_u8;
typedef __u16 pf_u16;
typedef __u32 pf_u32;
typedef __u64 pf_u64;
#else
#include <stdint.h>
typedef uint8_t pf_u8;
typedef uint16_t pf_u16;
typedef uint32_t pf_u32;
typedef uint64_t pf_u64;
#endif

enum {
	PF_SNAPSHOT_ROOM = 3 << 16, /* bytes of pieces after which no further piece begins */
	PF_SNAPSHOT_PIECE = 1 << 15, /* bytes of a piece, at most */
	PF_SNAPSHOT_OBJECT = 1 << 10, /* bytes of a thread, a function or a prototype, at most; other pieces may be larger */
	PF_SNAPSHOT_STATES = 16,    /* Lua states of a process */
	PF_SNAPSHOT_THREADS = 64,   /* Lua threads of a snapshot */
	PF_SNAPSHOT_NAME = 240,     /* bytes of a chunk's name */
	PF_SNAPSHOT_KNOWN = 2048,   /* keys of objects that the collector keeps */
	PF_SNAPSHOT_STACKS = 8192,  /* keys of stacks whose samples are counted */
	PF_SNAPSHOT_KERNEL = 127,   /* frames of the kernel */
	PF_SNAPSHOT_COLLECTORS = 2, /* functions of PUC Lua that collect garbage */
};

enum pf_piece_kind {
	PF_PIECE_CHANGES,   /* it changes while the thread runs on */
	PF_PIECE_TRACE,     /* it stays the same while the trace exists */
	PF_PIECE_FUNCTION,  /* objects, which stay the same while the function exists */
	PF_PIECE_PROTOTYPE,
	PF_PIECE_NAME,
	PF_PIECE_KERNEL, /* not memory: the return addresses of the kernel's functions, innermost first */
	PF_PIECE_THREADS, /* not memory either: the Lua threads, each a struct pf_snapshot_thread */
	PF_PIECE_KINDS
};

/* Its bytes follow, padded to a multiple of 8. */
struct pf_piece {
	pf_u64 address;
	pf_u32 size, kind;
};

enum pf_snapshot_flags {
	PF_SNAPSHOT_UNKNOWN = 1, /* the states of the process are not known yet; they may be those of its ancestor */
	PF_SNAPSHOT_FULL = 2,    /* a piece did not fit */
	PF_SNAPSHOT_SWITCH = 4,  /* the thread leaves its CPU; a struct pf_switched_in will follow */
	PF_SNAPSHOT_CUT = 8,     /* a thread that has resumed another one is missing */
	PF_SNAPSHOT_EXECUTED = 16, /* the known process executed another program between the search and its first sample */
};

struct pf_snapshot_head {
	pf_u64 time, weight, address; /* by CLOCK_MONOTONIC; what the sample stands for, in the event's unit; that of a page fault, or 0 */
	pf_u64 global;                /* the global state of the Lua state that runs; 0: none */
	pf_u64 ip, sp, general[32];   /* in DWARF's order */
	pf_u64 program;               /* differs between the programs that a process runs, and between processes that had the same pid */
	pf_u64 stack_end;             /* the end of the last piece of the C stack */
	pf_u32 pid, cpu, flags;
	pf_u32 thread; /* its number in the first pid namespace */
	pf_u64 objects;               /* the key of the objects; 0: they are not kept */
	pf_u64 stack;                 /* the key of the stack; 0: it has none */
	pf_u64 label;                 /* the address of its struct pf_label; 0: none */
	pf_u32 used;                  /* bytes of pieces, which follow */
	pf_u32 changing;              /* bytes of those that are not objects, which come first */
	pf_u32 ancestor;              /* the nearest known ancestor of an unknown process with the same program; else 0 */
	pf_u32 number;                /* of a thread that leaves its CPU: its number in the collector's pid namespace */
};

struct pf_snapshot_thread {
	pf_u64 at, low, high; /* a Lua thread; the limits of its stack, in PUC Lua 0 */
};

/* A thread is on a CPU again, after this time in nanoseconds. No other record has this size. */
struct pf_switched_in {
	pf_u64 off;
	pf_u32 thread, pad;
};

/* A thread that has left its CPU. time: when it left; ran: the CPU time that it had used by then. off: how long it was off its
 * CPU, if it has returned and the ring had no room for its struct pf_switched_in; else 0. ended: 1 if it has ended since then.
 * The collector takes the last return of an ended thread from here, and removes the entry. Until then the program does not
 * change the entry, although another thread may have the same number. The collector also removes the entry of a thread whose end
 * the program has missed. */
struct pf_switched_out {
	pf_u64 time, off, ended, ran;
};

/* The samples that were counted for the key of a stack. */
struct pf_counted {
	pf_u64 samples, weight;
};

/* A process, as the BPF program knows it: the global states of its Lua states. */
struct pf_snapshot_process {
	pf_u32 n;
	pf_u32 young; /* it has no state yet, and may soon make one */
	pf_u64 program; /* of these states, as in the head; 0: the one whose first thread has its C stack in first_stack */
	struct {
		pf_u64 from, to;
	} first_stack;
	pf_u64 label;   /* the address of its struct pf_label_place; 0: it has none */
	pf_u64 main_below; /* in LuaJIT, the bytes from a main thread to its global state; 0: as in the collector's process */
	pf_u64 global[PF_SNAPSHOT_STATES];
	struct {
		pf_u64 from, size;
	} collectors[PF_SNAPSHOT_COLLECTORS]; /* the code of the functions that collect garbage; size 0: not known */
};

/* The places of fields that the program needs; see the unwinders' layouts. */
struct pf_snapshot_layout {
	pf_u64 namespace_inode; /* the pid namespace of the collector, whose numbers processes have here */
	pf_u32 resumers; /* whether to copy the threads that have resumed the running one */
	pf_u32 native;   /* whether to copy what native frames are found by */
	pf_u32 thread_size, thread_global, object_type, type_thread;
	pf_u32 function_size, prototype_size, string_size, string_text;
	/* LuaJIT */
	pf_u32 thread_base, thread_stack, thread_slots, thread_cframe, cframe_previous, cframe_thread, cframe_pc, cframe_results;
	pf_u32 global_size, compiler_from, compiler_size, global_vmstate, global_running, main_below;
	pf_u32 function_id, function_code, prototype_end, prototype_source, prototype_n, prototype_first, prototype_lines, prototype_lineinfo;
	pf_u32 tag_function, trace_base, traces, traces_n, trace_exit, trace_size;
	pf_u32 trace_code, trace_code_size, trace_ir, trace_ir_low, trace_snapshots, trace_map, trace_start, trace_adjust, trace_number;
	/* PUC Lua: 65535 is a field that this version does not have */
	pf_u32 main, ci, base, error, error_previous, thread_pc, thread_stack_relative, thread_top;
	pf_u32 call_size, call_func, call_previous, call_pc;
	pf_u32 value_tag, tag_lua, tag_c;
	pf_u32 closure_kind, closure_proto, kind_lua;
	pf_u32 proto_source, proto_code, proto_counts[2], proto_first, proto_lines, proto_steps, proto_known, proto_n_known;
	pf_u32 string_kind, string_short_size, string_is_short;
};

/* Counts of the program, by CPU. RUNS: it is odd while a sample is taken, and changes at the beginning and the end. ENDED: the threads
 * that have been marked as ended. */
enum pf_snapshot_count {
	PF_SNAPSHOT_SAMPLES,
	PF_SNAPSHOT_DROPPED,
	PF_SNAPSHOT_NS,
	PF_SNAPSHOT_OFF,
	PF_SNAPSHOT_DROPPED_WEIGHT,
	PF_SNAPSHOT_RUNS,
	PF_SNAPSHOT_ENDED,
	PF_SNAPSHOT_COUNTS
};

#endif

/* The Lua stack of a thread at one moment, from its registers and its memory.
 *
 * An unwinder reads and nothing else: it calls no function of Lua, allocates nothing, takes no lock and trusts no byte it reads.
 * Every loop has a bound. So the same code serves a signal's handler in the process, an allocator's callback, and a program that
 * looks at another process; they differ in where registers and memory come from. The places of the fields in an interpreter's
 * structures are a layout: plain numbers, which the caller learns and verifies once (binding/stack does it for this process). */
#ifndef PF_UNWIND_H
#define PF_UNWIND_H

#include <stddef.h>
#include <stdint.h>

/* The general registers, in DWARF's order of the architecture. */
enum { PF_REGISTERS = 32 };
enum { PF_X86_RAX, PF_X86_RDX, PF_X86_RCX, PF_X86_RBX, PF_X86_RSI, PF_X86_RDI, PF_X86_RBP, PF_X86_RSP, PF_X86_R15 = 15, PF_X86_REGISTERS };
enum { PF_ARM64_LINK = 30, PF_ARM64_SP, PF_ARM64_REGISTERS };
/* The callee-saved ones, as bits: RBX, RBP, R12 to R15; x19 to x28. */
enum { PF_X86_KEPT = 1 << PF_X86_RBX | 1 << PF_X86_RBP | 0xf << 12, PF_ARM64_KEPT = 0x3ff << 19 };

struct pf_registers {
	uint64_t ip, sp;
	uint64_t general[PF_REGISTERS];
	unsigned n;    /* how many of them there are */
	/* The end of the C stack, above all frames: nothing is searched there, since a fault is a page fault, which the program's events
	 * count. 0: unknown */
	uint64_t stack_end;
	uint32_t kept; /* bits of the callee-saved ones */
};

/* Can this word of the C stack be the address of a Lua thread? A fault costs a thousand times as much as a read, and is a page fault,
 * which the program's events count; and many words are no addresses at all, or halves of old ones. So only addresses near the global
 * state and near the C stack, where memory is mapped, are read. */
static inline int pf_may_be_thread(uint64_t global, uint64_t sp, uint64_t x)
{
	const uint64_t near = UINT64_C(1) << 32;

	if ((uint32_t)x == 0)
		return 0;
	if (x - global + near < 2 * near || (x ^ sp) >> 40 == 0)
		return 1;
	return global >> 40 != 0 && (x ^ global) >> 44 == 0; /* an allocator may use a separate region for each size */
}

/* Access to the thread's memory. */
struct pf_memory {
	/* Copy n bytes from an address that may be unmapped. Returns 0 or -EFAULT. */
	int (*read)(const struct pf_memory *m, void *to, uint64_t address, size_t n);
};

enum pf_place_kind {
	PF_PLACE_LUA = 1,
	PF_PLACE_C,       /* a C function */
	PF_PLACE_BUILTIN, /* a library function that LuaJIT implements in assembler */
};

/* One function on the stack. Those of a coroutine are followed by those of the thread that resumed it, and so on. */
struct pf_place {
	enum pf_place_kind kind;
	int32_t linedefined;  /* Lua: the line of its definition, 0 for a file's own code */
	uint32_t line, end;   /* Lua: the first and last line that may be running, mostly the same; 0: unknown */
	uint32_t source_size; /* Lua: the length of its chunk's name */
	uint64_t source;      /* Lua: the address of its chunk's name; 0 if it was stripped */
	uint64_t function;    /* Lua: the address of its prototype. C: of its code. Builtin: of its object */
	uint64_t thread;      /* the address of the Lua thread (coroutine) that it runs in */
};

/* Why a stack is missing or cut. */
enum pf_unwind_failure {
	PF_UNWIND_COMPLETE,
	PF_UNWIND_NO_THREAD,  /* Lua code is running, but its thread was not found */
	PF_UNWIND_NO_BASE,    /* the innermost function was not found */
	PF_UNWIND_NO_PC,      /* the innermost function is known, but not its line */
	PF_UNWIND_NO_TRACE,   /* compiled code was running, but its trace was not found */
	PF_UNWIND_BROKEN,     /* a frame is invalid: the stack ends there */
	PF_UNWIND_UNREADABLE, /* memory could not be read */
	PF_UNWIND_DEEP,       /* there are more frames than PF_UNWIND_DEEPEST, or than the caller has room for */
	PF_UNWIND_GONE,       /* of another process: a function was freed before its lines were read */
	PF_UNWIND_NO_STATE,   /* of another process: its Lua states were not known yet */
	PF_UNWIND_LONG,       /* the search for the functions of compiled code was given up */
	PF_UNWIND_FAILURES
};

enum { PF_UNWIND_DEEPEST = 1000 }; /* frames */

struct pf_unwound {
	int state;  /* the activity of the thread, enum pf_state of sampling.h */
	int failed; /* enum pf_unwind_failure */
	unsigned n; /* number of frames */
	/* Called for each function, innermost first; a result other than 0 ends the unwinding. */
	int (*found)(void *to, const struct pf_place *place);
	void *to;
	int alone; /* leave out the threads that resumed the first one that has a frame */
	int allocates; /* this is the stack of an allocation, which replaces the block `old` unless that is 0 */
	uint64_t old;
	/* The rules of C functions that earlier stacks of this thread needed: see c_frames.h. NULL: none are kept */
	struct pf_c_seen *seen;
	/* The lines of compiled code that earlier stacks of this thread needed: see unwind_trace_seen.h. NULL: none are kept */
	struct pf_trace_seen *walks;
};

/* An empty one, whose pages are present, so that their first use in a signal handler is not a page fault. NULL: no memory.
 * pf_trace_seen_free takes NULL too. */
struct pf_trace_seen *pf_trace_seen_new(void);
void pf_trace_seen_free(struct pf_trace_seen *seen);

/* An unwinder: a layout, and the state of Lua (address of its global state) whose threads are searched. */
struct pf_luajit_layout;
struct pf_puc_layout;

/* Fills in state, failed and n, and calls `found` for each frame. */
void pf_unwind_luajit(const struct pf_luajit_layout *l, uint64_t global, const struct pf_registers *r, const struct pf_memory *m,
		      struct pf_unwound *u);
void pf_unwind_puc(const struct pf_puc_layout *l, uint64_t global, const struct pf_registers *r, const struct pf_memory *m,
		   struct pf_unwound *u);

#endif

/* The maps of the BPF programs, and functions that copy memory into a snapshot. */
#ifndef PF_PIECES_H
#define PF_PIECES_H

#include "core/outside/snapshot.h"

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

enum {
	MOST_BYTES = PF_SNAPSHOT_ROOM + sizeof(struct pf_piece) + PF_SNAPSHOT_PIECE, /* of all pieces together */
	OBJECTS_ROOM = 1 << 16,
	MOST_OBJECTS = OBJECTS_ROOM + sizeof(struct pf_piece) + PF_SNAPSHOT_PIECE, /* of those that are objects */
	PAGE = 4096,
	MOST_CPUS = 1024,
	RING = 1 << 25,     /* bytes */
	C_STACK = 8 << 20,  /* bytes from the stack pointer to the interpreter's frame, at most, if the mapping is not known */
	FIRST_STACK = 64 << 20, /* bytes of the first thread's C stack, at most */
	C_PAGES = 5,        /* pages of the C stack that are read at once, the first one in part */
	C_STACK_WORDS = 4096, /* a power of two, at least C_PAGES pages */
	FRAME = 128,        /* bytes of a frame of the interpreter that the unwinder reads */
	READ = 640,         /* bytes that the unwinder reads at once to find such a frame */
	NEAR = 2048, FAR = 16384 + 1024, /* bytes of the C stack above a thread where the one that has resumed it is searched: first, then */
	COLLECTOR_WORDS = 256, /* words of the C stack in which an address in the collector is searched */
	MOST_FRAMES = 256,  /* frames of one thread on the C stack */
	NEAR_LINES = 64,    /* lines are copied of the block of this many instructions that has the running one, and of the blocks beside it */
	STEPS = 160,        /* further instructions before these in Lua 5.4, which stores differences of lines, and at least each 128th line in full */
	MIXED_LINES = 2048, /* bytes of a function's lines that are added to the key; a function with more has no key */
	KNOWN = 512,        /* bytes of the lines that are stored in full */
	BELOW = 1536, ABOVE = 1024, /* bytes around the interpreter's frame */
	LUA_STACK = 1 << 20,
	SLOTS_AT_ONCE = 8,  /* of a Lua stack */
	OFFSETS = 1 << 19,  /* in the scratch */
	WINDOW = 1024, WINDOWS = 32, /* the bytes that are read at once; the windows that are kept, each with the next one */
	MOST_COPIED = 272,  /* the most bytes of a piece that is copied from a window: a name fits */
	WINDOWS_AT = MOST_BYTES + MOST_OBJECTS,
	BEHIND = WINDOW,    /* readable bytes behind a place: at least a name, and the slots that are looked at at once */
	SHORT_NAME = 48,    /* bytes of the text of most names */
	ABOVE_BASE = 512,   /* bytes of a Lua stack above its innermost base */
	CALLS = 1002,       /* calls of a stack: the unwinder takes 1,000, and must see that there are more */
	SEEN_BITS = 9, SEEN = 1 << SEEN_BITS,
	NONE = 65535, NO_LINE = -1,
	ADDRESS_BITS = 48, TAG_SHIFT = 47, LINK_MASK = 3, LINK_CONTINUATION = 2,
};
#if defined __TARGET_ARCH_arm64
enum { PC_REGISTER = 21, REGISTERS = 32 };
#else
enum { PC_REGISTER = 3, REGISTERS = 16 };
#endif

const volatile struct pf_snapshot_layout layout = {};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct pf_snapshot_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PF_SNAPSHOT_COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

/* The keys of objects that the collector keeps. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_SNAPSHOT_KNOWN);
	__type(key, __u64);
	__type(value, __u64);
} known SEC(".maps");

/* The stacks that the collector knows, by their keys. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PF_SNAPSHOT_STACKS);
	__type(key, __u64);
	__type(value, struct pf_counted);
} stacks SEC(".maps");

/* The present generation of keys. Its number is mixed into each key, so no key is equal to one of an earlier generation. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} generations SEC(".maps");

struct scratch {
	struct pf_snapshot_head s;
	__u8 bytes[WINDOWS_AT + WINDOWS * 2 * WINDOW + BEHIND]; /* objects are at MOST_BYTES, until they are appended to the other pieces */
	struct {
		__u64 from, size, sample;
	} windows[WINDOWS];        /* the memory that was read by windows, in the sample with this number */
	__u64 sample;
	__u64 objects, key;        /* the place behind the last object; the key of all so far */
	__u64 unkeyed;             /* an object could not be read or is large, or a stack is deep: its objects have no key */
	__u64 putting;             /* objects are copied, not added to the key */
	__u64 generation;          /* of the keys of this sample */
	__u64 path;                /* with `key`, the key of the stack so far */
	__u64 foreign, foreign_pid; /* the last foreign process with an event on this CPU: its program, its number */
	__u64 urgent;              /* the reader needs the memory of the process: what runs is not known yet, or compiled */
	__u64 certain;             /* the stack's key has all that decides which stack it is */
	__u64 vmstate, searched;   /* searched: the thread was found on the C stack, where others may be too */
	struct pf_snapshot_thread threads[PF_SNAPSHOT_THREADS];
	__u64 threads_n;
	__u64 stacks_n, stacks[PF_SNAPSHOT_THREADS]; /* the places of their stacks */
	__u64 stack[C_STACK_WORDS + PAGE / 8]; /* the part of the C stack that read_c_stack has read last */
	__u64 lines[2 * MIXED_LINES / 8]; /* those that are added to the key */
	struct {
		__u64 address;
		__u32 at, epoch;
	} seen[SEEN];              /* the addresses that were copied in this epoch, by their hash; at: of a function, the place of its prototype */
	__u32 epoch;
	__u64 users;
	__u64 word;                /* the last word that was looked at */
	__u64 c_size;              /* bytes from the stack pointer to the end of its mapping; the next mapping may be another thread's stack */
	__u64 c_end, c_address, c_n; /* of `stack`: the end that was asked for, the address of the first word, the number of words */
	__u64 c_copied;              /* the end of the piece that begins at the stack pointer */
	/* LuaJIT */
	__u64 from, address, n;    /* the slots to look at: their place, address and number */
	__u64 slot;                /* the next one of them */
	__u64 low, top, high;      /* the limits of a stack, and its innermost base */
	__u64 far, calls;          /* the bytes of a deep stack that are left to look at, and the frames found in it */
	__u64 pc;                  /* the pc that the interpreter has saved */
	__u64 elsewhere;           /* the global state of a state whose main thread runs, perhaps on another C stack */
	__u64 thread, cframe;      /* the running thread, then those that have resumed it; its frame on the C stack */
	__u64 distance;            /* from the stack pointer to the running thread's frame, or in PUC Lua its lua_longjmp */
	/* PUC Lua */
	__u64 unprotected;         /* the global state of a thread without a protected call */
	__u64 main, end;           /* the main thread; the end of the part of the C stack that is looked at, and copied */
	__u64 ci, base, lua_stack; /* the next call; the end of the list; the address from which calls count, or 0 */
	__u64 func, values_end;    /* the place of the innermost call's function on the Lua stack; the end of the values there */
	__u64 live;                /* the innermost call's pc, if it is not in the call */
	__u64 longjmp;             /* a thread's outermost lua_longjmp */
	__u64 collects;            /* the collector may run: a register or the C stack has an address in its code */
	__u64 running, current;    /* the running thread, and the one whose calls are copied */
	__u64 found, found_error;  /* the thread that uses the C stack above, and its innermost lua_longjmp */
	struct pf_snapshot_process process;
};

/* One for each CPU. Each is larger than a per-CPU map allows. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_CPUS);
	__type(key, __u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&scratches, &cpu);
}

static __always_inline void count(__u32 what, __u64 n)
{
	__u64 *v = bpf_map_lookup_elem(&counts, &what);

	if (v)
		*v += n;
}

/* Can this word be the address of an object? On arm64, addresses have 48 bits. */
static __always_inline int may_be_object(__u64 word)
{
	return !(word & 7) && !(word >> ADDRESS_BITS) && word >> 16 != 0;
}

static __always_inline __u64 word_at(__u64 address)
{
	__u64 v = 0;

	bpf_probe_read_user(&v, sizeof v, (void *)address);
	return v;
}

static __always_inline __u32 byte_at(__u64 address)
{
	__u8 v = 0;

	bpf_probe_read_user(&v, sizeof v, (void *)address);
	return v;
}

/* --- pieces --------------------------------------------------------------------------------------------------------------- */

/* A field of what was copied to a place; NULL if it is outside. The verifier must see that the number which is added to the address is
 * the one that was compared: the asm statements keep the compiler from using another one, and from adding it before. */
static __always_inline void *field_of(struct scratch *s, __u64 at, __u32 field)
{
	__u8 *p;

	at += field & (PF_SNAPSHOT_OBJECT - 1);
	asm volatile("" : "+r"(at));
	if (at >= WINDOWS_AT + WINDOWS * 2 * WINDOW)
		return NULL;
	p = s->bytes + at;
	asm volatile("" : "+r"(p));
	return p;
}

static __always_inline __u64 word_of(struct scratch *s, __u64 at, __u32 field)
{
	const __u64 *v = field_of(s, at, field);

	return v ? *v : 0;
}

static __always_inline __u32 number_of(struct scratch *s, __u64 at, __u32 field)
{
	const __u32 *v = field_of(s, at, field);

	return v ? *v : 0;
}

static __always_inline __u32 byte_of(struct scratch *s, __u64 at, __u32 field)
{
	const __u8 *v = field_of(s, at, field);

	return v ? *v : 0;
}

/* The place of a new piece, before its head; WINDOWS_AT if it does not fit. Until add_piece, the objects have no key. */
static __always_inline __u64 new_piece(struct scratch *s, __u32 kind, __u64 size)
{
	const int object = kind >= PF_PIECE_FUNCTION && kind <= PF_PIECE_NAME;
	const __u64 at = object ? s->objects : s->s.used;

	s->unkeyed += object;
	if (at <= (object ? MOST_BYTES + OBJECTS_ROOM : PF_SNAPSHOT_ROOM) && size <= PF_SNAPSHOT_PIECE)
		return at;
	s->s.flags |= PF_SNAPSHOT_FULL;
	return WINDOWS_AT;
}

/* The bytes of a new piece were copied. Returns their place. */
static __always_inline __u64 add_piece(struct scratch *s, __u32 kind, __u64 address, __u64 size, __u64 at)
{
	const int object = kind >= PF_PIECE_FUNCTION && kind <= PF_PIECE_NAME;
	const __u64 end = at + sizeof(struct pf_piece) + ((size + 7) & ~7ULL);
	struct pf_piece *p = field_of(s, at, 0);

	if (!p)
		return 0;
	p->address = address;
	p->size = size;
	p->kind = kind;
	s->unkeyed -= object;
	if (object)
		s->objects = end;
	else
		s->s.used = end;
	return at + sizeof *p;
}

/* Copy memory of the process into a piece; own: what this program has read from there already, by its offset in the scratch. Returns the
 * place of the copy, which is its offset in `bytes` and never 0; 0 if the memory cannot be read or does not fit. */
__noinline __u64 put_from(__u32 kind, __u64 address, __u64 size, __u64 own)
{
	struct scratch *s = scratch();
	__u64 at;
	void *to;

	if (!s)
		return 0;
	at = new_piece(s, kind, size);
	if (at >= WINDOWS_AT || size > PF_SNAPSHOT_PIECE)
		return 0;
	to = s->bytes + at + sizeof(struct pf_piece);
	asm volatile("" : "+r"(size)); /* check it again: Linux 6.1's verifier loses the bounds of `size` at a branch */
	if (size > PF_SNAPSHOT_PIECE)
		return 0;
	if (own ? bpf_probe_read_kernel(to, size, (char *)s + (own & (OFFSETS - 1))) : bpf_probe_read_user(to, size, (void *)address))
		return 0;
	return add_piece(s, kind, address, size, at);
}

static __always_inline __u64 put(__u32 kind, __u64 address, __u64 size)
{
	return put_from(kind, address, size, 0);
}

static long each_page(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 n, address;

	if (!s)
		return 1;
	n = s->c_n & (C_STACK_WORDS - 1);
	address = s->c_address + n * 8;
	if (address >= s->c_end)
		return 1;
	bpf_probe_read_user(&s->stack[n], PAGE, (void *)address); /* zeros if it fails: nothing was written to this page yet */
	s->c_n = n + PAGE / 8;
	return 0;
}

/* Read the C stack between two addresses, page by page: a page of a large buffer to which nothing was written yet cannot be read. */
static __noinline void read_c_stack(__u64 from, __u64 end)
{
	struct scratch *s = scratch();
	__u64 size;

	if (!s)
		return;
	from &= ~7ULL;
	if (end > s->s.sp + s->c_size)
		end = s->s.sp + s->c_size;
	size = PAGE - (from & (PAGE - 1));
	if (end > from && end - from < size)
		size = (end - from + 7) & ~7ULL;
	s->c_end = end;
	s->c_n = 0;
	s->c_address = from;
	if (size > PAGE || from >= end)
		return;
	bpf_probe_read_user(s->stack, size, (void *)from);
	s->c_n = size / 8;
	if (from + size < end)
		bpf_loop(C_PAGES - 1, each_page, NULL, 0);
}

static __always_inline __u64 c_word(struct scratch *s, __u64 i)
{
	return s->stack[i & (C_STACK_WORDS - 1)];
}

/* The word at an address of the C stack. */
static __always_inline __u64 c_word_at(struct scratch *s, __u64 address)
{
	const __u64 i = (address - s->c_address) / 8;

	return i < s->c_n && !(address & 7) ? c_word(s, i) : word_at(address);
}

/* Copy what read_c_stack has read, up to an address. */
static __noinline void put_c_stack(__u64 end)
{
	struct scratch *s = scratch();
	__u64 size;

	if (!s || !s->c_n)
		return;
	size = end - s->c_address;
	if (end < s->c_address || size > s->c_n * 8)
		size = s->c_n * 8;
	if (!put_from(PF_PIECE_CHANGES, s->c_address, size, __builtin_offsetof(struct scratch, stack)))
		s->s.flags |= PF_SNAPSHOT_CUT;
	else if (s->c_address + size > s->s.stack_end)
		s->s.stack_end = s->c_address + size;
}

/* Copy bytes of the C stack, unless they are in the piece that begins at the stack pointer. */
static __noinline void put_above(__u64 address, __u64 size)
{
	struct scratch *s = scratch();

	if (!s || address + size <= s->c_copied)
		return;
	read_c_stack(address, address + size);
	put_c_stack(address + size);
}

__noinline int has_thread(__u64 thread)
{
	const struct scratch *s = scratch();

	for (__u32 i = 0; s && i < PF_SNAPSHOT_THREADS && i < s->threads_n; i++)
		if (s->threads[i].at == thread)
			return 1;
	return 0;
}

/* Note a Lua thread. Returns its number, or PF_SNAPSHOT_THREADS if there are too many. */
static __always_inline __u32 add_thread(struct scratch *s, __u64 thread, __u64 low, __u64 high)
{
	const __u32 i = s->threads_n;

	if (i >= PF_SNAPSHOT_THREADS) {
		s->s.flags |= PF_SNAPSHOT_CUT;
		return PF_SNAPSHOT_THREADS;
	}
	s->threads[i].at = thread;
	s->threads[i].low = low;
	s->threads[i].high = high;
	s->threads_n = i + 1;
	return i;
}

#endif

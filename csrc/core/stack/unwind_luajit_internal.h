/* The parts of the unwinder for LuaJIT.
 *
 *   unwind_luajit.c         the running thread, its innermost function and the instruction
 *   unwind_luajit_frames.c  functions, the frames of a thread, and the threads that resumed it
 *   unwind_trace.c          compiled code: the trace, its snapshot, and the frames that the snapshot describes
 *   unwind_trace_functions.c  the functions that are compiled into a trace, and the sizes of their frames
 *   unwind_trace_lines.c    the lines to which a stretch of compiled code belongs
 *   unwind_trace_walk.c     walks along the bytecode for which compiled code stands
 *   unwind_trace_loops.c    the loops that a stretch of compiled code goes round
 *   unwind_trace_machine.c  the machine instructions of compiled code: calls, exits, marks of lines
 *   unwind_trace_collector.c  the lines where compiled code allocates, for samples in a call of the collector
 *   unwind_trace_calls.c      the snapshot of a call from a compiled loop
 *   unwind_trace_stretch.c    the function and the lines of compiled code that enters functions or leaves them
 *   unwind_trace_copy.c       the same for the copy of a loop
 *   unwind_trace_seen.c       what was found for compiled code, kept for later stacks */
#ifndef PF_UNWIND_LUAJIT_INTERNAL_H
#define PF_UNWIND_LUAJIT_INTERNAL_H

#include "core/stack/unwind_luajit.h"

enum {
	PF_LUAJIT_SLOT = 8,
	PF_LUAJIT_INSTRUCTION = 4,
	PF_LUAJIT_STACK_WORDS = 64,
	PF_LUAJIT_PROTOTYPE = 160, /* bytes before a function's code, at most */
	PF_LUAJIT_OBJECT = 64,
	PF_LUAJIT_CFRAME_FLAGS = 3,
	PF_LUAJIT_C_STACK = 8 << 20, /* bytes from the stack pointer to the interpreter's frame, at most */
	PF_LUAJIT_STACK = 1 << 20, /* bytes of a Lua stack: at most 65,500 slots, and some more after an overflow */
	PF_LUAJIT_ENTRY_SPACE = 16, /* bytes below its frame that the interpreter uses when it enters a trace */
	PF_LUAJIT_TAG_SHIFT = 47, /* the lower bits of a value are its address */
	PF_LUAJIT_CONSTANTS = 1 << 14, /* constants of traces that are searched for the functions of one stack */
};

/* The bits of an address in user space; the registers that have the interpreter's base, and the address of its next instruction. */
#if defined(__aarch64__)
enum { PF_LUAJIT_ADDRESS_BITS = 48, PF_LUAJIT_BASE = 19, PF_LUAJIT_PC = 21 };
#else
enum { PF_LUAJIT_ADDRESS_BITS = 47, PF_LUAJIT_BASE = PF_X86_RDX, PF_LUAJIT_PC = PF_X86_RBX };
#endif

/* The interpreter's vmstate: a trace's number (on arm64 0), one of these, or below them the compiler's. */
enum { PF_LUAJIT_INTERPRETER = -1, PF_LUAJIT_C = -2, PF_LUAJIT_COLLECTOR = -3, PF_LUAJIT_EXIT = -4 /* a trace is left */ };

/* The kinds of a frame's link, which is the word below its base. It is the return address in the caller's code, or the distance
 * to the caller's base with one of these kinds in its lower bits. */
enum { PF_LINK_LUA = 0, PF_LINK_C = 1, PF_LINK_CONTINUATION = 2, PF_LINK_VARARG = 3, PF_LINK_MASK = 3, PF_LINK_MASK_P = 7 };

/* A Lua or C function, as read from its object. */
struct pf_luajit_function {
	uint64_t object, code;
	uint32_t id; /* 0: Lua */
	/* Lua: the number of its instructions, its first line, how many lines follow, the lines of the instructions, its chunk's name and
	 * the length of that. */
	uint32_t n, first, lines;
	uint64_t lineinfo, name;
	uint32_t name_size;
};

struct pf_luajit_memo {
	/* The Lua function that was read last, its code 0 if there is none: the same is often looked at again, and functions call
	 * themselves and others of their chunk. */
	struct pf_luajit_function last;
	/* How many constants of traces have been searched for functions, over all frames of the stack. */
	unsigned constants;
	/* Operators whose metamethods the compiler may have put into the trace: bits of enum pf_trace_operator. */
	unsigned operators;
	/* Notes of what is read, for a result that is kept. NULL: none are made */
	struct pf_trace_reads *reads;
	int marked; /* marks of lines were found in the machine code, so the result depends on the offset in it */
	int refused; /* memory that belongs to the stack could not be read */
};

/* Kinds of reads: plain bytes, or a structure of which only some fields count. */
enum pf_trace_read_kind { PF_READ_BYTES, PF_READ_OBJECT, PF_READ_CODE, PF_READ_FRAME, PF_READ_TRACE };

struct pf_luajit_view {
	const struct pf_luajit_layout *l;
	const struct pf_memory *m;
	const struct pf_registers *r;
	struct pf_unwound *u;
	uint64_t global;
	int32_t vmstate;
	/* The thread that is being unwound, first the running one: the limits of its stack and its innermost frame on the C
	 * stack. */
	uint64_t thread, base, low, high, cframe;
	/* Words of the C stack below the running thread's frame there: word i is at cframe - 8 * (i + 1). */
	uint64_t words[PF_LUAJIT_STACK_WORDS];
	unsigned words_n;
	int switching; /* the global state names another thread, which has ended or yielded; this one continues soon */
	int skip, stopped;
	struct pf_luajit_memo *memo; /* changes while the rest is only read */
};

/* The lines of a range of instructions. */
struct pf_luajit_lines {
	uint32_t first, last;
};

/* A value: the address of its object, and its tag. */
static inline uint64_t pf_luajit_address(uint64_t value)
{
	return value & ((UINT64_C(1) << PF_LUAJIT_TAG_SHIFT) - 1);
}

static inline uint32_t pf_luajit_tag(uint64_t value)
{
	return (uint32_t)(value >> PF_LUAJIT_TAG_SHIFT);
}

static inline uint64_t pf_luajit_value(uint32_t tag, uint64_t object)
{
	return (uint64_t)tag << PF_LUAJIT_TAG_SHIFT | object;
}

/* Note a read; only while v->memo->reads is set. `at` is, by kind: BYTES the address of n bytes; OBJECT that of a function; CODE that of a
 * function's bytecode; FRAME the base of a frame; TRACE the number of a trace. */
void pf_luajit_note(const struct pf_luajit_view *v, enum pf_trace_read_kind kind, uint64_t at, size_t n);
/* A note of a structure stands for the reads that follow, up to pf_luajit_noted. */
static inline struct pf_trace_reads *pf_luajit_note_whole(const struct pf_luajit_view *v, enum pf_trace_read_kind kind, uint64_t at)
{
	struct pf_trace_reads *reads = v->memo->reads;

	if (reads)
		pf_luajit_note(v, kind, at, 0);
	v->memo->reads = NULL;
	return reads;
}

static inline int pf_luajit_noted(const struct pf_luajit_view *v, struct pf_trace_reads *reads, int result)
{
	v->memo->reads = reads;
	return result;
}

/* A fault costs some microseconds, so only plausible addresses are read. */
static inline int pf_luajit_is_address(uint64_t at)
{
	return at >> 16 && !(at >> PF_LUAJIT_ADDRESS_BITS);
}

/* These reads return 0 if the memory cannot be read. pf_luajit_read and pf_luajit_word note such a failure, and the
 * stack then counts as one that may not be whole; so a caller need not distinguish the failure from another value.
 * pf_luajit_guess notes nothing, since its address is only a guess, at which there is often no memory. If everything
 * else says that the guess is right, its caller calls pf_luajit_refuse. */
static inline void pf_luajit_refuse(const struct pf_luajit_view *v)
{
	v->memo->refused = 1;
}

static inline int pf_luajit_guess(const struct pf_luajit_view *v, void *to, uint64_t at, size_t n)
{
	if (!pf_luajit_is_address(at))
		return 0;
	if (v->memo->reads)
		pf_luajit_note(v, PF_READ_BYTES, at, n);
	return v->m->read(v->m, to, at, n) == 0;
}

static inline int pf_luajit_read(const struct pf_luajit_view *v, void *to, uint64_t at, size_t n)
{
	const int got = pf_luajit_guess(v, to, at, n);

	if (!got && pf_luajit_is_address(at))
		pf_luajit_refuse(v);
	return got;
}

static inline uint64_t pf_luajit_word(const struct pf_luajit_view *v, uint64_t at)
{
	uint64_t word;

	return pf_luajit_read(v, &word, at, sizeof word) ? word : 0;
}

/* Word i of the C stack below the running thread's frame, counted downwards as in `words`, which need not have it; 0 if it is below the
 * stack pointer. */
static inline uint64_t pf_luajit_c_word(const struct pf_luajit_view *v, uint32_t i)
{
	const uint64_t at = v->cframe - (uint64_t)PF_LUAJIT_SLOT * (i + 1);

	if (i < v->words_n)
		return v->words[i];
	return at >= v->r->sp ? pf_luajit_word(v, at) : 0;
}

/* Can this address be the base of a frame? */
static inline int pf_luajit_is_base(const struct pf_luajit_view *v, uint64_t at)
{
	return at % PF_LUAJIT_SLOT == 0 && at >= v->low + 2 * PF_LUAJIT_SLOT && at <= v->high;
}

/* Find the function at an address; and the function that a value refers to. */
int pf_luajit_object(const struct pf_luajit_view *v, uint64_t object, struct pf_luajit_function *f);
int pf_luajit_function(const struct pf_luajit_view *v, uint64_t value, struct pf_luajit_function *f);
/* The function whose frame has this base. */
int pf_luajit_function_at(const struct pf_luajit_view *v, uint64_t base, struct pf_luajit_function *f);
/* The function whose code begins there. */
int pf_luajit_function_of_code(const struct pf_luajit_view *v, uint64_t code, struct pf_luajit_function *f);
/* Is pc a return address in its code? */
int pf_luajit_holds(const struct pf_luajit_function *f, uint64_t pc);
/* The line of the instruction before pc, which is one of the function, as a distance from the function's first line: its place, 0 if
 * there is none; and its size. */
static inline unsigned pf_luajit_line_size(const struct pf_luajit_function *f)
{
	return f->lines < 1 << 8 ? 1 : f->lines < 1 << 16 ? 2 : 4;
}

static inline uint64_t pf_luajit_line_place(const struct pf_luajit_function *f, uint64_t pc)
{
	const uint64_t index = (pc - f->code) / PF_LUAJIT_INSTRUCTION - 1;

	return f->lineinfo && index ? f->lineinfo + (index - 1) * pf_luajit_line_size(f) : 0; /* the header has no entry */
}

/* The line of the instruction before pc; 0 if it has none. */
uint32_t pf_luajit_line(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc);
/* The base of the caller, from a return address in Lua code. */
uint64_t pf_luajit_lua_caller(const struct pf_luajit_view *v, uint64_t base, uint64_t pc);

/* A thread's innermost frame on the C stack; make it the thread that is unwound. */
int pf_luajit_is_thread(const struct pf_luajit_view *v, uint64_t thread);
uint64_t pf_luajit_cframe(const struct pf_luajit_view *v, uint64_t thread);
void pf_luajit_look_at(struct pf_luajit_view *v, uint64_t thread, uint64_t cframe);
/* Search the C stack upward from `from` for a frame of the interpreter, and select its thread. Returns 0 if there is none. */
int pf_luajit_find_above(struct pf_luajit_view *v, uint64_t from);
/* The interpreter's previous frame on the C stack; 0 if there is none. */
uint64_t pf_luajit_previous_cframe(const struct pf_luajit_view *v, uint64_t cframe);
/* C code can be called with a frame on the C stack but none on Lua's (lua_cpcall, the compiler). Such a frame has a negative
 * number of results: the place on Lua's stack where it was called. Skip those that are newer than the frame with this base. */
uint64_t pf_luajit_cframe_of(const struct pf_luajit_view *v, uint64_t cframe, uint64_t base);
/* C code called the frame with this base: the frame of that code on the C stack; 0: none. */
uint64_t pf_luajit_cframe_below(const struct pf_luajit_view *v, uint64_t cframe, uint64_t base);
/* The address that the interpreter has saved in its frame. */
uint64_t pf_luajit_saved_pc(const struct pf_luajit_view *v, uint64_t cframe);
/* Is it the base of a thread's outermost frame, which has no function? */
int pf_luajit_is_bottom(const struct pf_luajit_view *v, uint64_t base);

/* Report a function. lines: NULL if there are none. Returns 0 if the unwinding ends here. */
int pf_luajit_found(struct pf_luajit_view *v, const struct pf_luajit_function *f, const struct pf_luajit_lines *lines);
/* Report the frames from this base on; pc is the address after the innermost one's instruction, 0 if that is unknown. lines, if
 * it is not NULL, replaces the innermost one's line. */
void pf_luajit_frames(struct pf_luajit_view *v, uint64_t base, uint64_t pc, const struct pf_luajit_lines *lines);
void pf_luajit_fail(struct pf_luajit_view *v, int failure);

/* Report the frames of compiled code that runs or is being left. Returns 0 if there is none. trace_base: 0 if the global state
 * has none. */
int pf_luajit_trace(struct pf_luajit_view *v, uint64_t trace_base);
/* If pc lies in a trace's copy of the instruction that the trace has replaced, return the address in the function. */
uint64_t pf_luajit_replaced(const struct pf_luajit_view *v, uint64_t pc);

#endif

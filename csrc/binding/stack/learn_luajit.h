/* Learns the places of the fields that the unwinder needs (core/stack/unwind_luajit.h) in this LuaJIT, from functions, threads
 * and strings with known values, which it makes for this and leaves to the collector.
 *
 *   learn_luajit.c         the program of the probes, the global state
 *   learn_luajit_thread.c  threads, values, the interpreter's frames
 *   learn_luajit_code.c    functions and their prototypes, instructions
 *   learn_luajit_trace.c   compiled code
 *   learn_luajit_check.c   the unwinder's result for known stacks, compared with what Lua says */
#ifndef PB_LEARN_LUAJIT_H
#define PB_LEARN_LUAJIT_H

#include "binding/stack/learn.h"
#include "core/stack/unwind_trace.h"

#if PB_LUAJIT
/* Does jit.status say that the compiler is on? May raise for lack of memory. */
int pb_luajit_compiles(lua_State *L);
/* --- for the files of learn_luajit ---------------------------------------------------------------------------------- */

enum {
	PB_LUAJIT_GLOBAL = 1536, /* bytes of the global state that are searched */
	PB_LUAJIT_COMPILER = 8192, /* bytes of the global state and of the compiler's state, which follows it */
	PB_LUAJIT_CFRAME = 80, /* bytes of a C frame */
	PB_LUAJIT_TRACES = 2,
};

/* The functions of learn_luajit.c's program, on the stack of S, which keeps them. */
enum pb_luajit_probe {
	PB_LUAJIT_LOOK = 1,
	PB_LUAJIT_C_ONE,
	PB_LUAJIT_C_TWO,
	PB_LUAJIT_KEEP, /* a table */
	PB_LUAJIT_PLAIN,
	PB_LUAJIT_LONGER,
	PB_LUAJIT_RETURN_ONE,
	PB_LUAJIT_RETURN_SOME,
	PB_LUAJIT_RETURN_ALL,
	PB_LUAJIT_TAIL_CALL,
	PB_LUAJIT_TAIL_CALL_ALL,
	PB_LUAJIT_JUMPS,
	PB_LUAJIT_METAMETHOD,
	PB_LUAJIT_ALLOCATES,
	PB_LUAJIT_FILLS,
	PB_LUAJIT_JOINS,
	PB_LUAJIT_LOOPS_FEW,
	PB_LUAJIT_LOOPS_MANY,
	PB_LUAJIT_LOOPS_KINDS,
	PB_LUAJIT_CHECKS,
	PB_LUAJIT_FREE
};

/* 1 for each place, in units of 4 bytes, at which a field cannot be. */
struct pb_luajit_places {
	uint8_t out[PB_LUAJIT_GLOBAL / 4];
};

/* A trace, as it was seen while it allocated. */
struct pb_luajit_trace {
	uint64_t at, called_from, below_cframe; /* its address; a return address in it, and how far below the cframe that was */
	uint8_t bytes[PF_TRACE_HEAD];
	uint64_t bytecode; /* the first instruction of its function */
	uint32_t number;
	uint32_t at_array, at_length; /* bytes from the global state */
	uint32_t *after; /* PB_LUAJIT_COMPILER + 4 bytes: a copy of the global and the compiler's state, made when the loop had
			  * ended. It is too large for this struct, which is on the C stack. */
};

struct pb_learner {
	PB_LEARNER /* `now` is the thread that runs */
	uint64_t outermost; /* the learner's frame on the C stack */
	double known[2]; /* values that are passed to look */
	void (*look)(struct pb_learner *w, lua_State *L); /* called by the probes */
	unsigned looks;
	struct pb_luajit_places code, previous, first, lines, source, lineinfo, size, vmstate, running, trace_base;
	unsigned traces_n;
	struct pb_luajit_trace traces[PB_LUAJIT_TRACES];
	uint64_t inner_words[PB_LUAJIT_CFRAME / 8];
	void (*allocated)(struct pb_learner *w); /* called when the state allocates */
	uint64_t block; /* if the state resizes this block, the new size is noted */
	size_t block_size;
	int compiled; /* 1 after an allocation by compiled code */
	int collects; /* 1 if the collector was on; it is stopped while the learner runs */
	int loop_defined; /* the line where the compiled function is defined, and the line where it allocates */
	uint32_t loop_line;
};

/* pb_luajit_word, _number, _byte: 0 if the memory cannot be read. */
#define PB_LUAJIT_READ(name, type)                                                                             \
	static inline type pb_luajit_##name(const struct pb_learner *w, uint64_t at)                           \
	{                                                                                                      \
		type v = 0;                                                                                    \
                                                                                                               \
		return pf_luajit_is_address(at) && w->m->read(w->m, &v, at, sizeof v) == 0 ? v : 0;            \
	}
PB_LUAJIT_READ(word, uint64_t)
PB_LUAJIT_READ(number, uint32_t)
PB_LUAJIT_READ(byte, uint8_t)

/* The object at an index of S. */
static inline uint64_t pb_luajit_object(const struct pb_learner *w, int i)
{
	return pb_address(lua_topointer(w->S, i));
}

/* The base of the function that a thread runs. */
static inline uint64_t pb_luajit_base(const struct pb_learner *w, const lua_State *L)
{
	return pb_luajit_word(w, pb_address(L) + w->l->thread_base);
}

/* The first instruction of the function at an index of S. */
static inline uint64_t pb_luajit_code(const struct pb_learner *w, int i)
{
	return pb_luajit_word(w, pb_luajit_object(w, i) + w->l->function_code);
}

/* The number of instructions of the function whose code this is. */
static inline uint32_t pb_luajit_size(const struct pb_learner *w, uint64_t code)
{
	return pb_luajit_number(w, code - w->l->prototype_end + w->l->prototype_n);
}

/* The number of possible places, and the last one. A field is found if there is exactly one. */
struct pb_luajit_choice {
	unsigned n, at;
};

static inline void pb_luajit_choose(struct pb_luajit_choice *c, unsigned at)
{
	c->n++;
	c->at = at;
}

uint16_t pb_luajit_chosen(struct pb_learner *w, const struct pb_luajit_choice *c, const char *what);

#define PB_LUAJIT_WORDS(o, n) for (unsigned o = 0; o + 8 <= (n); o += 8)

/* NARROW excludes the places with a wrong value; pb_luajit_only returns the one that is left, in bytes, or fails. */
#define PB_LUAJIT_NARROW(places, n, holds)                  \
	for (unsigned i_ = 0; i_ < (n) / 4; i_++) {         \
		const unsigned o = i_ * 4;                  \
		if (!(places).out[i_] && !(holds))          \
			(places).out[i_] = 1;               \
	}
unsigned pb_luajit_only(struct pb_learner *w, const struct pb_luajit_places *places, unsigned n, const char *what);

/* Call a probe in T with the n arguments that are on top of S. */
void pb_luajit_run(struct pb_learner *w, int probe, int n);
/* Returns vmstate, and sets `compiled` if it is positive, as it is in compiled code. */
int32_t pb_luajit_compiled(struct pb_learner *w);
/* Run a loop that allocates, until it is compiled; `look` is called at its allocations. Returns 1 if `look` has counted one. */
int pb_luajit_run_loop(struct pb_learner *w, int loop, void (*look)(struct pb_learner *w));

void pb_luajit_learn_threads(struct pb_learner *w);
void pb_luajit_learn_cframes(struct pb_learner *w);
void pb_luajit_learn_functions(struct pb_learner *w);
/* c_one and c_two of the probes. */
int pb_luajit_c_one(lua_State *L);
int pb_luajit_c_two(lua_State *L);
void pb_luajit_learn_traces(struct pb_learner *w);
void pb_luajit_check(struct pb_learner *w);
#endif
#endif

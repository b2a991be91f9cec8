/* Learns the layout that the unwinder needs of this interpreter's structures: learn_luajit.h, learn_puc.h. learn.c has what both
 * share: the end of a failed learning, reading memory, and the check of the unwinder against what Lua says. */
#ifndef PB_LEARN_H
#define PB_LEARN_H

#include "binding/stack/stack.h"

/* Returns 0, or -ENOTSUP with the field that was not found, or not verified, in *why. Leaves hooks, allocator, collector, the
 * compiler's optimizations and L's stack as they were. May raise only if L has no memory for one small object. On LuaJIT without the
 * compiler the layout is that of the interpreter alone: then traces is 0. */
int pb_learn(lua_State *L, const struct pf_memory *m, struct pb_layout *l, const char **why);
/* The address of L's global state. */
uint64_t pb_global(lua_State *L, const struct pb_layout *l);
/* The address by which the unwinder identifies the C function at index i: that of its code, or if LuaJIT implements it in assembler
 * that of its instruction. */
uint64_t pb_unwound_function(lua_State *L, int i, const struct pb_layout *l);

/* --- for the learners ----------------------------------------------------------------------------------------------- */

/* The first members of both interpreters' struct pb_learner. S is the learner's thread, T the one that runs the inspected functions,
 * `now` the one that errors are raised in; alloc is the allocator that the state had. resumers: the threads whose functions the check
 * expects below those of the thread that runs, the innermost last. */
#define PB_LEARNER                      \
	lua_State *S, *T, *now;         \
	const struct pf_memory *m;      \
	struct pb_layout *l;            \
	const char *why;                \
	uint64_t global;                \
	lua_Alloc alloc;                \
	void *ud;                       \
	lua_State *resumers[4];         \
	unsigned n_resumers, checked;
struct pb_learner;

static inline uint64_t pb_address(const void *p)
{
	return (uintptr_t)p;
}

/* The learner, from upvalue 1 of the running C function. */
static inline struct pb_learner *pb_learner(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(1));
}

/* Raises an error, which ends the learning. */
void pb_learn_fail(struct pb_learner *w, const char *what);
/* Copy the readable bytes; the rest is 0. */
void pb_learn_grab(const struct pb_learner *w, void *to, uint64_t at, size_t n);
int pb_resume(lua_State *L, lua_State *from, int n);

/* The functions that are still expected: from a level of L on, then those of the first `thread` resumers. */
struct pb_expected {
	struct pb_learner *w;
	lua_State *L;
	int level;
	unsigned thread;
	int wrong;
};

/* A function `found` of struct pf_unwound: compares each function with what Lua says. */
int pb_learn_compare(void *to, const struct pf_place *p);
/* Did the unwinder find all of them, and nothing else? */
int pb_learn_is_right(struct pb_expected *e, const struct pf_unwound *u);
/* Run a text in T that calls `check` this many times; its arguments are the functions check, resume, pass and meta. */
void pb_learn_check(struct pb_learner *w, const char *text, size_t size, unsigned checks);

#endif

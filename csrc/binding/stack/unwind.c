/* The unwinder of this interpreter. Its layout is learned once, at the first start of a profiler. */
#include "binding/stack/stack.h"

#include <errno.h>
#include <stdatomic.h>

#include "core/base/peek.h"
#include "core/stack/own_thread.h"

#include "binding/stack/learn_luajit.h"

enum { MOST_FAILURES = 8 };

/* All states of the process share two layouts: that of the interpreter alone, and the one with compiled code. `known` is 1 while
 * a thread writes it, and 2 from then on. */
static struct {
	struct pb_layout layout;
	atomic_int known;
} learned[2];
static atomic_int failures;

#if PB_LUAJIT

static int is_whole(const struct pb_layout *l)
{
	return l->traces != 0;
}

/* While the compiler is off, compiled code cannot be learned, but the program may turn the compiler on. */
static int must_be_whole(lua_State *L)
{
	return pb_luajit_compiles(L);
}

/* Compiled code does not check for hooks, and the interpreter's handler of ^C sets one. So compiled code is brought to a safe
 * point, if it stops for one. */
static void serve_hook(const struct pb_stack *p)
{
	lua_State *main = (lua_State *)(uintptr_t)(p->global - p->layout.main_below);

	if (pb_engine_stops(p->global) && lua_gethook(main))
		pb_engine_trigger(NULL);
}

#else
#define is_whole(l) 1
#define must_be_whole(L) 1
#define serve_hook(p) ((void)(p))
#endif

static int find_layout(lua_State *L, const struct pf_memory *m, struct pb_layout *l, const char **why)
{
	const int least = must_be_whole(L);
	int none = 0, r;

	for (int i = 1; i >= least; i--)
		if (atomic_load(&learned[i].known) == 2) {
			*l = learned[i].layout;
			return 0;
		}
	*why = "the interpreter's structures could not be learned";
	if (atomic_load(&failures) >= MOST_FAILURES)
		return -ENOTSUP;
	r = pb_learn(L, m, l, why);
	if (r < 0)
		atomic_fetch_add(&failures, 1);
	else if (atomic_compare_exchange_strong(&learned[is_whole(l)].known, &none, 1)) {
		learned[is_whole(l)].layout = *l;
		atomic_store(&learned[is_whole(l)].known, 2);
	}
	return r;
}

uint64_t pb_unwind_function(lua_State *L, int i)
{
	for (unsigned k = 0; k < sizeof learned / sizeof *learned; k++)
		if (atomic_load(&learned[k].known) == 2)
			return pb_unwound_function(L, i, &learned[k].layout);
	return 0;
}

struct start {
	struct pb_stack *p;
	const char *why;
	int r;
};

static int start(lua_State *L)
{
	struct start *s = lua_touserdata(L, 1);
	const struct pf_memory *m = pf_own_memory(NULL);

	s->r = find_layout(L, m, &s->p->layout, &s->why);
	if (s->r == 0)
		s->p->global = pb_global(L, &s->p->layout);
	return 0;
}

/* LuaJIT can load a module that was built for Lua 5.1, such as a rock. */
static int is_luajit(lua_State *L)
{
	int is;

	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	lua_getfield(L, -1, "jit");
	is = lua_istable(L, -1);
	lua_pop(L, 2);
	return is;
}

int pb_unwind_start(lua_State *L, struct pb_stack *p, const char **why)
{
	struct start s = {.p = p};
	uint32_t generation;
	int raised;

	p->global = 0;
	*why = "this machine's registers are not known";
	if (!pf_own_registers_known())
		return -ENOTSUP;
	*why = "LuaJIT runs this module, which was built for " LUA_VERSION ": build it for LuaJIT";
	if (LUA_VERSION_NUM == 501 && !PB_LUAJIT && is_luajit(L))
		return -ENOTSUP;
	lua_pushcfunction(L, start);
	lua_pushlightuserdata(L, &s);
	generation = pf_fork_generation();
	pf_peek_take();
	raised = lua_pcall(L, 1, 0, 0);
	pf_peek_give(generation);
	if (raised)
		return lua_error(L);
	*why = s.why;
	return s.r;
}

void pb_unwind_learn_more(lua_State *L, struct pb_stack *p)
{
	const struct pb_layout before = p->layout;
	const uint64_t global = p->global;
	const char *why;

	if (is_whole(&before) || pb_unwind_start(L, p, &why) == 0)
		return;
	p->layout = before;
	p->global = global;
}

/* A function `found` of struct pf_unwound: keeps the first thread. */
static int keep_thread(void *to, const struct pf_place *place)
{
	*(uint64_t *)to = place->thread;
	return 1;
}

lua_State *pb_running_thread(const struct pb_stack *p, const struct pf_registers *r, const struct pf_memory *m)
{
	uint64_t thread = 0;
	struct pf_unwound u = {.found = keep_thread, .to = &thread};

	pb_unwind_by(&p->layout, p->global, r, m, &u);
	return (lua_State *)(uintptr_t)thread;
}

void pb_unwind_callback(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u)
{
	const struct pb_stack *p = owner;

	pb_unwind_by(&p->layout, p->global, r, m, u);
	if (p->marks)
		pb_marks_set(p);
}

void pb_unwind(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u)
{
	const struct pb_stack *p = owner;

	pb_unwind_by(&p->layout, p->global, r, m, u);
	if (p->marks)
		pb_marks_set(p);
	if (pb_on_trigger)
		pb_on_trigger(p, r, m);
	serve_hook(p);
}

/* The last part of learn_puc.c that looks for something: the functions that all garbage collection runs in, luaC_step and luaC_fullgc.
 * Lua collects in one of them whenever memory has been allocated, and in the other when a program calls collectgarbage().
 *
 * A Lua state of our own makes garbage. When its allocator is asked to free a block, the frames of the C stack are compared with those
 * of a C function that the same caller has called before: the nearest frame that both have is the caller's, the interpreter's loop
 * or our C function. The frame before it is the collector's. A function that also allocates while the collector is stopped is not the
 * collector's. If the functions are not found, no sample is shown in the collector. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "core/stack/own_thread.h"

enum { MOST_FRAMES = 32, MOST_USUAL = 64, MOST_TABLES = 20000 };

/* The first loop allocates without a collector. */
static const char text[] = "local here, more = ...\n"
			   "local t = {}\n"
			   "here()\n"
			   "for i = 1, 100 do\n"
			   "  t[i] = {i}\n"
			   "  t['a' .. i] = function() return i end\n"
			   "end\n"
			   "t = nil\n"
			   "while more() do\n"
			   "  local x = {}\n"
			   "end\n";

struct frames {
	unsigned n;
	struct {
		struct pf_puc_code function;
		uint64_t above;
	} at[MOST_FRAMES];
};

struct garbage {
	const struct pb_learner *w;
	struct frames base; /* of the C function */
	unsigned usual_n, made;
	uint64_t usual[MOST_USUAL]; /* the functions that allocate while the collector is stopped */
	int collects, skip;         /* skip: functions between the caller and the collector */
	struct pf_puc_code caller, collector;
};

static struct garbage *garbage(lua_State *L)
{
	void *ud;

	lua_getallocf(L, &ud);
	return ud;
}

static __attribute__((noinline)) void look(const struct garbage *g, struct frames *frames)
{
	const struct pf_code *code = g->w->l->loop.code;
	struct pf_c_frame f = {.called = 0};

	pf_own_registers_here(&f.r);
	for (frames->n = 0; frames->n < MOST_FRAMES && pf_c_frame_look(code, g->w->m, &f) == 0;) {
		frames->at[frames->n].function = (struct pf_puc_code){f.from, f.end};
		frames->at[frames->n++].above = f.above;
		if (pf_c_frame_leave(code, g->w->m, &f) < 0)
			break;
	}
}

/* The number of the nearest frame that the C function had too; 0 if there is none. */
static unsigned common(const struct garbage *g, const struct frames *frames)
{
	for (unsigned i = 0; i < frames->n; i++)
		for (unsigned k = 0; k < g->base.n; k++)
			if (frames->at[i].above == g->base.at[k].above && frames->at[i].function.from == g->base.at[k].function.from)
				return i;
	return 0;
}

static int is_usual(const struct garbage *g, uint64_t function)
{
	for (unsigned i = 0; i < g->usual_n; i++)
		if (g->usual[i] == function)
			return 1;
	return g->usual_n == MOST_USUAL;
}

static void note(struct garbage *g, const struct frames *frames, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!is_usual(g, frames->at[i].function.from))
			g->usual[g->usual_n++] = frames->at[i].function.from;
}

static void see(struct garbage *g, int frees)
{
	struct frames frames;
	unsigned n;

	look(g, &frames);
	n = common(g, &frames);
	if (!g->collects)
		note(g, &frames, n);
	else if (frees && n > (unsigned)g->skip && !is_usual(g, frames.at[n - 1 - (unsigned)g->skip].function.from)) {
		g->caller = frames.at[n].function;
		g->collector = frames.at[n - 1 - (unsigned)g->skip].function;
	}
}

static void *allocate(void *ud, void *block, size_t old, size_t new)
{
	struct garbage *g = ud;

	(void)old;
	if (g->base.n && !g->collector.from)
		see(g, block && !new);
	if (new)
		return realloc(block, new);
	free(block);
	return NULL;
}

static int here(lua_State *L)
{
	look(garbage(L), &garbage(L)->base);
	return 0;
}

static int more(lua_State *L)
{
	struct garbage *g = garbage(L);

	if (!g->collects)
		lua_gc(L, LUA_GCRESTART, 0);
	g->collects = 1;
	lua_pushboolean(L, !g->collector.from && g->made++ < MOST_TABLES);
	return 1;
}

/* Garbage for a whole collection; between this function and the collector's is lua_gc. */
static __attribute__((noinline)) int collect(lua_State *L)
{
	struct garbage *g = garbage(L);

	g->base.n = 0;
	lua_newtable(L);
	lua_pop(L, 1);
	look(g, &g->base);
	g->collector.from = 0;
	g->skip = 1;
	lua_gc(L, LUA_GCCOLLECT, 0);
	return 0;
}

/* In protected mode. */
static int run(lua_State *L)
{
	struct pf_puc_layout *l = garbage(L)->w->l;

	lua_gc(L, LUA_GCSTOP, 0);
	if (luaL_loadbuffer(L, text, sizeof text - 1, "=perf") != 0)
		return lua_error(L);
	lua_pushcfunction(L, here);
	lua_pushcfunction(L, more);
	lua_call(L, 2, 0);
	l->collector.functions[0] = garbage(L)->collector;
	l->collector.loop = garbage(L)->caller;
	if (!l->collector.functions[0].from)
		return 0;
	lua_pushcfunction(L, collect);
	lua_call(L, 0, 0);
	l->collector.functions[1] = garbage(L)->collector;
	return 0;
}

void pb_puc_learn_collector(struct pb_learner *w)
{
	struct garbage g = {.w = w};
	lua_State *S = lua_newstate(allocate, &g);
	int status = 1;

	if (S) {
#if LUA_VERSION_NUM == 501
		status = lua_cpcall(S, run, NULL); /* pushing a C function allocates */
#else
		lua_pushcfunction(S, run);
		status = lua_pcall(S, 0, 0, 0);
#endif
		g.base.n = 0;
		lua_close(S);
	}
	if (status != 0)
		pb_learn_fail(w, "memory");
}
#endif

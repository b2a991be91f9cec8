/* See learn.h. */
#include "binding/stack/learn_luajit.h"
#include "binding/stack/learn_puc.h"

#include <string.h>

void pb_learn_fail(struct pb_learner *w, const char *what)
{
	w->why = what;
	lua_pushnil(w->now);
	lua_error(w->now);
}

void pb_learn_grab(const struct pb_learner *w, void *to, uint64_t at, size_t n)
{
	const size_t step = sizeof(void *);

	if (at && w->m->read(w->m, to, at, n) == 0)
		return;
	memset(to, 0, n);
	for (size_t i = 0; at && i + step <= n; i += step)
		if (w->m->read(w->m, (char *)to + i, at + i, step) < 0)
			return;
}

int pb_resume(lua_State *L, lua_State *from, int n)
{
#if LUA_VERSION_NUM >= 504
	int results;

	return lua_resume(L, from, n, &results);
#elif LUA_VERSION_NUM >= 502
	return lua_resume(L, from, n);
#else
	(void)from;
	return lua_resume(L, n);
#endif
}

/* --- the check ------------------------------------------------------------------------------------------------------ */

/* Get the next function that Lua reports. Returns 0 if there is none that we know. */
static int next(struct pb_expected *e, lua_Debug *ar)
{
	for (;;) {
		if (lua_getstack(e->L, e->level++, ar)) {
			lua_getinfo(e->L, "Sl", ar);
			if (ar->what[0] != 't') /* 5.1's placeholder for functions that tail calls have replaced */
				return 1;
			continue;
		}
		if (e->thread == 0)
			return 0;
		e->L = e->w->resumers[--e->thread];
		e->level = 0;
	}
}

static int is_same(const struct pb_expected *e, lua_Debug *ar, const struct pf_place *p)
{
	uint64_t function;

	if (p->thread != pb_address(e->L))
		return 0;
	if (ar->what[0] == 'C') {
		lua_getinfo(e->L, "f", ar);
		function = pb_unwound_function(e->L, -1, e->w->l);
		lua_pop(e->L, 1);
		return p->kind != PF_PLACE_LUA && p->function == function;
	}
	return p->kind == PF_PLACE_LUA && p->source == pb_address(ar->source) && p->source_size == strlen(ar->source) &&
	       p->linedefined == (ar->linedefined > 0 ? ar->linedefined : 0) &&
	       p->line == (ar->currentline > 0 ? (uint32_t)ar->currentline : 0) && p->end == p->line;
}

int pb_learn_compare(void *to, const struct pf_place *p)
{
	struct pb_expected *e = to;
	lua_Debug ar;

	if (!next(e, &ar))
		return 1; /* the frames that follow are of the program's own threads */
	e->wrong |= !is_same(e, &ar, p);
	return e->wrong;
}

int pb_learn_is_right(struct pb_expected *e, const struct pf_unwound *u)
{
	lua_Debug ar;

	return !e->wrong && u->failed == PF_UNWIND_COMPLETE && !next(e, &ar);
}

static __attribute__((noinline)) int check(lua_State *L)
{
	struct pb_learner *w = pb_learner(L);
	struct pb_expected e = {.w = w, .L = L, .thread = w->n_resumers};
	const struct pf_registers r = {.ip = PB_LUAJIT ? (uintptr_t)check : 0, .sp = (uintptr_t)__builtin_frame_address(0)};
	struct pf_unwound u = {.found = pb_learn_compare, .to = &e};

	pb_unwind_by(w->l, w->global, &r, w->m, &u);
	if (!pb_learn_is_right(&e, &u) || u.state != PF_AT_C)
		return luaL_error(L, "wrong");
	w->checked++;
	return 0;
}

static int resume(lua_State *L)
{
	struct pb_learner *w = pb_learner(L);
	const int n = lua_gettop(L);
	lua_State *co = lua_newthread(L);
	int status;

	lua_insert(L, 1);
	lua_xmove(L, co, n);
	w->resumers[w->n_resumers++] = L;
	status = pb_resume(co, L, n - 1);
	w->n_resumers--;
	return status == 0 ? 0 : luaL_error(L, "wrong");
}

static int pass(lua_State *L)
{
	return lua_pcall(L, lua_gettop(L) - 1, 0, 0) == 0 ? 0 : lua_error(L);
}

static int meta(lua_State *L)
{
	lua_setmetatable(L, 1);
	return 1;
}

void pb_learn_check(struct pb_learner *w, const char *text, size_t size, unsigned checks)
{
	static const lua_CFunction functions[] = {check, resume, pass, meta};
	enum { N = sizeof functions / sizeof *functions };

	luaL_checkstack(w->S, N + 2, NULL);
	if (luaL_loadbuffer(w->S, text, size, "=perf check") != 0)
		pb_learn_fail(w, "the check's text");
#if PB_LUAJIT
	luaJIT_setmode(w->S, -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
#endif
	for (int i = 0; i < N; i++) {
		lua_pushlightuserdata(w->S, w);
		lua_pushcclosure(w->S, functions[i], 1);
	}
	lua_xmove(w->S, w->T, N + 1);
	w->checked = 0;
	if (lua_pcall(w->T, N, 0, 0) != 0 || w->checked != checks)
		pb_learn_fail(w, "the unwinder's result");
}

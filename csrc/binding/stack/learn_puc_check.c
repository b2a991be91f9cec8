/* The last part of learn_puc.c: compares the unwinder's results with Lua's own. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <string.h>

/* A coroutine in a coroutine, a function with more arguments than parameters, tail calls, protected calls, a metamethod, an
 * iterator; `check` is called in all of them. */
static const char text[] = "local check, resume, pass, meta = ...\n"
			   "local function tail(...) return check(...) end\n"
			   "local function calls(f, ...)\n"
			   "  local r = f(...)\n"
			   "  return r\n"
			   "end\n"
			   "local function lower(f, ...)\n"
			   "  return calls(f, ...)\n"
			   "end\n"
			   "local t = meta({}, {__index = function(_, k)\n"
			   "  check()\n"
			   "  return lower(tail, k)\n"
			   "end, __add = function(a, b)\n"
			   "  return a[b]\n"
			   "end})\n"
			   "check()\n"
			   "pass(check)\n"
			   "pass(tail, 1, 2)\n"
			   "resume(function(...)\n"
			   "  check(...)\n"
			   "  pass(function(...)\n"
			   "    for _ in check, ... do end\n"
			   "    resume(function()\n"
			   "      local x = t + 1\n"
			   "      pass(lower, tail)\n"
			   "    end)\n"
			   "    check()\n"
			   "  end, 1, 2)\n"
			   "end, 1)\n"
			   "check()\n";
enum { CHECKS = 10 };

struct seen {
	struct pb_puc_learner *w;
	lua_State *L;
	int level;
	unsigned thread; /* among the resumers */
	int wrong;
};

/* Get the next function that Lua reports. Returns 0 if there is none that we know. */
static int next(struct seen *s, lua_Debug *ar)
{
	for (;;) {
		if (lua_getstack(s->L, s->level++, ar)) {
			lua_getinfo(s->L, "Sl", ar);
			if (ar->what[0] != 't') /* 5.1's placeholder for functions that tail calls have replaced */
				return 1;
			continue;
		}
		if (s->thread == 0)
			return 0;
		s->L = s->w->resumers[--s->thread];
		s->level = 0;
	}
}

static int is_same(const struct seen *s, lua_Debug *ar, const struct pf_place *p)
{
	char name[64];
	uintptr_t code;

	if (ar->what[0] == 'C') {
		lua_getinfo(s->L, "f", ar);
		code = (uintptr_t)lua_tocfunction(s->L, -1);
		lua_pop(s->L, 1);
		return p->kind == PF_PLACE_C && p->function == code;
	}
	if (p->kind != PF_PLACE_LUA || p->linedefined != (ar->linedefined > 0 ? ar->linedefined : 0) || p->end != p->line)
		return 0;
	if (p->line != (ar->currentline > 0 ? (uint32_t)ar->currentline : 0) || p->source_size != strlen(ar->source))
		return 0;
	return p->source_size <= sizeof name && s->w->m->read(s->w->m, name, p->source, p->source_size) == 0 &&
	       memcmp(name, ar->source, p->source_size) == 0;
}

static int on_place(void *to, const struct pf_place *p)
{
	struct seen *s = to;
	lua_Debug ar;

	if (!next(s, &ar))
		return 1; /* the frames that follow are of the program's own threads */
	s->wrong |= !is_same(s, &ar, p) || p->thread != (uintptr_t)s->L;
	return s->wrong;
}

static struct pb_puc_learner *learner(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(1));
}

static __attribute__((noinline)) int check(lua_State *L)
{
	struct pb_puc_learner *w = learner(L);
	struct seen s = {.w = w, .L = L, .thread = w->n_resumers};
	struct pf_registers r = {.sp = (uintptr_t)__builtin_frame_address(0)};
	struct pf_unwound u = {.found = on_place, .to = &s};
	lua_Debug ar;

	pf_unwind_puc(w->l, w->global, &r, w->m, &u);
	if (s.wrong || u.failed || u.state != PF_AT_C || next(&s, &ar))
		return luaL_error(L, "wrong");
	w->checked++;
	return 0;
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

static int resume(lua_State *L)
{
	struct pb_puc_learner *w = learner(L);
	const int n = lua_gettop(L);
	lua_State *co = lua_newthread(L);
	int status;

	lua_insert(L, 1);
	lua_xmove(L, co, n);
	w->resumers[w->n_resumers++] = L;
	status = pb_puc_resume(co, L, n - 1);
	w->n_resumers--;
	return status == 0 ? 0 : luaL_error(L, "wrong");
}

static _Thread_local struct pb_puc_learner *stepping;

static int on_innermost(void *to, const struct pf_place *p)
{
	*(struct pf_place *)to = *p;
	return 1;
}

/* Before an instruction: check the innermost function's line without its caller. */
static void step(lua_State *L, lua_Debug *ar)
{
	struct pb_puc_learner *w = stepping;
	struct pf_puc_layout saved = *w->l;
	struct pf_place p = {.kind = PF_PLACE_C};
	struct pf_registers r = {.sp = (uintptr_t)__builtin_frame_address(0)};
	struct pf_unwound u = {.found = on_innermost, .to = &p};

	saved.loop.from = 0; /* Lua has saved it for the hook */
	pf_unwind_puc(&saved, w->global, &r, w->m, &u);
	lua_getinfo(L, "Sl", ar);
	w->stepped += u.state == PF_AT_LUA && p.kind == PF_PLACE_LUA && p.linedefined == ar->linedefined &&
		      p.line == (uint32_t)ar->currentline;
}

static void check_steps(struct pb_puc_learner *w)
{
	stepping = w;
	pb_puc_give(w, PB_PUC_JUMPS, PB_PUC_JUMPS);
	lua_sethook(w->T, step, LUA_MASKCOUNT, 1);
	pb_puc_call(w, 0);
	lua_sethook(w->T, NULL, 0, 0);
	if (w->stepped != (unsigned)w->jumps.n)
		pb_puc_fail(w, "the check of lines");
}

void pb_puc_check(struct pb_puc_learner *w)
{
	static const lua_CFunction functions[] = {check, resume, pass, meta};
	int status;

	w->resumers[0] = w->S;
	w->n_resumers = 1;
	if (luaL_loadbuffer(w->T, text, sizeof text - 1, "=perf check") != 0)
		pb_puc_fail(w, "the check's text");
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		pb_puc_give_function(w, functions[i]);
	status = lua_pcall(w->T, 4, 0, 0);
	if (status != 0 || w->checked != CHECKS)
		pb_puc_fail(w, "the check");
	check_steps(w);
}
#endif

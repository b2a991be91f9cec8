/* The last part of learn_puc.c: compares the unwinder's results with Lua's own. */
#include "binding/stack/learn_puc.h"

#include "core/base/thread.h"

#if !PB_LUAJIT
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

static PF_THREAD_LOCAL struct pb_learner *stepping;

static int on_innermost(void *to, const struct pf_place *p)
{
	*(struct pf_place *)to = *p;
	return 1;
}

/* Before an instruction: check the innermost function's line without its caller. */
static void step(lua_State *L, lua_Debug *ar)
{
	struct pb_learner *w = stepping;
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

static void check_steps(struct pb_learner *w)
{
	stepping = w;
	pb_puc_give(w, PB_PUC_JUMPS, PB_PUC_JUMPS);
	lua_sethook(w->T, step, LUA_MASKCOUNT, 1);
	pb_puc_call(w, 0);
	lua_sethook(w->T, NULL, 0, 0);
	if (w->stepped != (unsigned)w->jumps.n)
		pb_learn_fail(w, "the check of lines");
}

void pb_puc_check(struct pb_learner *w)
{
	w->resumers[0] = w->S;
	w->n_resumers = 1;
	pb_learn_check(w, text, sizeof text - 1, CHECKS);
	check_steps(w);
}
#endif

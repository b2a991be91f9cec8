/* See learn_luajit.h. Unwinds known stacks: a coroutine in a coroutine, variable arguments, a tail call, metamethods, C functions
 * that call Lua, and compiled code. The result must be equal to Lua's own. */
#include "binding/stack/learn_luajit.h"

#if PB_LUAJIT
static const char text[] = "local check, resume, pass, meta = ...\n"
			   "local function inner(...)\n"
			   "  check(...)\n"
			   "  return 1\n"
			   "end\n"
			   "local function tail(...)\n"
			   "  return inner(...)\n"
			   "end\n"
			   "local t = meta({}, {__index = function(t, k)\n"
			   "  tail(t, k)\n"
			   "  return k\n"
			   "end, __add = function(t, k)\n"
			   "  local a = t[k]\n"
			   "  return a\n"
			   "end})\n"
			   "local function outer(t)\n"
			   "  local a = t + 1\n"
			   "  return a\n"
			   "end\n"
			   "local function start(t)\n"
			   "  pass(function() resume(outer, t) end)\n"
			   "end\n"
			   "start(t)\n";

/* --- compiled code ----------------------------------------------------------------------------------------------------- */

struct in_loop {
	struct pb_expected callers;
	struct pf_place innermost;
	unsigned n;
};

static int on_place(void *to, const struct pf_place *place)
{
	struct in_loop *f = to;

	if (f->n++ > 0)
		return pb_learn_compare(&f->callers, place);
	f->innermost = *place;
	return 0;
}

/* A loop allocates in compiled code at a known line. */
static void look_in_loop(struct pb_learner *w)
{
	struct in_loop f = {.callers = {.w = w, .L = w->S}};
	const struct pf_registers r = {.ip = (uintptr_t)look_in_loop, .sp = (uintptr_t)__builtin_frame_address(0)};
	struct pf_unwound u = {.found = on_place, .to = &f};

	if (pb_luajit_compiled(w) < 0)
		return;
	pf_unwind_luajit(w->l, w->global, &r, w->m, &u);
	w->allocated = NULL;
	w->checked = pb_learn_is_right(&f.callers, &u) && u.state == PF_AT_LUA && f.innermost.kind == PF_PLACE_LUA &&
		     f.innermost.linedefined == w->loop_defined && f.innermost.line <= w->loop_line && f.innermost.end >= w->loop_line;
	w->looks++;
}

static void check_trace(struct pb_learner *w)
{
	lua_Debug ar;

	lua_pushvalue(w->S, PB_LUAJIT_LOOPS_FEW);
	lua_getinfo(w->S, ">S", &ar);
	w->loop_defined = ar.linedefined;
	w->loop_line = (uint32_t)ar.lastlinedefined - 3;
	if (!pb_luajit_run_loop(w, PB_LUAJIT_LOOPS_FEW, look_in_loop))
		w->l->traces = 0; /* the trace is gone */
	else if (!w->checked)
		pb_learn_fail(w, "the unwinder's result in compiled code");
}

void pb_luajit_check(struct pb_learner *w)
{
	w->n_resumers = 2;
	w->resumers[1] = w->S; /* and that one by the program's thread */
	pb_learn_check(w, text, sizeof text - 1, 1);
	if (w->l->traces)
		check_trace(w);
}
#endif

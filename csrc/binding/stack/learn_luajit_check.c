/* See learn_luajit.h. Unwinds known stacks: a coroutine in a coroutine, variable arguments, a tail call, metamethods, C functions
 * that call Lua, and compiled code. The result must be equal to Lua's own. */
#include "binding/stack/learn_luajit.h"

#if PB_LUAJIT
#include "core/stack/sampling.h"

static const char text[] = "local look, call, resume = ...\n"
			   "local function inner(...)\n"
			   "  look(...)\n"
			   "  return 1\n"
			   "end\n"
			   "local function tail(...)\n"
			   "  return inner(...)\n"
			   "end\n"
			   "local function index(t, k)\n"
			   "  tail(t, k)\n"
			   "  return k\n"
			   "end\n"
			   "local function add(t, k)\n"
			   "  local a = t[k]\n"
			   "  return a\n"
			   "end\n"
			   "local function outer(t)\n"
			   "  local a = t + 1\n"
			   "  return a\n"
			   "end\n"
			   "local function start(t)\n"
			   "  call(function() resume(outer, t) end)\n"
			   "end\n"
			   "return start, index, add\n";

enum { MOST = 260 };

/* A stack that was unwound. */
struct found {
	unsigned n;
	struct pf_place places[MOST];
};

static int keep(void *to, const struct pf_place *place)
{
	struct found *f = to;

	if (f->n == MOST)
		return 1;
	f->places[f->n++] = *place;
	return 0;
}

static struct pf_unwound unwind(struct pb_luajit_learner *w, struct found *f)
{
	const struct pf_registers r = {.ip = (uintptr_t)unwind, .sp = (uintptr_t)__builtin_frame_address(0)};
	struct pf_unwound u = {.found = keep, .to = f};

	f->n = 0;
	pf_unwind_luajit(w->l, w->global, &r, w->m, &u);
	return u;
}

static int is_there(const struct pf_luajit_layout *l, lua_State *L, lua_Debug *ar, const struct pf_place *p)
{
	uint64_t function;

	if (!lua_getinfo(L, "Slf", ar))
		return 0;
	function = pb_luajit_function_address(L, -1, l);
	lua_pop(L, 1);
	if (p->thread != (uintptr_t)L)
		return 0;
	if (ar->what[0] == 'C')
		return p->kind != PF_PLACE_LUA && p->function == function;
	return p->kind == PF_PLACE_LUA && p->source == (uintptr_t)ar->source && p->linedefined == ar->linedefined &&
	       p->line == (uint32_t)ar->currentline && p->end == p->line;
}

/* Are the thread's functions, from a level on, among the places from index `from` on? Returns the index after the last one; 0 if
 * not. */
static unsigned has_thread(const struct pf_luajit_layout *l, lua_State *L, int level, const struct found *f, unsigned from)
{
	lua_Debug ar;

	for (; from < MOST && lua_getstack(L, level, &ar); level++)
		if (from == f->n || !is_there(l, L, &ar, &f->places[from++]))
			return 0;
	return from;
}

/* Resumes a coroutine that calls the function with its argument. */
static int l_resume(lua_State *L)
{
	lua_State *co = lua_newthread(L);

	lua_insert(L, 1);
	lua_xmove(L, co, 2);
	if (lua_resume(co, 1) > LUA_YIELD)
		return lua_error(L);
	return 0;
}

static int l_call(lua_State *L)
{
	lua_call(L, 0, 0);
	return 0;
}

static void look_at_stack(struct pb_luajit_learner *w, lua_State *L)
{
	struct found f;
	const struct pf_unwound u = unwind(w, &f);
	unsigned n;

	if (u.failed != PF_UNWIND_COMPLETE || u.state != PF_AT_C)
		return;
	n = has_thread(w->l, L, 0, &f, 0);
	n = n ? has_thread(w->l, w->T, 0, &f, n) : 0;
	n = n ? has_thread(w->l, w->S, 0, &f, n) : 0;
	w->checked += n && has_thread(w->l, w->L, 0, &f, n);
}

static void check_stack(struct pb_luajit_learner *w)
{
	lua_State *S = w->S;

	if (luaL_loadbuffer(S, text, sizeof text - 1, "=perf") != 0)
		pb_luajit_fail(w, "the probe");
	luaJIT_setmode(S, -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
	lua_pushvalue(S, PB_LUAJIT_LOOK);
	lua_pushcfunction(S, l_call);
	lua_pushcfunction(S, l_resume);
	lua_call(S, 3, 3);
	lua_createtable(S, 0, 2);
	lua_insert(S, -3);
	lua_setfield(S, -3, "__add");
	lua_setfield(S, -2, "__index");
	lua_newtable(S);
	lua_insert(S, -2);
	lua_setmetatable(S, -2);
	lua_insert(S, -2);
	lua_replace(S, PB_LUAJIT_LOOK + 1);
	w->look = look_at_stack;
	w->checked = 0;
	pb_luajit_run(w, PB_LUAJIT_LOOK + 1, 1);
	if (!w->checked)
		pb_luajit_fail(w, "the unwinder's result");
}

/* --- compiled code ----------------------------------------------------------------------------------------------------- */

/* A loop that calls look from its second line, and then allocates in compiled code at a known line. */
static void look_in_loop(struct pb_luajit_learner *w)
{
	struct found f;
	struct pf_unwound u;

	if (pb_luajit_compiled(w) < 0)
		return;
	u = unwind(w, &f);
	w->allocated = NULL;
	w->checked = u.failed == PF_UNWIND_COMPLETE && u.state == PF_AT_LUA && f.n > 1 && f.places[0].kind == PF_PLACE_LUA &&
		     f.places[0].linedefined == w->loop_defined && f.places[0].line <= w->loop_line && f.places[0].end >= w->loop_line &&
		     f.places[1].thread == (uintptr_t)w->S && has_thread(w->l, w->S, 0, &f, 1) != 0;
	w->looks++;
}

static void check_trace(struct pb_luajit_learner *w)
{
	lua_Debug ar;

	lua_pushvalue(w->S, PB_LUAJIT_LOOPS_FEW);
	lua_getinfo(w->S, ">S", &ar);
	w->loop_defined = ar.linedefined;
	w->loop_line = (uint32_t)ar.lastlinedefined - 3;
	if (!pb_luajit_run_loop(w, PB_LUAJIT_LOOPS_FEW, look_in_loop))
		w->l->traces = 0; /* the trace is gone */
	else if (!w->checked)
		pb_luajit_fail(w, "the unwinder's result in compiled code");
}

void pb_luajit_check(struct pb_luajit_learner *w)
{
	check_stack(w);
	if (w->l->traces)
		check_trace(w);
}
#endif

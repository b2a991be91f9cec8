/* See learn_luajit.h. Each field is found by known values; if a field has no possible place, or more than one, the learning
 * fails. All of this runs in threads of our own. */
#include "binding/stack/learn_luajit.h"

#if PB_LUAJIT
#include <errno.h>
#include <lualib.h>
#include <string.h>

/* The loops at the end are compiled. They keep numbers across a call that allocates; the second loop keeps more than there are
 * registers. */
static const char text[] = "local look = ...\n"
			   "local function plain()\n"
			   "  look()\n"
			   "\n"
			   "  look()\n"
			   "end\n"
			   "local function longer(a)\n"
			   "  look() look()\n"
			   "\n"
			   "\n"
			   "\n"
			   "  look()\n"
			   "\n"
			   "end\n"
			   "local function return_one(a) return a end\n"
			   "local function return_some(a) return a, a end\n"
			   "local function return_all(...) return ... end\n"
			   "local function tail_call(a) return look(a) end\n"
			   "local function tail_call_all(...) return look(...) end\n"
			   "local function jumps(a)\n"
			   "  while a do a = look() end\n"
			   "end\n"
			   "local function metamethod(t)\n"
			   "  local a = t.a\n"
			   "  return a\n"
			   "end\n"
			   "local function allocates(keep)\n"
			   "  local t = {}\n"
			   "  keep[1] = t\n"
			   "end\n"
			   "local function fills()\n"
			   "  local t = {1}\n"
			   "end\n"
			   "local function joins(a, b)\n"
			   "  local c = a .. b\n"
			   "end\n"
			   "local function few(keep, n)\n"
			   "  local a, b, c, d = 1, 2, 3, 4\n"
			   "  for i = 1, n do\n"
			   "    a = a + i b = b + a c = c + b d = d + c\n"
			   "    keep[1] = {}\n"
			   "  end\n"
			   "  return a, b, c, d\n"
			   "end\n"
			   "local function many(keep, n)\n"
			   "  local a, b, c, d, e, f, g, h, k, l, m, o = 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3\n"
			   "  for i = 1, n do\n"
			   "    a = a + i b = b + a c = c + b d = d + c e = e + d f = f + e g = g + f h = h + g k = k + h l = l + k m = m + l\n"
			   "    keep[1] = {}\n"
			   "    o = o + m\n"
			   "  end\n"
			   "  return a, b, c, d, e, f, g, h, k, l, m, o\n"
			   "end\n"
			   "local function kinds(keep, n)\n"
			   "  for i = 1, n do\n"
			   "    keep[1] = {}\n"
			   "    keep[2] = {i, 1}\n"
			   "    keep[3] = i .. ''\n"
			   "    keep[4] = i .. ' ' .. i\n"
			   "  end\n"
			   "end\n"
			   "return plain, longer, return_one, return_some, return_all, tail_call, tail_call_all, jumps, metamethod, allocates,\n"
			   "  fills, joins, few, many, kinds\n";

/* --- looking -------------------------------------------------------------------------------------------------------- */

unsigned pb_luajit_only(struct pb_learner *w, const struct pb_luajit_places *places, unsigned n, const char *what)
{
	unsigned found = 0, at = 0;

	for (unsigned i = 0; i < n / 4; i++)
		if (!places->out[i]) {
			found++;
			at = i * 4;
		}
	if (found != 1)
		pb_learn_fail(w, what);
	return at;
}

uint16_t pb_luajit_chosen(struct pb_learner *w, const struct pb_luajit_choice *c, const char *what)
{
	if (c->n != 1)
		pb_learn_fail(w, what);
	return (uint16_t)c->at;
}

/* --- the global state ------------------------------------------------------------------------------------------------ */

static void look_at_state(struct pb_learner *w, int32_t vmstate, const lua_State *running)
{
	PB_LUAJIT_NARROW(w->vmstate, PB_LUAJIT_GLOBAL, pb_luajit_number(w, w->global + o) == (uint32_t)vmstate)
	PB_LUAJIT_NARROW(w->running, PB_LUAJIT_GLOBAL, o % 8 == 0 && pb_luajit_word(w, w->global + o) == pb_address(running))
}

static void look_in_c(struct pb_learner *w, lua_State *L)
{
	look_at_state(w, PF_LUAJIT_C, L);
}

static void look_in_interpreter(struct pb_learner *w)
{
	w->looks++;
	look_at_state(w, PF_LUAJIT_INTERPRETER, w->T);
}

static void *allocate(void *data, void *block, size_t old, size_t size)
{
	struct pb_learner *w = data;

	if (!block && size && w->allocated)
		w->allocated(w);
	if (block && pb_address(block) == w->block)
		w->block_size = size;
	return w->alloc(w->ud, block, old, size);
}

static void learn_state(struct pb_learner *w)
{
	w->look = look_in_c;
	pb_luajit_run(w, PB_LUAJIT_PLAIN, 0);
	lua_pushvalue(w->S, PB_LUAJIT_PLAIN);
	lua_call(w->S, 0, 0);
	w->looks = 0;
	w->allocated = look_in_interpreter;
	lua_pushvalue(w->S, PB_LUAJIT_KEEP);
	pb_luajit_run(w, PB_LUAJIT_ALLOCATES, 1);
	w->allocated = NULL;
	if (!w->looks)
		pb_learn_fail(w, "an allocation");
	w->l->global_vmstate = (uint16_t)pb_luajit_only(w, &w->vmstate, PB_LUAJIT_GLOBAL, "the interpreter's state");
	w->l->global_running = (uint16_t)pb_luajit_only(w, &w->running, PB_LUAJIT_GLOBAL, "the running thread");
}

/* --- all of it ------------------------------------------------------------------------------------------------------- */

static int l_look(lua_State *L)
{
	struct pb_learner *w = pb_learner(L);

	w->now = L;
	w->look(w, L);
	w->now = w->S;
	return 0;
}

void pb_luajit_run(struct pb_learner *w, int probe, int n)
{
	lua_pushvalue(w->S, probe);
	lua_insert(w->S, -n - 1);
	lua_xmove(w->S, w->T, n + 1);
	if (lua_pcall(w->T, n, 0, 0) != 0) {
		w->now = w->S;
		pb_learn_fail(w, w->why ? w->why : "a probe");
	}
}

/* Runs in S. */
static int learn(lua_State *S)
{
	struct pb_learner *w = lua_touserdata(S, 1);

	lua_settop(S, 0);
	lua_pushlightuserdata(S, w);
	lua_pushcclosure(S, l_look, 1);
	lua_pushcfunction(S, pb_luajit_c_one);
	lua_pushcfunction(S, pb_luajit_c_two);
	lua_newtable(S);
	if (luaL_loadbuffer(S, text, sizeof text - 1, "=perf") != 0)
		pb_learn_fail(w, "the probe");
	/* Only the loops are compiled, whatever the program has set. */
	luaJIT_setmode(S, -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
	lua_pushvalue(S, PB_LUAJIT_LOOK);
	lua_call(S, 1, PB_LUAJIT_LOOPS_KINDS - PB_LUAJIT_PLAIN + 1);
	for (int i = PB_LUAJIT_LOOPS_FEW; i <= PB_LUAJIT_LOOPS_KINDS; i++)
		luaJIT_setmode(S, i, LUAJIT_MODE_FUNC | LUAJIT_MODE_ON);
	w->T = lua_newthread(S);
	pb_luajit_learn_threads(w);
	pb_luajit_learn_functions(w);
	pb_luajit_learn_cframes(w);
	learn_state(w);
	pb_luajit_learn_traces(w);
	pb_luajit_check(w);
	return 0;
}

/* --- what the program has set ---------------------------------------------------------------------------------------- */

/* Push a C function of a library. */
static int push_function(lua_State *L, const char *library, const char *name)
{
	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	lua_getfield(L, -1, library);
	if (!lua_istable(L, -1))
		return 0;
	lua_getfield(L, -1, name);
	return lua_iscfunction(L, -1);
}

int pb_luajit_compiles(lua_State *L)
{
	const int top = lua_gettop(L);
	const int on = push_function(L, "jit", "status") && lua_pcall(L, 0, 1, 0) == 0 && lua_toboolean(L, -1);

	lua_settop(L, top);
	return on;
}

/* Turn on the optimizations that the probes' loops need. Returns jit.opt.start, "0" and the names of those that were on, if this
 * LuaJIT reports them. The strings are made here, since their restoration must not need memory. */
static int set_optimizations(lua_State *L)
{
	enum { START = 1, NOTHING, NAMES };

	luaL_checkstack(L, 64, NULL);
	if (!push_function(L, "jit.opt", "start"))
		return 0;
	lua_insert(L, START);
	lua_pushliteral(L, "0");
	lua_insert(L, NOTHING);
	if (!push_function(L, "jit", "status"))
		return 0;
	lua_insert(L, NAMES);
	lua_settop(L, NAMES);
	lua_call(L, 0, LUA_MULTRET);
	lua_remove(L, NAMES); /* whether it is on */
	lua_pushvalue(L, START);
	lua_pushliteral(L, "3");
	lua_call(L, 1, 0);
	return lua_gettop(L);
}

/* S has the results of set_optimizations. jit.opt refuses some of the names, which are features of the machine. */
static void restore_optimizations(lua_State *S)
{
	const int n = lua_isfunction(S, 1) ? lua_gettop(S) : 0;

	for (int i = 2; i <= n; i++) {
		lua_pushvalue(S, 1);
		lua_pushvalue(S, i);
		lua_pcall(S, 1, 0, 0);
		lua_settop(S, n);
	}
}

static int learn_once(lua_State *L, const struct pf_memory *m, struct pb_layout *l, const char **why)
{
	const lua_Hook hook = lua_gethook(L);
	const int mask = lua_gethookmask(L), count = lua_gethookcount(L);
	struct pb_learner w = {.m = m, .l = l, .resumers = {L}};
	lua_State *options;
	int r;

	memset(l, 0, sizeof *l);
	w.outermost = pb_address(__builtin_frame_address(0));
	/* Everything that may raise for lack of memory comes before the first change. */
	w.S = w.now = lua_newthread(L);
	lua_pushcfunction(w.S, learn);
	lua_pushlightuserdata(w.S, &w);
	options = lua_newthread(L);
	lua_pushcfunction(options, set_optimizations);
	for (int i = 0; i < PB_LUAJIT_TRACES; i++)
		w.traces[i].after = lua_newuserdata(L, PB_LUAJIT_COMPILER + 4);
	lua_sethook(L, NULL, 0, 0); /* hooks are global: another hook's code would run between the probes' instructions */
	w.collects = pb_collects(L);
	if (w.collects) /* finalizers would run between the probes' instructions, and allocate */
		lua_gc(L, LUA_GCSTOP, 0);
	w.alloc = lua_getallocf(L, &w.ud);
	lua_setallocf(L, allocate, &w);
	lua_pcall(options, 0, LUA_MULTRET, 0);
	r = lua_pcall(w.S, 1, 0, 0);
	restore_optimizations(options);
	lua_setallocf(L, w.alloc, w.ud);
	if (w.collects)
		lua_gc(L, LUA_GCRESTART, 0);
	lua_sethook(L, hook, mask, count);
	lua_pop(L, 2 + PB_LUAJIT_TRACES);
	if (r == 0)
		return 0;
	*why = w.why ? w.why : "memory";
	memset(l, 0, sizeof *l);
	return -ENOTSUP;
}

struct elsewhere {
	const struct pf_memory *m;
	struct pf_luajit_layout *l;
	int r;
};

static int learn_in(lua_State *L)
{
	struct elsewhere *e = lua_touserdata(L, 1);
	const char *why;

	luaL_openlibs(L);
	e->r = learn_once(L, e->m, e->l, &why);
	return 0;
}

/* The program may have set the compiler's limits (maxrecord) so low that the loops are not compiled. A new state has the usual ones,
 * and the same layout. */
static int learn_elsewhere(const struct pf_memory *m, struct pf_luajit_layout *l)
{
	struct elsewhere e = {m, l, -ENOTSUP};
	lua_State *L = luaL_newstate();

	if (L && lua_cpcall(L, learn_in, &e) != 0)
		e.r = -ENOTSUP; /* no memory */
	if (L)
		lua_close(L);
	if (e.r < 0)
		memset(l, 0, sizeof *l);
	return e.r;
}

int pb_learn(lua_State *L, const struct pf_memory *m, struct pb_layout *l, const char **why)
{
	int r = -ENOTSUP;

	*why = "it is known for x86-64 and arm64 only";
	memset(l, 0, sizeof *l);
	if (!PF_UNWIND_LUAJIT_HERE)
		return r;
	/* One time in thousands, other memory has a field's value by chance. A retry has other objects. */
	for (int i = 0; r < 0 && i < 3; i++)
		r = learn_once(L, m, l, why);
	return r < 0 && learn_elsewhere(m, l) == 0 ? 0 : r;
}

uint64_t pb_unwound_function(lua_State *L, int i, const struct pb_layout *l)
{
	const lua_CFunction code = lua_tocfunction(L, i);
	uint64_t instruction;

	if (code)
		return (uintptr_t)code;
	memcpy(&instruction, (const char *)lua_topointer(L, i) + l->function_code, sizeof instruction);
	return instruction;
}

uint64_t pb_global(lua_State *L, const struct pb_layout *l)
{
	return *(const uintptr_t *)(const void *)((const char *)L + l->thread_global);
}
#endif

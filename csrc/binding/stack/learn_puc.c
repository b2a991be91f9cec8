/* See learn_puc.h. Each field is found by known values in the structures of threads and functions that we have made ourselves.
 * Then all of them are checked together.
 *
 * All of it runs in threads of our own, which have no hook of the program. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The program that is inspected. The learner makes the text of `jumps`. */
static const char text[] = "local look, pass, n = ...\n"
			   "local function one(a) return function() return a end end\n"
			   "local function two(a, b) return function() return a, b end end\n"
			   "local function inner(a)\n"
			   "  look()\n"
			   "  look()\n"
			   "  look()\n"
			   "  return a\n"
			   "end\n"
			   "local function outer(a)\n"
			   "  local r = pass(inner, a)\n"
			   "  look()\n"
			   "  return r\n"
			   "end\n"
			   "local function plain()\n"
			   "  local a = 1\n"
			   "  local b = 2\n"
			   "  local c = 3\n"
			   "  local d = 4\n"
			   "  local e = 5\n"
			   "  local f = 6\n"
			   "end\n"
			   "local function allocates()\n"
			   "  local a = 1\n"
			   "  local b = 2\n"
			   "  local t = {}\n"
			   "  local c = 3\n"
			   "  local f = function() return c end\n"
			   "  t[1] = a\n"
			   "  c = {a, b}\n"
			   "  t.x = {}\n"
			   "  n = n + 1\n"
			   "  b = 'a new string each time ' .. n\n"
			   "  a = a + 1\n"
			   "  c = {a, t, f, a, t, f}\n"
			   "  a = a + 2\n"
			   "  f = function() return a, c end\n"
			   "  a = a + 3\n"
			   "  t.y = a\n"
			   "  t.z = {t}\n"
			   "  return f\n"
			   "end\n";
static const char ending[] = "return one(1), one(2), two(1, 2), two(3, 4), outer, plain, jumps, allocates\n";

/* --- looking -------------------------------------------------------------------------------------------------------- */

uint64_t pb_puc_word(const uint8_t *bytes, unsigned offset)
{
	uintptr_t v;

	memcpy(&v, bytes + offset, sizeof v);
	return v;
}

int32_t pb_puc_number(const uint8_t *bytes, unsigned offset)
{
	int32_t v;

	memcpy(&v, bytes + offset, sizeof v);
	return v;
}

void pb_puc_choose(struct pb_learner *w, unsigned offset)
{
	if (w->choices++ == 0)
		w->choice = (uint16_t)offset;
}

uint16_t pb_puc_chosen(struct pb_learner *w, const char *what)
{
	const unsigned n = w->choices;

	w->choices = 0;
	if (n == 0)
		pb_learn_fail(w, what);
	return w->choice;
}

uint64_t pb_puc_call_at(struct pb_learner *w, const uint8_t *thread, const lua_Debug *ar, uint64_t *id)
{
#if LUA_VERSION_NUM == 501
	*id = (uint64_t)ar->i_ci;
	return w->l->call.size ? pb_puc_word(thread, w->l->thread.base) + (uint64_t)ar->i_ci * w->l->call.size : 0;
#else
	(void)w;
	(void)thread;
	return *id = pb_address(ar->i_ci);
#endif
}

static void look_at(struct pb_learner *w, lua_State *L, struct pb_puc_look *k, uint64_t frame)
{
	lua_Debug ar;

	k->frame = frame;
	pb_learn_grab(w, k->thread, pb_address(L), sizeof k->thread);
	if (w->l->thread.error)
		pb_learn_grab(w, k->jump, pb_puc_word(k->thread, w->l->thread.error), sizeof k->jump);
	for (k->n = 0; k->n < PB_PUC_LEVELS && lua_getstack(L, k->n, &ar); k->n++) {
		struct pb_puc_level *v = &k->levels[k->n];

		v->at = pb_puc_call_at(w, k->thread, &ar, &v->id);
		pb_learn_grab(w, v->call, v->at, sizeof v->call);
	}
}

static int look(lua_State *L)
{
	struct pb_learner *w = pb_learner(L);

	if (w->n < PB_PUC_LOOKS)
		look_at(w, L, &w->looks[w->n++], pb_address(__builtin_frame_address(0)));
	return 0;
}

static int more(lua_State *L)
{
	return look(L);
}

/* Look, and call a function with its arguments. */
static int pass(lua_State *L)
{
	struct pb_learner *w = pb_learner(L);

	if (w->n < PB_PUC_LOOKS)
		look_at(w, L, &w->looks[w->n++], pb_address(__builtin_frame_address(0)));
	return lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == 0 ? lua_gettop(L) : lua_error(L);
}

static int light(lua_State *L)
{
	return lua_gettop(L);
}

static int light_more(lua_State *L)
{
	return lua_gettop(L) + 1 - 1;
}

/* Copy what is at an index of the learner's stack onto the runner's. */
void pb_puc_give(struct pb_learner *w, int from, int to)
{
	for (int i = from; i <= to; i++)
		lua_pushvalue(w->S, i);
	lua_xmove(w->S, w->T, to - from + 1);
}

void pb_puc_give_function(struct pb_learner *w, lua_CFunction fn)
{
	lua_pushlightuserdata(w->S, w);
	lua_pushcclosure(w->S, fn, 1);
	lua_xmove(w->S, w->T, 1);
}

void pb_puc_call(struct pb_learner *w, int n)
{
	if (lua_pcall(w->T, n, 0, 0) != 0)
		pb_learn_fail(w, "a probe");
}

/* looks[0]: from a function without a caller; 1: from `pass`; 2 to 4: from inner's three lines; 5: from outer. */
static void run(struct pb_learner *w)
{
	w->n = 0;
	pb_puc_give_function(w, look);
	pb_puc_call(w, 0);
	pb_puc_give(w, PB_PUC_OUTER, PB_PUC_OUTER);
	pb_puc_call(w, 0);
	if (w->n != 6 || w->looks[0].n != 1 || w->looks[1].n != 2 || w->looks[2].n != 4)
		pb_learn_fail(w, "the probe's calls");
}

/* --- threads -------------------------------------------------------------------------------------------------------- */

static int yields(lua_State *L)
{
	return lua_yield(L, 0);
}

static int fails(lua_State *L)
{
	lua_pushnil(L);
	return lua_error(L);
}

void pb_puc_grab_thread(struct pb_learner *w, lua_State *L, uint8_t *to)
{
	pb_learn_grab(w, to, pb_address(L), PB_PUC_THREAD);
}

/* A thread that has ended in a function. */
static lua_State *ended(struct pb_learner *w, lua_CFunction fn)
{
	lua_State *L = lua_newthread(w->S);

	lua_pushcfunction(w->S, fn);
	lua_xmove(w->S, L, 1);
	pb_resume(L, w->S, 0);
	return L;
}

/* Does the global state have the registry here, as a value of the type table? */
static int has_registry(struct pb_learner *w, uint64_t global)
{
	uint8_t state[PB_PUC_GLOBAL];

	if (!global || global % sizeof(void *))
		return 0;
	pb_learn_grab(w, state, global, sizeof state);
	for (unsigned o = 0; o + 16 <= sizeof state; o += (unsigned)sizeof(void *))
		if (pb_puc_word(state, o) == pb_address(lua_topointer(w->S, LUA_REGISTRYINDEX)))
			for (unsigned tag = o + 4; tag <= o + 8; tag += 4) /* an int in 5.1; since then a byte, and any bytes after it */
				if (pb_puc_number(state, tag) == LUA_TTABLE || (state[tag] & ~64) == LUA_TTABLE)
					return 1;
	return 0;
}

/* Some of the collector's lists may begin with a thread; the field for the main thread comes after them. */
static void learn_main(struct pb_learner *w)
{
	uint8_t state[PB_PUC_GLOBAL], other[PB_PUC_THREAD];
	struct pf_puc_layout *l = w->l;

	l->main = PF_PUC_NONE;
	pb_learn_grab(w, state, w->global, sizeof state);
	PB_PUC_WORDS(o, sizeof state)
	{
		pb_learn_grab(w, other, pb_puc_word(state, o), l->thread.global + sizeof(void *));
		if (other[l->thread.type] == l->thread.is_thread && pb_puc_word(other, l->thread.global) == w->global)
			l->main = (uint16_t)o;
	}
}

static void learn_calls(struct pb_learner *w)
{
	const struct pb_puc_look *k = w->looks;
	struct pf_puc_layout *l = w->l;

#if LUA_VERSION_NUM == 501
	uint16_t ci = 0, base = 0;

	PB_PUC_WORDS(o, PB_PUC_THREAD)
	PB_PUC_WORDS(b, PB_PUC_THREAD)
	{
		const uint64_t start = pb_puc_word(w->fresh, b), size = pb_puc_word(k->thread, o) - start;

		if (start && o != b && pb_puc_word(w->fresh, o) == start && pb_puc_word(k->thread, b) == start &&
		    pb_puc_word(k[2].thread, b) == start && size >= 16 && size <= PB_PUC_CALL && pb_puc_word(k[1].thread, o) == start + 2 * size &&
		    pb_puc_word(k[2].thread, o) == start + 4 * size) {
			if (w->choices == 0) {
				ci = (uint16_t)o;
				base = (uint16_t)b;
			}
			pb_puc_choose(w, (unsigned)size);
		}
	}
	l->call.size = pb_puc_chosen(w, "calls");
	l->thread.ci = ci;
	l->thread.base = base;
	l->call.previous = PF_PUC_NONE;
#else
	PB_PUC_WORDS(o, PB_PUC_THREAD)
	if (pb_puc_word(w->fresh, o) - pb_address(w->T) < PB_PUC_THREAD && pb_puc_word(k[0].thread, o) == k[0].levels[0].at &&
	    pb_puc_word(k[2].thread, o) == k[2].levels[0].at)
		pb_puc_choose(w, o);
	l->thread.ci = pb_puc_chosen(w, "ci");
	l->thread.base = (uint16_t)(pb_puc_word(w->fresh, l->thread.ci) - pb_address(w->T));
	PB_PUC_WORDS(o, PB_PUC_CALL)
	{
		const struct pb_puc_level *v = k[2].levels;

		if (pb_puc_word(v[0].call, o) == v[1].at && pb_puc_word(v[1].call, o) == v[2].at &&
		    pb_puc_word(v[2].call, o) == v[3].at && pb_puc_word(v[3].call, o) == pb_address(w->T) + l->thread.base)
			pb_puc_choose(w, o);
	}
	l->call.previous = pb_puc_chosen(w, "previous");
#endif
}

static void learn_threads(struct pb_learner *w)
{
	const struct pb_puc_look *k = w->looks;
	struct pf_puc_layout *l = w->l;
	uint8_t self[PB_PUC_THREAD], yielded[2][PB_PUC_THREAD], failed[2][PB_PUC_THREAD], table[16], closure[16];

	for (int i = 0; i < 2; i++) {
		pb_puc_grab_thread(w, ended(w, yields), yielded[i]);
		pb_puc_grab_thread(w, ended(w, fails), failed[i]);
	}
	pb_puc_grab_thread(w, w->S, self);
	pb_learn_grab(w, table, pb_address(lua_topointer(w->S, LUA_REGISTRYINDEX)), sizeof table);
	pb_learn_grab(w, closure, pb_address(lua_topointer(w->S, PB_PUC_ONE)), sizeof closure);

	for (unsigned o = sizeof(void *); o < sizeof table; o++)
		if (self[o] == LUA_TTHREAD && w->fresh[o] == LUA_TTHREAD && yielded[0][o] == LUA_TTHREAD && table[o] == LUA_TTABLE &&
		    (closure[o] & 15) == LUA_TFUNCTION)
			pb_puc_choose(w, o);
	l->thread.type = pb_puc_chosen(w, "type");
	l->thread.is_thread = LUA_TTHREAD;
	for (unsigned o = 0; o < PB_PUC_THREAD; o++)
		if (yielded[0][o] == LUA_YIELD && yielded[1][o] == LUA_YIELD && failed[0][o] == LUA_ERRRUN &&
		    failed[1][o] == LUA_ERRRUN && w->fresh[o] == 0 && self[o] == 0 && k[2].thread[o] == 0)
			pb_puc_choose(w, o);
	l->thread.status = pb_puc_chosen(w, "status");
	PB_PUC_WORDS(o, PB_PUC_THREAD)
	if (pb_puc_word(self, o) == pb_puc_word(w->fresh, o) && pb_puc_word(self, o) == pb_puc_word(yielded[0], o) &&
	    has_registry(w, pb_puc_word(self, o)))
		pb_puc_choose(w, o);
	l->thread.global = pb_puc_chosen(w, "global");
	w->global = pb_puc_word(self, l->thread.global);
	learn_main(w);

	PB_PUC_WORDS(o, PB_PUC_THREAD)
	{
		const uint64_t outer = pb_puc_word(k[1].thread, o), inner = pb_puc_word(k[2].thread, o);

		if (pb_puc_word(w->fresh, o) == 0 && outer > k[1].frame && outer < w->frame && inner > k[2].frame && inner < k[1].frame)
			pb_puc_choose(w, o);
	}
	l->thread.error = pb_puc_chosen(w, "errorJmp");
	lua_settop(w->S, PB_PUC_FREE - 1);
}

/* The structure on the C stack can be read only after its place is known. */
static void learn_jump(struct pb_learner *w)
{
	const struct pb_puc_look *k = w->looks;

	PB_PUC_WORDS(o, 4 * sizeof(void *))
	if (pb_puc_word(k[2].jump, o) == pb_puc_word(k[1].thread, w->l->thread.error))
		pb_puc_choose(w, o);
	w->l->previous = pb_puc_chosen(w, "lua_longjmp");
}

/* --- all of it ------------------------------------------------------------------------------------------------------ */

/* The functions, on the stack of S. `jumps` has gaps between its lines that do not fit in a byte. */
static void load(struct pb_learner *w)
{
	static atomic_uint loads;
	char program[sizeof text + sizeof ending + 16 * 32 + 5 * PB_PUC_BLANK_LINES];
	size_t n = sizeof text - 1;

	memcpy(program, text, n);
	n += (size_t)snprintf(program + n, sizeof program - n, "local function jumps()\n");
	for (int i = 0; i < 9; i++) {
		n += (size_t)snprintf(program + n, sizeof program - n, "  local l%d = %d\n", i, 10 + i);
		if (i % 2) {
			memset(program + n, '\n', PB_PUC_BLANK_LINES);
			n += PB_PUC_BLANK_LINES;
		}
	}
	n += (size_t)snprintf(program + n, sizeof program - n, "end\n%s", ending);
	if (luaL_loadbuffer(w->T, program, n, "=perf") != 0)
		pb_learn_fail(w, "the probe's text");
	pb_puc_give_function(w, look);
	pb_puc_give_function(w, pass);
	lua_pushinteger(w->T, 2 * (lua_Integer)atomic_fetch_add(&loads, 1) + 2000); /* for strings that no run made before */
	if (lua_pcall(w->T, 3, PB_PUC_C_ONE - PB_PUC_ONE, 0) != 0)
		pb_learn_fail(w, "the probe");
	pb_puc_give_function(w, look);
	pb_puc_give_function(w, more);
	lua_xmove(w->T, w->S, PB_PUC_LIGHT - PB_PUC_ONE);
	lua_pushcfunction(w->S, light);
	lua_pushcfunction(w->S, light_more);
}

/* Not inlined: while the check runs, the C stack between two threads must not be larger than what the unwinder looks at. */
static __attribute__((noinline)) void learn_structures(struct pb_learner *w)
{
	pb_learn_grab(w, w->fresh, pb_address(w->T), sizeof w->fresh);
	load(w);
	run(w);
	learn_threads(w);
	learn_calls(w);
	run(w);
	learn_jump(w);
}

static int learn(lua_State *S)
{
	struct pb_learner *w = lua_touserdata(S, 1);

	w->S = w->now = S;
	w->frame = pb_address(__builtin_frame_address(0));
	w->l->pointer = sizeof(void *);
	w->T = lua_newthread(S);
	luaL_checkstack(S, 2 * PB_PUC_FREE, "perf");
	learn_structures(w);
	pb_puc_learn_functions(w);
	pb_puc_learn_prototypes(w);
	if (w->l->call.size > PF_PUC_MOST_FIELDS || w->l->proto.size > PF_PUC_MOST_FIELDS || w->l->value.tag >= PF_PUC_MOST_VALUE ||
	    w->l->closure.size > PF_PUC_MOST_HEAD || w->l->string.text > PF_PUC_MOST_HEAD)
		pb_learn_fail(w, "sizes of structures");
	pb_puc_learn_allocation(w);
	pb_puc_learn_collector(w);
	pb_puc_check(w);
	return 0;
}

/* Call the function on the stack of S. A collection that the probe's allocations begin would run the program's finalizers amid the
 * probe. Lua 5.1 does not tell whether the program has stopped its collector, so there it runs on. */
static int without_collector(lua_State *L, lua_State *S)
{
	const int collects = pb_collects(L);
	int status;

	if (collects)
		lua_gc(L, LUA_GCSTOP, 0);
	status = lua_pcall(S, 1, 0, 0);
	if (collects)
		lua_gc(L, LUA_GCRESTART, 0);
	return status;
}

int pb_learn(lua_State *L, const struct pf_memory *m, struct pb_layout *l, const char **why)
{
	struct pb_learner *w = lua_newuserdata(L, sizeof *w);
	int status = 1;

	/* Reused memory may have old values that look like new ones, and a virtual machine may lose a single step, but hardly twice. */
	for (int tries = 0; tries < 3 && status != 0; tries++) {
		lua_State *S = lua_newthread(L);

		memset(l, 0, sizeof *l);
		memset(w, 0, sizeof *w);
		w->m = m;
		w->l = l;
		lua_sethook(S, NULL, 0, 0); /* a new thread inherits its creator's hook */
		lua_pushcfunction(L, learn); /* called by L, which can catch an error */
		lua_xmove(L, S, 1);
		lua_pushlightuserdata(S, w);
		status = without_collector(L, S);
		lua_pop(L, 1);
	}
	*why = status == 0 ? NULL : w->why ? w->why : "memory";
	lua_pop(L, 1);
	return status == 0 ? 0 : -ENOTSUP;
}

uint64_t pb_unwound_function(lua_State *L, int i, const struct pb_layout *l)
{
	(void)l;
	return pb_function_address(L, i);
}

uint64_t pb_global(lua_State *L, const struct pb_layout *l)
{
	return *(const uintptr_t *)(const void *)((const char *)L + l->thread.global);
}
#endif

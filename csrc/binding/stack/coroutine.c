/* While a profiler needs them, our own functions replace coroutine.resume, create and wrap. They record which thread resumed
 * which coroutine and where a coroutine was made, and call the function that they replaced. A program may keep one of them after
 * the profiler has stopped; then it only calls the replaced function: our functions reach the profiler through a cell, which is
 * empty by then.
 *
 * On PUC Lua our functions run the library's C functions directly, on the same frame. The library's functions use only their
 * arguments; the function that coroutine.wrap returns also uses its thread, the first upvalue, and ours has the same one. So
 * errors are unchanged, and coroutines nest as deep as without a profiler (a call by lua_pcall would count as a level of C).
 * Functions of another library, and LuaJIT's, which are not plain C functions, are called by lua_pcall.
 *
 * An error leaves the library's function without returning to ours. So the cell has a stack of the resumptions, and one that an
 * error ended is recognized by its coroutine, which is dead. A table keeps the coroutines of that stack from being collected.
 *
 * The place where a coroutine was made is the number of a node of the stacks, in a table whose weak keys are the coroutines. The
 * path of that node includes the place where the creator itself was made. */
#include "binding/stack/stack.h"

#include <string.h>

/* Upvalues of our functions. THREAD: the coroutine, in a function that coroutine.wrap returned; else false. KEPT: the table that
 * keeps the coroutines of the cell's stack. */
enum { THREAD = 1, ORIGINAL, CELL, KEPT, UPVALUES = KEPT };

enum { MOST_NESTED = 256 }; /* Lua's limit for C calls is 200 */

struct pb_cell {
	struct pb_stack *p; /* while it runs */
	struct pb_resumption nested[MOST_NESTED];
};

static struct pb_resumption *volatile resumed;

/* Whether the coroutine is running, or waiting for one that it has resumed. Also true while an error unwinds it. */
static int is_active(lua_State *co)
{
	lua_Debug ar;

	return lua_status(co) == 0 && lua_getstack(co, 0, &ar);
}

struct pb_resumption *pb_resumption(void)
{
	struct pb_resumption *r = resumed;

	while (r && !is_active(r->L))
		r = r->outer;
	return r;
}

static struct pb_cell *cell(lua_State *L)
{
	return lua_touserdata(L, lua_upvalueindex(CELL));
}

/* The cell's profiler if it is running in this process; else NULL. */
static struct pb_stack *running(lua_State *L)
{
	struct pb_stack *p = cell(L)->p;

	return p && p->at->running && !pf_sampling_inherited(p->at) ? p : NULL;
}

/* The original, if it can run on the frame of our function; else NULL. */
static lua_CFunction in_place(lua_State *L)
{
	const int wrapped = lua_isthread(L, lua_upvalueindex(THREAD));

	if (PB_LUAJIT || lua_getupvalue(L, lua_upvalueindex(ORIGINAL), 1 + wrapped)) {
		if (!PB_LUAJIT)
			lua_pop(L, 1);
		return NULL;
	}
	return lua_tocfunction(L, lua_upvalueindex(ORIGINAL));
}

/* Call the original with all arguments. Returns the number of results, or -1 with the error on top; an original that runs on our
 * frame raises its errors itself. */
static int call(lua_State *L)
{
	const lua_CFunction original = in_place(L);

	if (original)
		return original(L);
	lua_pushvalue(L, lua_upvalueindex(ORIGINAL));
	lua_insert(L, 1);
	if (lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) != 0)
		return -1;
	return lua_gettop(L);
}

/* Call the original, which resumes co; meanwhile co is recorded as running. */
static int resume(lua_State *L, lua_State *co)
{
	struct pb_cell *c = cell(L);
	struct pb_resumption *outer, *r;
	int n;

	/* While no profiler of this state runs, the resumptions may be another thread's. An active coroutine cannot be resumed: the
	 * original raises, and an entry for it would look like a running one. */
	if (!co || !running(L) || is_active(co))
		return call(L);
	outer = pb_resumption();
	r = outer ? outer + 1 : c->nested;
	if (r < c->nested || r >= c->nested + MOST_NESTED) /* it belongs to another cell */
		return call(L);
	resumed = outer;
	lua_pushvalue(L, lua_isthread(L, lua_upvalueindex(THREAD)) ? lua_upvalueindex(THREAD) : 1);
	lua_rawseti(L, lua_upvalueindex(KEPT), (int)(r - c->nested) + 1);
	*r = (struct pb_resumption){co, L, outer};
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	resumed = r;
	n = call(L);
	if (c->p)
		resumed = outer;
	lua_pushboolean(L, 0);
	lua_rawseti(L, lua_upvalueindex(KEPT), (int)(r - c->nested) + 1);
	return n;
}

/* The original's error, on top of the stack. A message about an argument lacks the name of the function, which is added. */
static int fail(lua_State *L)
{
	const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "", *what = strchr(text, '(');
	const size_t n = what ? strlen(++what) : 0;

	if (n == 0 || strncmp(text, "bad argument #1", 15) != 0 || what[n - 1] != ')')
		return lua_error(L);
	lua_pushlstring(L, what, n - 1);
	return luaL_argerror(L, 1, lua_tostring(L, -1));
}

static int l_resume(lua_State *L)
{
	const int n = resume(L, lua_tothread(L, 1));

	return n < 0 ? fail(L) : n;
}

static int l_wrapped(lua_State *L)
{
	const int n = resume(L, lua_tothread(L, lua_upvalueindex(THREAD)));

	if (n >= 0)
		return n;
	if (lua_type(L, -1) == LUA_TSTRING) { /* the original adds the position of its caller, but here that is a C function */
		luaL_where(L, 1);
		lua_insert(L, -2);
		lua_concat(L, 2);
	}
	return lua_error(L);
}

static int l_set(lua_State *L)
{
	lua_rawset(L, 1);
	return 0;
}

/* Record that the caller of our function made the thread at an index. The profiler does not count the cost of this. */
static void remember(lua_State *L, int thread)
{
	struct pb_stack *p = running(L);
	uint32_t frames[PF_STACK_DEPTH], node;
	unsigned n;

	if (!p || p->creators == LUA_NOREF || !lua_isthread(L, thread))
		return;
	pf_sampling_enter(p->at);
	n = pb_walk(p, L, 1, frames);
	node = pf_stacks_path(&p->at->stacks, 0, frames, n);
	if (node) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, p->creators);
		lua_rawgeti(L, -1, 1);
		lua_pushvalue(L, -2);
		lua_pushvalue(L, thread);
		lua_pushnumber(L, node);
		if (lua_pcall(L, 3, 0, 0) != 0)
			lua_pop(L, 1); /* out of memory: the coroutine's creator stays unknown */
		lua_pop(L, 1);
	}
	pf_sampling_leave(p->at);
}

/* Call the original, and leave its one result as the only value on the stack. */
static void make(lua_State *L)
{
	const int n = call(L);

	if (n < 0)
		fail(L);
	lua_settop(L, lua_gettop(L) - n + 1); /* nil, if it has none */
	lua_insert(L, 1);
	lua_settop(L, 1);
}

static int l_create(lua_State *L)
{
	make(L);
	remember(L, 1);
	return 1;
}

static int l_wrap(lua_State *L)
{
	const struct pb_stack *p;

	make(L);
	/* The library's function keeps its thread as an upvalue. A function without one cannot be followed. */
	if (!lua_getupvalue(L, 1, 1) || !lua_isthread(L, -1)) {
		lua_settop(L, 1);
		return 1;
	}
	remember(L, 2);
	p = running(L);
	if (!p || !p->tells) {
		lua_settop(L, 1);
		return 1;
	}
	lua_insert(L, 1);
	lua_pushvalue(L, lua_upvalueindex(CELL));
	lua_pushvalue(L, lua_upvalueindex(KEPT));
	lua_pushcclosure(L, l_wrapped, UPVALUES);
	return 1;
}

int pb_stands_in(lua_State *L)
{
	const lua_CFunction code = lua_tocfunction(L, -1);

	if (code != l_wrapped && code != l_resume && code != l_create && code != l_wrap)
		return 0;
	lua_getupvalue(L, -1, ORIGINAL);
	if (!PB_LUAJIT && lua_iscfunction(L, -1) && !lua_getupvalue(L, -1, 1 + (code == l_wrapped))) {
		lua_remove(L, -2);
		return 0; /* the original runs on this very frame */
	}
	if (!PB_LUAJIT && lua_iscfunction(L, -1))
		lua_pop(L, 1);
	lua_remove(L, code == l_wrapped ? -1 : -2); /* a wrapped function is named by its caller, since the original has no name */
	return 1;
}

unsigned pb_creator(struct pb_stack *p, lua_State *L, uint32_t *frames, unsigned n)
{
	const struct pf_stacks *s = &p->at->stacks;
	uint32_t node;

	if (p->creators == LUA_NOREF)
		return n;
	lua_rawgeti(L, LUA_REGISTRYINDEX, p->creators);
	lua_pushthread(L);
	lua_rawget(L, -2);
	node = (uint32_t)lua_tonumber(L, -1);
	lua_pop(L, 2);
	for (; node && n < PF_STACK_DEPTH; node = pf_stacks_node_at(s, node)->parent)
		frames[n++] = pf_stacks_node_at(s, node)->frame;
	p->at->cut |= node != 0;
	return n;
}

/* --- replacing the library's functions ----------------------------------------------------------------------------- */

static const luaL_Reg stand_ins[] = {{"resume", l_resume}, {"create", l_create}, {"wrap", l_wrap}, {NULL, NULL}};

static int wanted(const struct pb_stack *p, lua_CFunction fn)
{
	return fn == l_resume ? p->tells : fn == l_create ? p->creators != LUA_NOREF : p->tells || p->creators != LUA_NOREF;
}

/* Push the table that `require "coroutine"` returns. Returns 0, and pushes nothing, if there is none. */
static int library(lua_State *L)
{
	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	if (lua_istable(L, -1)) {
		lua_pushliteral(L, "coroutine");
		lua_rawget(L, -2);
		lua_remove(L, -2);
	}
	if (lua_istable(L, -1))
		return 1;
	lua_pop(L, 1);
	return 0;
}

void pb_coroutines_take(lua_State *L, struct pb_stack *p)
{
	int at; /* the library, then the cell, then the table of threads */

	p->tells = !PB_LUAJIT || p->coroutines == PB_COROUTINES_RESUMER;
	if (p->coroutines == PB_COROUTINES_CREATOR) {
		lua_newtable(L);
		lua_pushcfunction(L, l_set);
		lua_rawseti(L, -2, 1);
		lua_createtable(L, 0, 1);
		lua_pushliteral(L, "k");
		lua_setfield(L, -2, "__mode");
		lua_setmetatable(L, -2);
		p->creators = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	if (!library(L))
		return;
	at = lua_gettop(L);
	p->cell = pb_newuserdata(L, sizeof *p->cell);
	p->cell->p = p;
	pb_getuservalue(L, 1);
	lua_pushvalue(L, at + 1);
	lua_rawseti(L, -2, PB_KEPT_CELL); /* the functions keep the cell too, and may live longer than the profiler */
	lua_pop(L, 1);
	lua_createtable(L, MOST_NESTED, 0);
	for (const luaL_Reg *r = stand_ins; r->name; r++) {
		if (!wanted(p, r->func))
			continue;
		lua_pushstring(L, r->name);
		lua_pushvalue(L, -1);
		lua_rawget(L, at);
		if (lua_isfunction(L, -1)) {
			lua_pushboolean(L, 0);
			lua_pushvalue(L, -2);
			lua_pushvalue(L, at + 1);
			lua_pushvalue(L, at + 2);
			lua_pushcclosure(L, r->func, UPVALUES);
#if LUA_VERSION_NUM == 501
			lua_getfenv(L, -2);
			lua_setfenv(L, -2);
#endif
			lua_remove(L, -2);
			lua_rawset(L, at);
		}
		lua_settop(L, at + 2);
	}
	lua_settop(L, at - 1);
}

void pb_coroutines_give_back(lua_State *L, struct pb_stack *p)
{
	luaL_unref(L, LUA_REGISTRYINDEX, p->creators);
	p->creators = LUA_NOREF;
	if (!p->cell)
		return;
	p->cell->p = NULL;
	resumed = NULL;
	if (library(L)) {
		for (const luaL_Reg *r = stand_ins; r->name; r++) {
			lua_pushstring(L, r->name);
			lua_pushvalue(L, -1);
			lua_rawget(L, -3);
			/* The program may have replaced our function meanwhile; then its function stays. */
			if (lua_tocfunction(L, -1) == r->func && lua_getupvalue(L, -1, CELL)) {
				const int ours = lua_touserdata(L, -1) == p->cell;

				lua_pop(L, 1);
				if (ours && lua_getupvalue(L, -1, ORIGINAL)) {
					lua_remove(L, -2);
					lua_rawset(L, -3);
					continue;
				}
			}
			lua_pop(L, 2);
		}
		lua_pop(L, 1);
	}
	p->cell = NULL;
}

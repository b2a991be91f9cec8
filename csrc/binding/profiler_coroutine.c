/* coroutine.resume, create and wrap in place of the library's while a profiler runs that needs them: they tell who resumed whom, and
 * remember where a coroutine was made. They call what they replace, so all but the telling is as it was. Who keeps one of them
 * beyond the profiler's end has a function that does nothing more than the library's: of the profiler they know a cell, which is
 * empty then.
 *
 * Where a coroutine was made is a node of the stacks, the number that its thread has in a table with weak keys: it is forgotten with the
 * coroutine. The node's path has the maker's own maker in it already. */
#include "profiler.h"

#include <string.h>

enum { ORIGINAL = 1, PROFILER, THIRD };

/* The profiler, while it runs. */
static struct pb_profiler *running(lua_State *L)
{
	struct pb_profiler *p = *(struct pb_profiler **)lua_touserdata(L, lua_upvalueindex(PROFILER));

	return p && p->s.running && !pf_sampler_inherited(&p->s) ? p : NULL;
}

/* What is below n arguments becomes the original; then its results. Its error is left on the stack: the status of lua_pcall. */
static int call(lua_State *L, lua_State *co, int n)
{
	struct pb_resumption r = {co, L, pb_resumed};
	const int telling = co && running(L);
	int status;

	lua_pushvalue(L, lua_upvalueindex(ORIGINAL));
	lua_insert(L, 1);
	if (telling)
		pb_resumed = &r;
	status = lua_pcall(L, n, LUA_MULTRET, 0);
	if (telling)
		pb_resumed = r.outer;
	return status;
}

/* The original's error. What is wrong with an argument it says without its own name, which is that of the function that runs. */
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
	return call(L, lua_tothread(L, 1), lua_gettop(L)) == 0 ? lua_gettop(L) : fail(L);
}

/* Third upvalue: the thread of the original. */
static int l_wrapped(lua_State *L)
{
	if (call(L, lua_tothread(L, lua_upvalueindex(THIRD)), lua_gettop(L)) == 0)
		return lua_gettop(L);
	if (lua_type(L, -1) == LUA_TSTRING) { /* the original says where its caller is, which here is none of Lua's */
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

/* Where the thread at an index is made: by whoever called the function that runs. What this costs is the profiler's own. */
static void remember(lua_State *L, int thread)
{
	struct pb_profiler *p = running(L);
	uint32_t frames[PF_SAMPLER_DEPTH], node;
	unsigned n;

	if (!p || p->creators == LUA_NOREF || !lua_isthread(L, thread))
		return;
	pf_sampler_enter(&p->s);
	n = pb_walk(p, L, 1, frames);
	node = pf_stacks_path(&p->s.stacks, 0, frames, n);
	if (node) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, p->creators);
		lua_rawgeti(L, -1, 1);
		lua_pushvalue(L, -2);
		lua_pushvalue(L, thread);
		lua_pushnumber(L, node);
		if (lua_pcall(L, 3, 0, 0) != 0)
			lua_pop(L, 1); /* without memory it is a coroutine that nobody knows the maker of */
		lua_pop(L, 1);
	}
	pf_sampler_leave(&p->s);
}

static int make(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(ORIGINAL));
	lua_insert(L, 1);
	return lua_pcall(L, lua_gettop(L) - 1, 1, 0) == 0 ? 1 : fail(L);
}

static int l_create(lua_State *L)
{
	make(L);
	remember(L, 1);
	return 1;
}

static int l_wrap(lua_State *L)
{
	const struct pb_profiler *p;

	make(L);
	/* The library's function keeps its thread as an upvalue; without it there is nothing to tell. */
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
	lua_pushvalue(L, lua_upvalueindex(PROFILER));
	lua_insert(L, 2);
	lua_pushcclosure(L, l_wrapped, 3);
	return 1;
}

int pb_stands_in(lua_State *L)
{
	const lua_CFunction code = lua_tocfunction(L, -1);

	if (code == l_wrapped)
		return 1; /* which its caller has a name for, as it has none for the original */
	if (code != l_resume && code != l_create && code != l_wrap)
		return 0;
	lua_getupvalue(L, -1, ORIGINAL);
	lua_remove(L, -2);
	return 1;
}

unsigned pb_creator(struct pb_profiler *p, lua_State *L, uint32_t *frames, unsigned n)
{
	const struct pf_stacks *s = &p->s.stacks;
	uint32_t node;

	if (p->creators == LUA_NOREF)
		return n;
	lua_rawgeti(L, LUA_REGISTRYINDEX, p->creators);
	lua_pushthread(L);
	lua_rawget(L, -2);
	node = (uint32_t)lua_tonumber(L, -1);
	lua_pop(L, 2);
	for (; node && n < PF_SAMPLER_DEPTH; node = pf_stacks_node_at(s, node)->parent)
		frames[n++] = pf_stacks_node_at(s, node)->frame;
	return n;
}

/* --- taking their place --------------------------------------------------------------------------------------------- */

static const luaL_Reg stand_ins[] = {{"resume", l_resume}, {"create", l_create}, {"wrap", l_wrap}, {NULL, NULL}};

static int wanted(const struct pb_profiler *p, lua_CFunction fn)
{
	return fn == l_resume ? p->tells : fn == l_create ? p->creators != LUA_NOREF : p->tells || p->creators != LUA_NOREF;
}

/* The library, as require knows it, on top; 0, and nothing, where there is none. */
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

void pb_coroutines_take(lua_State *L, struct pb_profiler *p)
{
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
	pb_getuservalue(L, 1);
	p->cell = pb_newuserdata(L, sizeof *p->cell);
	*p->cell = p;
	lua_pushvalue(L, -1);
	lua_rawseti(L, -3, 2); /* as long as the profiler, which does not live as long as these functions may */
	lua_remove(L, -2);
	for (const luaL_Reg *r = stand_ins; r->name; r++) {
		if (!wanted(p, r->func))
			continue;
		lua_pushstring(L, r->name);
		lua_pushvalue(L, -1);
		lua_rawget(L, -4);
		if (!lua_isfunction(L, -1)) {
			lua_pop(L, 2);
			continue;
		}
		lua_pushvalue(L, -3);
		lua_pushcclosure(L, r->func, 2);
		lua_rawset(L, -4);
	}
	lua_pop(L, 2);
}

void pb_coroutines_give_back(lua_State *L, struct pb_profiler *p)
{
	luaL_unref(L, LUA_REGISTRYINDEX, p->creators);
	p->creators = LUA_NOREF;
	if (!p->cell)
		return;
	*p->cell = NULL;
	if (library(L)) {
		for (const luaL_Reg *r = stand_ins; r->name; r++) {
			lua_pushstring(L, r->name);
			lua_pushvalue(L, -1);
			lua_rawget(L, -3);
			/* Unless somebody has put another there since. */
			if (lua_tocfunction(L, -1) == r->func && lua_getupvalue(L, -1, PROFILER)) {
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

/* The differences between Lua 5.1, LuaJIT, 5.2, 5.3 and 5.4 that concern the binding, in one place. */
#ifndef PB_COMPAT_H
#define PB_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <string.h>

#if LUA_VERSION_NUM < 502
#define pb_rawlen(L, i) lua_objlen(L, i)
#define pb_setuservalue(L, i) lua_setfenv(L, i) /* takes a table */
#define pb_getuservalue(L, i) lua_getfenv(L, i)
#else
#define pb_rawlen(L, i) ((size_t)lua_rawlen(L, i))
#if LUA_VERSION_NUM < 504
#define pb_setuservalue(L, i) lua_setuservalue(L, i)
#define pb_getuservalue(L, i) lua_getuservalue(L, i)
#else
#define pb_setuservalue(L, i) lua_setiuservalue(L, i, 1)
#define pb_getuservalue(L, i) lua_getiuservalue(L, i, 1)
#endif
#endif

/* A userdata with a uservalue, and one without. */
#if LUA_VERSION_NUM < 504
#define pb_newuserdata(L, size) lua_newuserdata(L, size)
#define pb_newplain(L, size) lua_newuserdata(L, size)
#else
#define pb_newuserdata(L, size) lua_newuserdatauv(L, size, 1)
#define pb_newplain(L, size) lua_newuserdatauv(L, size, 0)
#endif

/* Calls fn(data) in protected mode. lua_pushcfunction allocates on LuaJIT and 5.1, so it may raise an error; this does not. */
static inline int pb_cpcall(lua_State *L, lua_CFunction fn, void *data)
{
#if LUA_VERSION_NUM == 501
	return lua_cpcall(L, fn, data);
#else
	lua_pushcfunction(L, fn);
	lua_pushlightuserdata(L, data);
	return lua_pcall(L, 1, 0, 0);
#endif
}

/* Whether the collector runs by itself: the program has not stopped it, and no finalizer of Lua 5.4 runs. Lua 5.1 does not tell: 0. */
static inline int pb_collects(lua_State *L)
{
#ifdef LUA_GCISRUNNING
	return lua_gc(L, LUA_GCISRUNNING, 0) > 0;
#else
	(void)L;
	return 0;
#endif
}

/* Returns the key of the value at f in the table on top of the stack, or NULL. The key may stay on the stack. */
static inline const char *pb_key_of(lua_State *L, int f)
{
	const int t = lua_gettop(L);

	if (lua_istable(L, t))
		for (lua_pushnil(L); lua_next(L, t); lua_settop(L, t + 1))
			if (lua_rawequal(L, f, -1) && lua_type(L, -2) == LUA_TSTRING)
				return lua_tostring(L, -2);
	lua_settop(L, t);
	return NULL;
}

/* Returns the name of the function at f, or NULL. If index is NULL, a module is on top of the stack: search it and the modules in it.
 * Otherwise the registry is: search the field `index` of the metatables in it that are named "perf.*". */
static inline const char *pb_key_below(lua_State *L, int f, const char *index)
{
	const int t = lua_gettop(L);
	const char *name = index ? NULL : pb_key_of(L, f);

	if (!lua_istable(L, t))
		return NULL;
	for (lua_pushnil(L); !name && lua_next(L, t); !name ? lua_settop(L, t + 1) : (void)0) {
		if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1))
			continue;
		if (index) {
			if (strncmp(lua_tostring(L, -2), "perf.", 5) != 0)
				continue;
			lua_pushstring(L, index);
			lua_rawget(L, -2);
		}
		name = pb_key_of(L, f);
	}
	return name;
}

/* Lua does not know the name of a function that was called by pcall or a tail call (a REPL's `return ev:refresh("x")`), and
 * writes '?'. The class of the first argument has the name. If the first argument is of another class, search perf, its modules
 * and the classes in the registry. */
static inline _Noreturn int pb_argerror(lua_State *L, int arg, const char *message)
{
	const char *name = NULL;
	lua_Debug ar;
	int f;

	if (!lua_getstack(L, 0, &ar))
		luaL_error(L, "bad argument #%d (%s)", arg, message);
	lua_getinfo(L, "nf", &ar);
	f = lua_gettop(L);
	luaL_checkstack(L, 16, NULL);
	if (ar.name && ar.name[0] != '?')
		name = ar.name;
	if (name && strcmp(ar.namewhat, "method") == 0 && --arg == 0)
		luaL_error(L, "calling '%s' on bad self (%s)", name, message);
	if (!name && luaL_getmetafield(L, 1, "__index"))
		name = pb_key_of(L, f);
	if (!name) {
		lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
		lua_getfield(L, -1, "perf");
		name = pb_key_below(L, f, NULL);
	}
	if (!name) {
		lua_pushvalue(L, LUA_REGISTRYINDEX);
		name = pb_key_below(L, f, "__index");
	}
	luaL_error(L, "bad argument #%d to '%s' (%s)", arg, name ? name : "?", message);
	__builtin_unreachable();
}

static inline _Noreturn void pb_typeerror(lua_State *L, int arg, const char *wanted)
{
	pb_argerror(L, arg, lua_pushfstring(L, "%s expected, got %s", wanted, luaL_typename(L, arg)));
}

static inline lua_Number pb_checknumber(lua_State *L, int arg)
{
#if LUA_VERSION_NUM >= 502
	int is_number;
	const lua_Number n = lua_tonumberx(L, arg, &is_number);
#else
	const lua_Number n = lua_tonumber(L, arg);
	const int is_number = n != 0 || lua_isnumber(L, arg);
#endif

	if (!is_number)
		pb_typeerror(L, arg, "number");
	return n;
}

static inline const char *pb_checklstring(lua_State *L, int arg, size_t *n)
{
	if (!lua_isstring(L, arg))
		pb_typeerror(L, arg, "string");
	return lua_tolstring(L, arg, n);
}

static inline void pb_checktype(lua_State *L, int arg, int type)
{
	if (lua_type(L, arg) != type)
		pb_typeerror(L, arg, lua_typename(L, type));
}

static inline lua_Integer pb_checkinteger(lua_State *L, int arg)
{
#if LUA_VERSION_NUM >= 503
	int whole = lua_isinteger(L, arg);

	if (!whole && lua_isnumber(L, arg)) {
		lua_tointegerx(L, arg, &whole);
		if (!whole)
			pb_argerror(L, arg, "number has no integer representation");
	}
#endif
	pb_checknumber(L, arg);
	return lua_tointeger(L, arg);
}

#undef luaL_optnumber
#undef luaL_optinteger
#define luaL_argerror pb_argerror
#define luaL_checknumber pb_checknumber
#define luaL_checkinteger pb_checkinteger
#define luaL_checklstring pb_checklstring
#define luaL_checktype pb_checktype
#define luaL_optnumber(L, arg, d) (lua_isnoneornil(L, arg) ? (d) : pb_checknumber(L, arg))
#define luaL_optinteger(L, arg, d) (lua_isnoneornil(L, arg) ? (lua_Integer)(d) : pb_checkinteger(L, arg))

/* Add functions to the table on top of the stack. NULL: none. */
static inline void pb_register(lua_State *L, const luaL_Reg *l)
{
	for (; l && l->name; l++) {
		lua_pushcfunction(L, l->func);
		lua_setfield(L, -2, l->name);
	}
}

/* The userdata at i if its metatable is the one at that index, absolute or pseudo-index, else NULL. For functions called for each
 * record: looking a metatable up by its name would cost more. */
static inline void *pb_test_as(lua_State *L, int i, int metatable)
{
	void *p = lua_touserdata(L, i);

	if (!p || !lua_getmetatable(L, i))
		return NULL;
	if (!lua_rawequal(L, -1, metatable))
		p = NULL;
	lua_pop(L, 1);
	return p;
}

/* The userdata at i if its metatable is the registry's tname, else NULL. */
static inline void *pb_test(lua_State *L, int i, const char *tname)
{
	void *p = lua_touserdata(L, i);

	if (!p || !lua_getmetatable(L, i))
		return NULL;
	lua_getfield(L, LUA_REGISTRYINDEX, tname);
	if (!lua_rawequal(L, -1, -2))
		p = NULL;
	lua_pop(L, 2);
	return p;
}

#endif

/* The few differences between Lua 5.1, LuaJIT, 5.2, 5.3 and 5.4 that the binding meets, in one place. */
#ifndef PB_COMPAT_H
#define PB_COMPAT_H

#include <lauxlib.h>
#include <lua.h>

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

/* Add functions to the table on top of the stack. */
static inline void pb_register(lua_State *L, const luaL_Reg *l)
{
	for (; l->name; l++) {
		lua_pushcfunction(L, l->func);
		lua_setfield(L, -2, l->name);
	}
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

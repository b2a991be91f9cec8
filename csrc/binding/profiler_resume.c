/* coroutine.resume and coroutine.wrap that tell who resumed whom, in place of the library's while a profiler runs that asks for
 * it. They call what they replace, so all but the telling is as it was. */
#include "profiler.h"

/* Call the function below n arguments; all its results. Its error is raised when the telling is undone. */
static int call(lua_State *L, lua_State *co, int n, int base)
{
	struct pb_resumption r = {co, L, pb_resumed};
	int status;

	pb_resumed = &r;
	status = lua_pcall(L, n, LUA_MULTRET, 0);
	pb_resumed = r.outer;
	if (status != 0)
		return lua_error(L);
	return lua_gettop(L) - base;
}

/* Upvalue: coroutine.resume. */
static int l_resume(lua_State *L)
{
	const int n = lua_gettop(L);

	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	return call(L, n ? lua_tothread(L, 2) : NULL, n, 0);
}

/* Upvalues: what coroutine.wrap returned, its thread. */
static int l_wrapped(lua_State *L)
{
	const int n = lua_gettop(L);

	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	return call(L, lua_tothread(L, lua_upvalueindex(2)), n, 0);
}

/* Upvalue: coroutine.wrap. */
static int l_wrap(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_insert(L, 1);
	lua_call(L, lua_gettop(L) - 1, 1);
	/* The library's function keeps its thread as an upvalue; without it there is nothing to tell. */
	if (!lua_getupvalue(L, -1, 1) || !lua_isthread(L, -1)) {
		lua_settop(L, 1);
		return 1;
	}
	lua_pushcclosure(L, l_wrapped, 2);
	return 1;
}

/* core.telling(resume, wrap): the two that take their place. */
static int l_telling(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_settop(L, 2);
	lua_pushvalue(L, 1);
	lua_pushcclosure(L, l_resume, 1);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_wrap, 1);
	return 2;
}

void pb_open_profiler_resume(lua_State *L)
{
	static const luaL_Reg functions[] = {{"telling", l_telling}, {NULL, NULL}};

	pb_register(L, functions);
}

/* The module: base/binding.h lists its parts. */
#include "binding/base/binding.h"

__attribute__((visibility("default"))) int luaopen_perf_core(lua_State *L);

#define X(name) pb_open_##name(L);

/* The module's __index until the other parts are open. It opens them into a new table, which becomes the module's __index at the end. If
 * memory runs out before that, Lua gets none of the parts, and the next use opens all of them again. To open a part again after Lua has
 * changed methods of its class would replace those methods. */
static int l_open_later(lua_State *L)
{
	lua_settop(L, 2);
	lua_insert(L, 1);
	lua_getmetatable(L, 2);
	lua_newtable(L);
	lua_getfield(L, 2, "Event"); /* some parts add methods to it */
	lua_setfield(L, -2, "Event");
	PB_OPEN_LATER(X)
	lua_pushvalue(L, -1);
	lua_setfield(L, 3, "__index");
	lua_pushvalue(L, 1);
	lua_rawget(L, -2);
	return 1;
}

int luaopen_perf_core(lua_State *L)
{
	lua_newtable(L);
	PB_OPEN(X)
	lua_createtable(L, 0, 1);
	pb_set_function(L, "__index", l_open_later);
	lua_setmetatable(L, -2);
	return 1;
}

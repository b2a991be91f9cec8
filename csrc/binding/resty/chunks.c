/* Replaces the chunks of nginx's configuration. nginx loads each chunk at its first run, and keeps it in a table, the cache. The
 * cache gets a __newindex, which replaces each new chunk by a function.
 *
 * nginx then runs the chunk that it has just stored from its own slot on the Lua stack, below the call of __newindex. The slot's
 * distance is learned from a call like nginx's, and the slot is written only if it has the chunk. Lua's manual does not say that
 * a C function's indexes reach its caller's slots. In LuaJIT they do, so this is done in LuaJIT alone. */
#include "binding/stack/stack.h"

#if PB_LUAJIT

#define MOST_BELOW 16

/* Upvalue 1 is the value to look for; upvalue 2 gets the distance of its slot from the arguments, or 0. */
static int l_probe(lua_State *L)
{
	int below = 0;

	for (int i = MOST_BELOW; i > 0; i--)
		if (lua_rawequal(L, -lua_gettop(L) - i, lua_upvalueindex(1)))
			below = i;
	lua_pushinteger(L, below);
	lua_replace(L, lua_upvalueindex(2));
	return 0;
}

/* Returns the distance from the arguments of __newindex down to the value that was pushed before the table; 0 if it is not found. */
static int learn_distance(lua_State *L)
{
	int top = lua_gettop(L), below;

	luaL_checkstack(L, MOST_BELOW + 8, "");
	lua_settop(L, top + MOST_BELOW); /* the probe reads no lower */
	lua_newtable(L);
	lua_newtable(L);
	lua_newtable(L);
	lua_pushvalue(L, -3);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, l_probe, 2);
	lua_pushvalue(L, -1);
	lua_insert(L, top + 1);
	lua_setfield(L, -2, "__newindex");
	lua_setmetatable(L, -2);
	pb_set_int(L, "chunk", 1);
	lua_getupvalue(L, top + 1, 2);
	below = (int)lua_tointeger(L, -1);
	lua_settop(L, top);
	return below;
}

/* Call wrap, which is upvalue 1, for the arguments of l_store. Pushes the chunk (4) and wrap's result (5). Returns whether the result
 * is a function. */
static int wrapped(lua_State *L)
{
	lua_pushvalue(L, 3);
	if (lua_type(L, 3) == LUA_TNUMBER)
		lua_rawget(L, 1);
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_pushvalue(L, 2);
	lua_pushvalue(L, 4);
	return lua_isfunction(L, 4) && lua_pcall(L, 2, 1, 0) == 0 && lua_isfunction(L, 5);
}

/* cache[key] = value, for a new key. The value is a chunk, or the index at which the cache has it. Upvalue 2 is the distance. */
static int l_store(lua_State *L)
{
	int below = (int)lua_tointeger(L, lua_upvalueindex(2));

	lua_settop(L, 3);
	if (wrapped(L)) {
		if (below && lua_rawequal(L, -5 - below, 4)) {
			lua_pushvalue(L, 5);
			lua_replace(L, -6 - below);
		}
		if (lua_type(L, 3) == LUA_TNUMBER) {
			lua_pushvalue(L, 3);
			lua_pushvalue(L, 5);
			lua_rawset(L, 1);
		} else {
			lua_replace(L, 3);
		}
	}
	lua_settop(L, 3);
	lua_rawset(L, 1);
	return 0;
}

/* core.wrap_chunks(cache, wrap): from now on, wrap(key, chunk) is called for each new chunk of the cache, and returns the function
 * that replaces it. Returns whether the chunk is replaced for its first run too. */
static int l_wrap_chunks(lua_State *L)
{
	int below;

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checktype(L, 2, LUA_TFUNCTION);
	below = learn_distance(L);
	lua_newtable(L);
	lua_pushvalue(L, 2);
	lua_pushinteger(L, below);
	lua_pushcclosure(L, l_store, 2);
	lua_setfield(L, -2, "__newindex");
	lua_setmetatable(L, 1);
	return pb_bool(L, below != 0);
}

#endif

void pb_open_chunks(lua_State *L)
{
#if PB_LUAJIT
	pb_set_function(L, "wrap_chunks", l_wrap_chunks);
#else
	(void)L;
#endif
}

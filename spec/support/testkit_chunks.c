/*
 * What nginx's Lua module does when it loads a chunk of its configuration.
 */
#include "testkit.h"

/*
 * store_chunk(cache, key, chunk, indexed): puts a new chunk into the cache, under an index if indexed. Returns the function that
 * lies then where nginx takes the chunk to run, and the index.
 */
static int kit_store_chunk(lua_State *L)
{
    const char *key = luaL_checkstring(L, 2);
    int indexed = lua_toboolean(L, 4), index = 0;

    lua_settop(L, 4);
    lua_pushvalue(L, 3);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, -2);
    if (indexed) {
        index = luaL_ref(L, -2);
        lua_pushnumber(L, index);
    }
    lua_setfield(L, -2, key);
    lua_pop(L, 1);
    lua_pushnumber(L, index);
    return 2;
}

static const luaL_Reg functions[] = { { "store_chunk", kit_store_chunk }, { NULL, NULL } };

void tk_open_chunks(lua_State *L)
{
    tk_register(L, functions);
}

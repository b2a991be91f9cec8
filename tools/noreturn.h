/* For static analysis: Lua's functions that do not return, and those that never return NULL. Lua's headers do not mark them. */
#include <lauxlib.h>
#include <lua.h>

__attribute__((noreturn)) int lua_error(lua_State *L);
__attribute__((noreturn)) int luaL_error(lua_State *L, const char *fmt, ...);
__attribute__((noreturn)) int luaL_argerror(lua_State *L, int arg, const char *text);
__attribute__((returns_nonnull)) const char *luaL_checklstring(lua_State *L, int arg, size_t *length);
__attribute__((returns_nonnull)) void *luaL_checkudata(lua_State *L, int arg, const char *name);

#include <string.h>

#include "binding/base/binding.h"

const char *pb_check_path(lua_State *L, int i)
{
	size_t len;
	const char *path = luaL_checklstring(L, i, &len);

	luaL_argcheck(L, strlen(path) == len, i, "a path has no zero bytes");
	return path;
}

void pb_check_options(lua_State *L, int i, const char *const *known)
{
	lua_pushnil(L);
	while (lua_next(L, i)) {
		const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2);
		int k = 0;

		while (known[k] && strcmp(known[k], key) != 0)
			k++;
		if (!known[k]) {
			lua_pushfstring(L, "unknown option '%s'; there are", key);
			for (k = 0; known[k]; k++)
				lua_pushfstring(L, "%s%s %s", lua_tostring(L, -1), k ? "," : "", known[k]);
			luaL_argerror(L, i, lua_tostring(L, -1));
		}
		lua_pop(L, 1);
	}
}

void pb_push_hex(lua_State *L, const unsigned char *bytes, size_t n)
{
	luaL_Buffer b;

	luaL_buffinit(L, &b);
	for (size_t i = 0; i < n; i++) {
		luaL_addchar(&b, "0123456789abcdef"[bytes[i] >> 4]);
		luaL_addchar(&b, "0123456789abcdef"[bytes[i] & 15]);
	}
	luaL_pushresult(&b);
}

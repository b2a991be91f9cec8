#include <string.h>

#include "binding/base/binding.h"

const char *pb_check_path(lua_State *L, int i)
{
	size_t len;
	const char *path = luaL_checklstring(L, i, &len);

	luaL_argcheck(L, strlen(path) == len, i, "a path has no zero bytes");
	return path;
}

void pb_check_options(lua_State *L, int i, const char *method)
{
	lua_getfield(L, LUA_REGISTRYINDEX, PB_MISTAKES);
	lua_getfield(L, -1, method);
	lua_pushvalue(L, i);
	lua_call(L, 1, 1);
	if (lua_isstring(L, -1))
		luaL_argerror(L, i, lua_tostring(L, -1));
	lua_pop(L, 2);
}

void pb_push_module(lua_State *L, const char *name)
{
	lua_getglobal(L, "require");
	lua_pushliteral(L, "perf.base.late");
	lua_call(L, 1, 1);
	lua_pushstring(L, name);
	lua_call(L, 1, 1);
}

void pb_push_hint(lua_State *L, const char *name)
{
	pb_push_module(L, "perf.base.suggest");
	lua_getfield(L, -1, "hint");
	lua_pushstring(L, name);
	lua_pushvalue(L, -4);
	lua_call(L, 2, 1);
	lua_replace(L, -3);
	lua_pop(L, 1);
}

void pb_push_hex(lua_State *L, const unsigned char *bytes, size_t n)
{
	luaL_Buffer b;
	char digits[256]; /* luaL_addchar would check the buffer's room for each digit */

	luaL_buffinit(L, &b);
	while (n > 0) {
		const size_t some = n < sizeof digits / 2 ? n : sizeof digits / 2;

		for (size_t i = 0; i < some; i++) {
			digits[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
			digits[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
		}
		luaL_addlstring(&b, digits, 2 * some);
		bytes += some;
		n -= some;
	}
	luaL_pushresult(&b);
}

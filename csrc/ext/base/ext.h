/* Functions that the extensions share. Each extension is a separate module over a library that may be missing. It links the parts
 * of the binding that it needs (64-bit values, errors) from an archive, and so has a separate copy of that code and of its static
 * state. */
#ifndef PX_EXT_H
#define PX_EXT_H

#include "binding/base/binding.h"

#define PX_EXPORT __attribute__((visibility("default")))

/* Call it first in luaopen: the extension's copy of int64.c needs its FFI helpers. */
static inline void px_open(lua_State *L)
{
	lua_newtable(L);
	pb_open_int64(L);
	lua_pop(L, 1);
}

/* A metatable with one function for __gc, __close and the method "close"; the function must be idempotent. */
static inline void px_class(lua_State *L, const char *tname, const luaL_Reg *methods, lua_CFunction close_fn)
{
	pb_class(L, tname, methods, close_fn);
	if (close_fn) {
		lua_getfield(L, -1, "__index");
		lua_pushcfunction(L, close_fn);
		lua_setfield(L, -2, "close");
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

/* An address. It may be a negative number, as sign-extended kernel addresses are. */
static inline uint64_t px_check_addr(lua_State *L, int i)
{
	uint64_t v = 0;
	int negative;

	if (!pb_to_u64(L, i, &v, &negative))
		luaL_argerror(L, i, lua_pushfstring(L, "address expected, got %s", luaL_typename(L, i)));
	return v;
}

/* A string without zero bytes, for C functions. */
static inline const char *px_check_cstring(lua_State *L, int i)
{
	size_t n;
	const char *s = luaL_checklstring(L, i, &n);

	luaL_argcheck(L, __builtin_strlen(s) == n, i, "string contains a zero byte");
	return s;
}

#endif

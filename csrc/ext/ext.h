/* What the extensions share. Each is a module of its own over a library that may be missing, and takes what it needs of
 * the binding (64-bit values, errors) out of an archive: so it has a copy of that code, and of its static state. */
#ifndef PX_EXT_H
#define PX_EXT_H

#include "binding.h"

#define PX_EXPORT __attribute__((visibility("default")))

/* First thing in luaopen: this library's copy of int64.c needs its FFI helpers. */
static inline void px_open(lua_State *L)
{
	lua_newtable(L);
	pb_open_int64(L);
	lua_pop(L, 1);
}

/* A metatable whose __gc, __close and method "close" are one function; it must be idempotent. */
static inline void px_class(lua_State *L, const char *tname, const luaL_Reg *methods, lua_CFunction close_fn)
{
	static const char *const names[] = {"__gc", "__close"};

	if (luaL_newmetatable(L, tname)) {
		for (size_t i = 0; close_fn && i < sizeof names / sizeof *names; i++) {
			lua_pushcfunction(L, close_fn);
			lua_setfield(L, -2, names[i]);
		}
		lua_newtable(L);
		pb_register(L, methods);
		if (close_fn) {
			lua_pushcfunction(L, close_fn);
			lua_setfield(L, -2, "close");
		}
		lua_setfield(L, -2, "__index");
		lua_pushstring(L, tname);
		lua_setfield(L, -2, "__name");
	}
	lua_pop(L, 1);
}

/* A zeroed userdata of that class, without a uservalue yet. */
static inline void *px_new(lua_State *L, size_t size, const char *tname)
{
	void *p = pb_newuserdata(L, size);

	__builtin_memset(p, 0, size);
	luaL_getmetatable(L, tname);
	lua_setmetatable(L, -2);
	return p;
}

/* The userdata at i, or an error that says what was expected. */
static inline void *px_check(lua_State *L, int i, const char *tname, const char *what)
{
	void *p = pb_test(L, i, tname);

	if (!p)
		luaL_argerror(L, i, lua_pushfstring(L, "%s expected, got %s", what, luaL_typename(L, i)));
	return p;
}

/* A string without zero bytes, as C takes it. */
static inline const char *px_check_cstring(lua_State *L, int i)
{
	size_t n;
	const char *s = luaL_checklstring(L, i, &n);

	luaL_argcheck(L, __builtin_strlen(s) == n, i, "string contains a zero byte");
	return s;
}

#endif

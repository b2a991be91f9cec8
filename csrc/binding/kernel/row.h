/* Rows of the .def tables as Lua tables. Each function leaves its table on top of the stack. */
#ifndef PB_ROW_H
#define PB_ROW_H

#include "binding/base/binding.h"

static inline void row(lua_State *L, const char *sym, int64_t value, const char *name)
{
	lua_createtable(L, 0, 6);
	lua_pushstring(L, sym);
	lua_setfield(L, -2, "sym");
	pb_push_i64(L, value);
	lua_setfield(L, -2, "value");
	lua_pushstring(L, name);
	lua_setfield(L, -2, "name");
}

static inline void text(lua_State *L, const char *key, const char *s)
{
	lua_pushstring(L, s);
	lua_setfield(L, -2, key);
}

/* Append the table on top to the array below it. */
static inline void append(lua_State *L)
{
	lua_rawseti(L, -2, (int)pb_rawlen(L, -2) + 1);
}

#endif

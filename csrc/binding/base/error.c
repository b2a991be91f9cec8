/* One function turns -errno into nil, message, code. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/sys.h"
#include "binding/base/binding.h"

static const struct {
	int value;
	const char *name;
} errnos[] = {
#define X(sym) {sym, #sym},
#include "core/base/errno.def"
#undef X
	{524, "ENOTSUPP"}, /* the kernel's own, which no header of the C library has */
};

void pb_push_errno(lua_State *L, int err)
{
	for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++)
		if (errnos[i].value == err) {
			lua_pushstring(L, errnos[i].name);
			return;
		}
	lua_pushfstring(L, "E%d", err);
}

int pb_fail(lua_State *L, int err, const char *what, ...)
{
	char text[512];
	va_list ap;

	err = err < 0 ? -err : err;
	va_start(ap, what);
	vsnprintf(text, sizeof text, what, ap);
	va_end(ap);
	lua_pushnil(L);
	lua_pushfstring(L, "%s: %s", text, err == 524 ? "Operation is not supported" : strerror(err));
	pb_push_errno(L, err);
	return 3;
}

int pb_refuse(lua_State *L, int err, const char *what, ...)
{
	char text[5000]; /* room for a path */
	va_list ap;

	va_start(ap, what);
	vsnprintf(text, sizeof text, what, ap);
	va_end(ap);
	lua_pushnil(L);
	lua_pushstring(L, text);
	pb_push_errno(L, err < 0 ? -err : err);
	return 3;
}

int pb_fail_read(lua_State *L, int err)
{
	/* The kernel returns ENOSPC if there is no room for the value of one more event. */
	return pb_fail(L, err, "%s", err == -ENOSPC ? "read of a group that an event has joined since, by perf.open's group" : "read");
}

void pb_refuse_inherited(lua_State *L, int i, const char *what)
{
	luaL_argerror(L, i, lua_pushfstring(L, PB_INHERITED, what));
}

/* core.inherited(what): the same message for an object of the Lua layer. */
static int l_inherited(lua_State *L)
{
	lua_pushfstring(L, PB_INHERITED, luaL_checkstring(L, 1));
	return 1;
}

int pb_result(lua_State *L, int r, const char *what)
{
	if (r < 0)
		return pb_fail(L, r, "%s", what);
	return pb_bool(L, 1);
}

/* core.fault(call, code, skip): arm a fault; core.fault(): disarm, returns the calls seen. For tests. */
static int l_fault(lua_State *L)
{
	const char *call, *code;

	if (lua_isnoneornil(L, 1))
		return pb_int(L, (lua_Integer)pf_fault_disarm());
	call = luaL_checkstring(L, 1);
	code = luaL_checkstring(L, 2);
	for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++)
		if (strcmp(errnos[i].name, code) == 0)
			return pb_result(L, pf_fault_arm(call, errnos[i].value, (unsigned)luaL_optinteger(L, 3, 0)),
					 "fault");
	return luaL_argerror(L, 2, "no such errno");
}

/* core.refused(what, err): nil, message, code for an errno, for functions that were called through FFI. */
static int l_refused(lua_State *L)
{
	return pb_fail(L, (int)luaL_checkinteger(L, 2), "%s", luaL_checkstring(L, 1));
}

/* core.read_failed(r): the same for a failed read of a group. */
static int l_read_failed(lua_State *L)
{
	return pb_fail_read(L, (int)luaL_checkinteger(L, 1));
}

void pb_open_error(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"fault", l_fault}, {"refused", l_refused}, {"read_failed", l_read_failed}, {"inherited", l_inherited}, {NULL, NULL}};

	pb_register(L, functions);
	lua_newtable(L);
	lua_pushvalue(L, -1);
	lua_setfield(L, LUA_REGISTRYINDEX, PB_MISTAKES);
	lua_setfield(L, -2, "mistakes");
}

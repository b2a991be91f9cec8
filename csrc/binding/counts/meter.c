#include "binding/counts/meter.h"

#include <errno.h>
#include <string.h>

struct pf_meter *pb_check_meter(lua_State *L, int i)
{
	struct pf_meter *m = pb_test(L, i, PB_GROUP);

	if (!m)
		m = pb_test(L, i, PB_METER);
	if (!m)
		luaL_argerror(L, i, lua_pushfstring(L, "Group expected, got %s", luaL_typename(L, i)));
	return m;
}

/* Raise the error at the line that called the library: perf.base.argument finds it. */
int pb_meter_failed(lua_State *L, const struct pf_meter *m, int r)
{
	const int is_self = r == -ECHILD || (r == -EBADF && m->is_group); /* the Group's state is wrong, not an argument */

	lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
	lua_getfield(L, -1, "perf.base.argument");
	if (!lua_istable(L, -1))
		return luaL_error(L, "read: %s", strerror(-r));
	lua_getfield(L, -1, is_self ? "raise_in_method" : "raise");
	if (is_self)
		lua_pushnil(L); /* the name of the method that was called */
	if (r == -EBADF) {
		lua_pushstring(L, m->is_group ? PB_CLOSED_GROUP : PB_CLOSED_LIST);
	} else if (r == -ECHILD) {
		lua_pushfstring(L, PB_INHERITED, "Group");
	} else {
		pb_fail_read(L, r);
		lua_pop(L, 1);
		lua_remove(L, -2); /* leaves the message of nil, message, code */
	}
	lua_pushinteger(L, is_self);
	lua_call(L, 2 + is_self, 0);
	return 0;
}

void pb_set_reading(lua_State *L, const struct pf_reading *rd)
{
	if (rd->format & PF_FORMAT(TOTAL_TIME_ENABLED))
		pb_set_u64(L, "enabled_ns", rd->enabled);
	if (rd->format & PF_FORMAT(TOTAL_TIME_RUNNING))
		pb_set_u64(L, "running_ns", rd->running);
	for (uint64_t i = 0; i < rd->nr; i++) {
		const uint64_t *v = rd->values + i * rd->stride;

		lua_createtable(L, 0, 3);
		pb_set_u64(L, "value", v[0]);
		if (rd->id_at)
			pb_set_u64(L, "id", v[rd->id_at]);
		if (rd->lost_at)
			pb_set_u64(L, "lost", v[rd->lost_at]);
		lua_rawseti(L, -2, (int)i + 1);
	}
}

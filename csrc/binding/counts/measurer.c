/* A whole measurement in one C function: the quickest way without FFI, and in Lua 5.1 the only one in which the measured function
 * can yield. */
#include <errno.h>

#include "core/counts/meter.h"
#include "binding/counts/meter.h"

#if LUA_VERSION_NUM >= 502

enum { UP_METER = 1, UP_COUNTS, UP_LAYOUT, UP_AT, UP_SLOW, UPVALUES = 5 };

/* The function has returned, or was resumed for the last time: the Counts come first on the stack, its results after them. */
static int finish(lua_State *L)
{
	struct pf_meter *m = lua_touserdata(L, lua_upvalueindex(UP_METER));
	int r = pf_meter_end(m, lua_touserdata(L, 1));

	if (m->rests)
		pb_unguard(L, 1);
	return r < 0 ? pb_meter_failed(L, m, r) : lua_gettop(L);
}

static int all(lua_State *L)
{
	return lua_gettop(L);
}

#if LUA_VERSION_NUM == 502
#define CONTINUATION(name, next) static int name(lua_State *L) { return next(L); }
#else
#define CONTINUATION(name, next) \
	static int name(lua_State *L, int status, lua_KContext context) \
	{ \
		(void)status; \
		(void)context; \
		return next(L); \
	}
#endif
CONTINUATION(finish_k, finish)
CONTINUATION(all_k, all)

static int slowly(lua_State *L)
{
	lua_pushvalue(L, lua_upvalueindex(UP_SLOW));
	lua_insert(L, 1);
	lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, all_k);
	return all(L);
}

/* The function is at index `at`; the arguments before it have been checked. */
static int l_measure(lua_State *L)
{
	struct pf_meter *m = lua_touserdata(L, lua_upvalueindex(UP_METER));
	int at = (int)lua_tointeger(L, lua_upvalueindex(UP_AT));
	struct pf_counts *c;
	int r;

	luaL_argcheck(L, m, 1, "only a function made by core.measurer may call this");
	if (!lua_isfunction(L, at))
		return slowly(L);
	c = pb_newplain(L, sizeof *c + pf_meter_words(m) * sizeof *c->v);
	c->layout = (uint32_t)lua_tointeger(L, lua_upvalueindex(UP_LAYOUT));
	lua_pushvalue(L, lua_upvalueindex(UP_COUNTS));
	lua_setmetatable(L, -2);
	r = pf_meter_begin(m, c);
	if (r == -ESRCH) {
		lua_pop(L, 1);
		return slowly(L);
	}
	if (r < 0)
		return pb_meter_failed(L, m, r);
	if (r > 0)
		pb_begun(L, lua_upvalueindex(UP_METER), c);
	if (at == 1)
		lua_insert(L, 1);
	else
		lua_replace(L, 1);
	lua_callk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, finish_k);
	return finish(L);
}

/* core.measurer(meter, layout, at, slow): a function that measures its argument `at`, 1 or 2, called with the rest as its
 * arguments; it returns Counts and the results. If the meter serves another thread, or that argument is not a function, it calls
 * slow with all arguments instead. */
static int l_measurer(lua_State *L)
{
	lua_Integer at = luaL_checkinteger(L, 3);

	pb_check_meter(L, 1);
	luaL_argcheck(L, at == 1 || at == 2, 3, "1 or 2 expected");
	luaL_checktype(L, 4, LUA_TFUNCTION);
	lua_settop(L, 4);
	luaL_getmetatable(L, PB_COUNTS);
	lua_insert(L, 2);
	lua_pushcclosure(L, l_measure, UPVALUES);
	return 1;
}

void pb_open_measure(lua_State *L)
{
	pb_set_function(L, "measurer", l_measurer);
	pb_set_function(L, "measure", l_measure); /* for its name in a profile */
}

#else

void pb_open_measure(lua_State *L)
{
	pb_set_bool(L, "measurer", 0);
}

#endif

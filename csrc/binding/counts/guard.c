/* A guard for each measurement that may never end.
 *
 * A measurement that is abandoned by an error or a dead coroutine usually costs nothing. But a list of hardware events is enabled
 * while it measures, and takes counters from other events. So such a measurement gets a guard, which lives as long as its Counts:
 * the registry's table PB_GUARDS, which has weak keys, maps the Counts to it. If the guard is collected before the measurement
 * has ended, its finalizer tells the meter. */
#include "core/counts/meter.h"
#include "binding/counts/meter.h"

#define PB_GUARD "perf.Guard"
#define PB_GUARDS "perf.Guards"

struct guard {
	struct pf_meter *meter; /* NULL if the measurement has ended */
};

static int l_collect(lua_State *L)
{
	struct guard *g = pb_test(L, 1, PB_GUARD);
	struct pf_meter *m = g ? g->meter : NULL;

	if (!m)
		return 0;
	g->meter = NULL;
	pf_meter_abandon(m);
	return 0;
}

static void guard(lua_State *L, int meter, int counts)
{
	struct guard *g;

	luaL_checkstack(L, 8, NULL);
	lua_getfield(L, LUA_REGISTRYINDEX, PB_GUARDS);
	lua_pushvalue(L, counts);
	g = pb_new(L, sizeof *g, PB_GUARD);
	lua_createtable(L, 1, 0);
	lua_pushvalue(L, meter);
	lua_rawseti(L, -2, 1);
	pb_setuservalue(L, -2);
	lua_pushvalue(L, -1);
	lua_insert(L, -4);
	lua_rawset(L, -3);
	lua_pop(L, 1);
	g->meter = pb_check_meter(L, meter); /* nothing fails from here on */
	lua_pop(L, 1);
}

static int l_nothing(lua_State *L)
{
	(void)L;
	return 0;
}

/* Let the interpreter allocate here what it needs for a call of the measured function: a larger stack, and a record of the call. */
static void make_room(lua_State *L)
{
	enum { ROOM = 100 };

	luaL_checkstack(L, ROOM, NULL);
	lua_pushcfunction(L, l_nothing);
	lua_call(L, 0, 0);
}

void pb_begun(lua_State *L, int meter, struct pf_counts *c)
{
	const struct pf_meter *m = pb_check_meter(L, meter);

	if (m->needs & PF_METER_GUARD)
		guard(L, meter, lua_gettop(L));
	if (!(m->needs & PF_METER_MEMORY))
		return;
	make_room(L);
	if (c)
		pf_meter_begin_memory(m, c);
}

void pb_unguard(lua_State *L, int counts)
{
	struct guard *g;

	luaL_checkstack(L, 4, NULL);
	lua_getfield(L, LUA_REGISTRYINDEX, PB_GUARDS);
	lua_pushvalue(L, counts);
	lua_rawget(L, -2);
	g = pb_test(L, -1, PB_GUARD);
	if (g)
		g->meter = NULL;
	lua_pop(L, 2);
}

/* core.begun(meter, counts), core.unguard(counts): for measurements that begin and end through FFI. */
static int l_begun(lua_State *L)
{
	lua_settop(L, 2);
	pb_begun(L, 1, NULL);
	return 0;
}

static int l_unguard(lua_State *L)
{
	lua_settop(L, 1);
	pb_unguard(L, 1);
	return 0;
}

void pb_open_guard(lua_State *L)
{
	static const luaL_Reg functions[] = {{"begun", l_begun}, {"unguard", l_unguard}, {NULL, NULL}};
	pb_register(L, functions);
	pb_new_class(L, PB_GUARD, NULL, l_collect);
	lua_newtable(L);
	lua_createtable(L, 0, 1);
	pb_set_text(L, "__mode", "k");
	lua_setmetatable(L, -2);
	lua_setfield(L, LUA_REGISTRYINDEX, PB_GUARDS);
}

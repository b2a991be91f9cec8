/* The collections of garbage of a Lua state, for profilers of the heap. */
#include "binding/profile/profiler.h"

#define PB_COLLECTED "perf.Collected"

/* Nothing refers to it, so the next collection finalizes it. */
struct collected {
	struct pb_lifetime *life;
	uint64_t counter;
};

static int l_collected(lua_State *L);

/* Make one. It is all that the profiler allocates in the program's Lua state while it runs. */
static int new_collected(lua_State *L)
{
	const struct collected *c = lua_touserdata(L, 1);

	*(struct collected *)lua_newuserdata(L, sizeof *c) = *c;
	luaL_getmetatable(L, PB_COLLECTED);
	if (lua_isnil(L, -1)) { /* registered when it is whole, since each step may be refused memory */
		lua_pop(L, 1);
		lua_createtable(L, 0, 1);
		pb_set_function(L, "__gc", l_collected);
		lua_pushvalue(L, -1);
		lua_setfield(L, LUA_REGISTRYINDEX, PB_COLLECTED);
	}
	lua_setmetatable(L, -2);
	return 1;
}

/* A collection has ended: count it, and make the object for the next one. An error here would be the program's. */
static int l_collected(lua_State *L)
{
	struct collected c = *(struct collected *)luaL_checkudata(L, 1, PB_COLLECTED);
	struct pb_profiler *p = c.life->running;

	while (p && p->counter != c.counter)
		p = p->next;
	if (!p || c.life->closing)
		return 0;
	p->allocations.collections++;
	if (pb_cpcall(L, new_collected, &c) != 0)
		p->counter = 0;
	return 0;
}

void pb_count_collections(lua_State *L, struct pb_profiler *p)
{
	struct collected c = {p->lifetime, ++p->lifetime->counters};

	lua_pushcfunction(L, new_collected);
	lua_pushlightuserdata(L, &c);
	lua_call(L, 1, 1);
	p->counter = c.counter;
}

/* Counts: the difference of two reads of a Group or Meter.
 *
 * Counts is a userdata here; on LuaJIT the Lua layer makes it a cdata of the same layout and calls the core
 * through the pointers that core.pointers() gives. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/counts/meter.h"
#include "core/base/thread.h"
#include "binding/counts/meter.h"

/* Keeps a single return between a system call and the caller: see core/counts/meter.c. */
#define INLINE static inline __attribute__((always_inline))

/* The functions check their arguments by these metatables. They are upvalues, since a look-up in the registry costs as much as the
 * rest of the binding together. */
enum { UP_GROUP = 1, UP_METER, UP_COUNTS, UPVALUES = 3 };

/* The userdata at i if its metatable is one of the upvalues first to last, else NULL. */
static void *known(lua_State *L, int i, int first, int last)
{
	void *p = lua_touserdata(L, i);

	if (!p || !lua_getmetatable(L, i))
		return NULL;
	while (first <= last && !lua_rawequal(L, -1, lua_upvalueindex(first)))
		first++;
	lua_pop(L, 1);
	return first <= last ? p : NULL;
}

INLINE struct pf_meter *check_meter(lua_State *L, int i)
{
	struct pf_meter *m = known(L, i, UP_GROUP, UP_METER);

	luaL_argcheck(L, m, i, "Group expected");
	return m;
}

/* Not cleared: it is either filled completely, or never returned. */
static struct pf_counts *new_counts(lua_State *L, const struct pf_meter *m)
{
	struct pf_counts *c = pb_newplain(L, sizeof *c + pf_meter_words(m) * sizeof *c->v);

	c->layout = (uint32_t)lua_tointeger(L, 2);
	lua_pushvalue(L, lua_upvalueindex(UP_COUNTS));
	lua_setmetatable(L, -2);
	return c;
}

/* Begin the measurement in the new Counts on top of the stack. Returns 1 or -errno. */
INLINE int begin(lua_State *L, struct pf_meter *m, struct pf_counts *c)
{
	const int r = pf_meter_begin(m, c);

	if (r > 0)
		pb_begun(L, 1, c);
	return r < 0 ? r : 1;
}

/* End the measurement by the meter at 1 with the Counts at 2, which are then in *counts. Returns 0, 1 or -errno. */
INLINE int end(lua_State *L, struct pf_counts **counts)
{
	struct pf_meter *m = check_meter(L, 1);
	struct pf_counts *c = *counts = known(L, 2, UP_COUNTS, UP_COUNTS);

	luaL_argcheck(L, c && c->n == pf_meter_words(m), 2, "Counts of this list expected");
	if (m->rests)
		pb_unguard(L, 2);
	return pf_meter_end(m, c);
}

/* core.begin(meter, layout, words, fn): Counts with the start. Returns nil, and does nothing, if the meter serves another thread
 * or is not a meter, or if fn is given and is not a function: the caller then looks for the reason. */
static int l_begin(lua_State *L)
{
	struct pf_meter *m = known(L, 1, UP_GROUP, UP_METER);
	int r;

	if (!m || !(lua_isfunction(L, 4) || lua_isnone(L, 4)))
		return 0;
	r = begin(L, m, new_counts(L, m));
	if (r == -ESRCH)
		return 0;
	return r < 0 ? pb_meter_failed(L, m, r) : 1;
}

/* core.finish(meter, counts, ...): the same Counts, which now have the difference, and the other arguments. */
static int l_finish(lua_State *L)
{
	struct pf_counts *c;
	const int r = end(L, &c);

	return r < 0 ? pb_meter_failed(L, check_meter(L, 1), r) : lua_gettop(L) - 1;
}

/* core.start(meter, layout), core.stop(meter, counts): like begin and finish, but they raise no error for a refusal. start
 * returns Counts, and the time when they began by the monotonic clock; stop returns the wall time. If refused, nil, message,
 * code. */
static int l_start(lua_State *L)
{
	struct pf_meter *m = check_meter(L, 1);
	struct pf_counts *c = new_counts(L, m);
	const int r = begin(L, m, c);

	return r < 0 ? pb_fail_read(L, r) : 1 + pb_number(L, (lua_Number)c->v[0]);
}

static int l_stop(lua_State *L)
{
	struct pf_counts *c;
	const int r = end(L, &c);

	return r < 0 ? pb_fail_read(L, r) : pb_number(L, (lua_Number)c->v[0]);
}

/* core.snap(meter, layout): Counts since the events were opened; or nil, message, code. */
static int l_snap(lua_State *L)
{
	const struct pf_meter *m = check_meter(L, 1);
	const int r = pf_meter_snap(m, new_counts(L, m));

	if (r < 0 && r != -EBADF && r != -ECHILD)
		return pb_fail_read(L, r);
	return r < 0 ? pb_meter_failed(L, m, r) : 1;
}

static struct pf_counts *to_counts(lua_State *L, int i)
{
	struct pf_counts *c = known(L, i, UP_COUNTS, UP_COUNTS);

	if (!c)
		luaL_argerror(L, i, lua_pushfstring(L, "Counts expected, got %s", luaL_typename(L, i)));
	return c;
}

/* core.word(counts, i): v[i], counted from 0. */
static int l_word(lua_State *L)
{
	const struct pf_counts *c = to_counts(L, 1);
	lua_Integer i = luaL_checkinteger(L, 2);

	luaL_argcheck(L, i >= 0 && i < (lua_Integer)c->n, 2, "out of range");
	return pb_u64(L, c->v[i]);
}

/* core.words(counts): a table of all of them, by their places, and the layout. One call of this costs less than one for each word. */
static int l_all_words(lua_State *L)
{
	const struct pf_counts *c = to_counts(L, 1);

	lua_createtable(L, (int)c->n, 1);
	for (uint32_t i = 0; i < c->n; i++) {
		pb_push_u64(L, c->v[i]);
		lua_rawseti(L, -2, (int)i);
	}
	lua_pushinteger(L, (lua_Integer)c->layout);
	return 2;
}

static int l_layout(lua_State *L)
{
	return pb_int(L, (lua_Integer)to_counts(L, 1)->layout);
}

/* core.reset_ns(counts): a number that changes when an event of the reading's meter is reset. */
static int l_reset_ns(lua_State *L)
{
	return pb_number(L, (lua_Number)to_counts(L, 1)->reset_ns);
}

/* core.add(into, from, meter, take): into += from, or -= from; into may be nil: a copy of from. Returns into. */
static int l_add(lua_State *L)
{
	const struct pf_counts *from = to_counts(L, 2);
	const struct pf_meter *m = check_meter(L, 3);

	if (lua_isnil(L, 1)) {
		size_t size = sizeof *from + from->n * sizeof *from->v;

		memcpy(pb_newplain(L, size), from, size);
		lua_pushvalue(L, lua_upvalueindex(UP_COUNTS));
		lua_setmetatable(L, -2);
		return 1;
	}
	if (pf_counts_add(m, to_counts(L, 1), from, lua_toboolean(L, 4)) < 0)
		return luaL_argerror(L, 2, "Counts of another list");
	lua_settop(L, 1);
	return 1;
}

/* core.pointers(): the core's functions for LuaJIT's FFI, as light userdata by name. */
static int l_pointers(lua_State *L)
{
#define POINTER(name) (lua_pushlightuserdata(L, (void *)(uintptr_t)&name), lua_setfield(L, -2, #name))
	lua_newtable(L);
	POINTER(pf_meter_begin);
	POINTER(pf_meter_begin_memory);
	POINTER(pf_meter_end);
	POINTER(pf_meter_snap);
	POINTER(pf_thread_token);
	POINTER(pf_counter_begin);
	POINTER(pf_counter_end);
	POINTER(pf_counter_take);
	POINTER(pf_counts_add);
	POINTER(pf_clock_skew);
	POINTER(pf_clock_wall);
#undef POINTER
	return 1;
}

void pb_open_counts(lua_State *L)
{
	static const luaL_Reg quick[] = {
		{"begin", l_begin}, {"finish", l_finish}, {"start", l_start}, {"stop", l_stop}, {"snap", l_snap}, {"word", l_word},
		{"words", l_all_words},
		{"layout", l_layout}, {"add", l_add},
		{"reset_ns", l_reset_ns}};
	pb_set_function(L, "pointers", l_pointers);
	pb_set_u64(L, "count_fell", PF_COUNT_FELL);
	pb_set_text(L, "closed_group", PB_CLOSED_GROUP);
	pb_set_text(L, "closed_list", PB_CLOSED_LIST);
	pb_class(L, PB_COUNTS, NULL, NULL);
	lua_setfield(L, -2, "Counts");
	for (size_t i = 0; i < sizeof quick / sizeof *quick; i++) {
		luaL_getmetatable(L, PB_GROUP);
		luaL_getmetatable(L, PB_METER);
		luaL_getmetatable(L, PB_COUNTS);
		lua_pushcclosure(L, quick[i].func, UPVALUES);
		lua_setfield(L, -2, quick[i].name);
	}
}

/* source:each(type, field, ...): the fields of one type of records as plain values, without a Record for each: for files of
 * millions of samples, and for rings that fill fast.
 *
 *     for i, ip, time in data:each("sample", "ip", "time") do
 *     for i, ip, time in ev:each("sample", "ip", "time") do      -- what is in the ring now
 *
 * The loop over a ring ends at the caller's limits, {max =, duration =}, or when its reader is woken.
 *
 * A file's records that tell about the file itself are handled as in any other loop. Records of other types are parsed and
 * skipped, damaged ones are left out. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "binding/data/data.h"
#include "binding/record/record.h"
#include "binding/event/ring.h"

enum { MAX_FIELDS = 32, FIELD_STACK = 8 }; /* stack slots for pushing one field */

struct each {
	uint32_t type;
	int n, field[MAX_FIELDS];
	uint64_t count, max, ends; /* ends: by pf_wall_ns; UINT64_MAX: never */
};

static int push_fields(lua_State *L, struct each *e, const struct pf_record *rec, const unsigned char *bytes)
{
	lua_settop(L, 0);
	luaL_checkstack(L, 1 + e->n + FIELD_STACK, "fields"); /* every call begins with LUA_MINSTACK slots only */
	pb_push_u64(L, ++e->count);
	for (int i = 0; i < e->n; i++)
		pb_push_plain_field(L, rec, bytes, e->field[i]);
	return 1 + e->n;
}

int pb_data_next_of(lua_State *L, struct pb_data *p, uint32_t type, int metatable, struct pf_data_record *r)
{
	const int top = lua_gettop(L);

	for (;;) {
		int n;

		lua_settop(L, top);
		if (!p->open)
			return luaL_error(L, "the perf.data file is closed");
		n = pb_data_step(L, p, r);
		if (n == 0)
			return 0;
		if (n < 0)
			pb_data_failed(L, p, n);
		else if (r->type == type)
			return 1;
		else if (pb_data_tells(r->type)) {
			const int outer = pb_hold(&p->hold);

			if (pb_push_record_as(L, metatable, r->layout, r->bytes, r->size, 0) >= 0)
				pb_data_tell(L, p, r->type);
			pb_data_let_go(p, outer);
		}
	}
}

/* Upvalues: the Data, its struct each, Record's metatable. */
static int l_data_step(lua_State *L)
{
	struct pb_data *p = lua_touserdata(L, lua_upvalueindex(1));
	struct each *e = lua_touserdata(L, lua_upvalueindex(2));
	struct pf_data_record r;
	struct pf_record rec;

	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	while (pb_data_next_of(L, p, e->type, lua_upvalueindex(3), &r)) {
		if (pf_record_parse(r.layout, r.bytes, r.size, &rec) >= 0) {
			const int outer = pb_hold(&p->hold), n = push_fields(L, e, &rec, r.bytes);

			pb_data_let_go(p, outer);
			return n;
		}
		pb_data_failed(L, p, pf_data_bad(&p->d, r.offset, "a record's parts do not fit into it"));
		lua_settop(L, 1);
	}
	return 0;
}

/* Upvalues: the Event, its struct each. */
static int l_event_step(lua_State *L)
{
	struct pb_event *ev = pb_mapped_upvalue(L);
	struct each *e = lua_touserdata(L, lua_upvalueindex(2));
	const unsigned char *bytes;
	struct pf_record rec;
	int n;

	while (e->count < e->max && !pb_woken(ev) && (e->ends == UINT64_MAX || pf_wall_ns() < e->ends) &&
	       (n = pf_ring_next(&ev->ring, &rec, &bytes)) != 0) {
		if (n == -EBADMSG)
			continue;
		if (n < 0)
			return luaL_error(L, "the ring: %s", strerror(-n));
		if (rec.type == e->type) {
			const int outer = pb_hold(&ev->hold);

			push_fields(L, e, &rec, bytes);
			pf_ring_release(&ev->ring);
			pb_event_let_go(ev, outer);
			return 1 + e->n;
		}
	}
	return 0;
}

/* Removes the table of limits, which may follow the fields of an Event's loop, from the stack. */
static void take_bounds(lua_State *L, struct each *e)
{
	static const char *const known[] = {"max", "duration", NULL};
	const int i = lua_gettop(L);

	if (i < 3 || !lua_istable(L, i))
		return;
	pb_check_options(L, i, known);
	pb_check_bounds(L, i);
	lua_getfield(L, i, "max");
	if (!lua_isnil(L, -1) && lua_tonumber(L, -1) < 9007199254740992.0)
		e->max = (uint64_t)lua_tonumber(L, -1);
	lua_getfield(L, i, "duration");
	if (!lua_isnil(L, -1) && lua_tonumber(L, -1) < 1e9)
		e->ends = pf_wall_ns() + (uint64_t)(lua_tonumber(L, -1) * 1e9);
	lua_settop(L, i - 1);
}

/* Push the struct each of the arguments from 2 on. */
static void push_each(lua_State *L, struct each bounds)
{
	const uint32_t type = pb_check_record_type(L, 2);
	const char *name;
	struct each *e;
	int n = lua_gettop(L) - 2;

	luaL_argcheck(L, n <= MAX_FIELDS, 3 + MAX_FIELDS, "too many fields");
	e = pb_newuserdata(L, sizeof *e);
	*e = bounds;
	e->type = type;
	e->n = n;
	for (int i = 0; i < n; i++) {
		name = luaL_checkstring(L, 3 + i);
		e->field[i] = pb_plain_field(name);
		if (e->field[i] < 0)
			luaL_argerror(L, 3 + i, lua_pushfstring(L, "field '%s' is not one number or string", name));
	}
	lua_pushvalue(L, 1);
	lua_insert(L, -2);
}

static int l_data(lua_State *L)
{
	pb_check_data(L, 1);
	push_each(L, (struct each){.max = UINT64_MAX, .ends = UINT64_MAX});
	luaL_getmetatable(L, PB_RECORD);
	lua_pushcclosure(L, l_data_step, 3);
	return 1;
}

static int l_event(lua_State *L)
{
	struct each e = {.max = UINT64_MAX, .ends = UINT64_MAX};

	pb_check_mapped(L, 1);
	take_bounds(L, &e);
	push_each(L, e);
	lua_pushcclosure(L, l_event_step, 2);
	return 1;
}

static void add_method(lua_State *L, const char *class, lua_CFunction f)
{
	lua_getfield(L, -1, class);
	lua_getfield(L, -1, "__index");
	lua_pushcfunction(L, f);
	lua_setfield(L, -2, "each");
	lua_pop(L, 2);
}

void pb_open_each(lua_State *L)
{
	add_method(L, "Data", l_data);
	add_method(L, "Event", l_event);
}

/* Data as a source of records: for each, for Tally, and for packed Records. */
#include <errno.h>

#include "core/base/thread.h"
#include "binding/data/data.h"
#include "binding/record/cdata.h"
#include "binding/record/source.h"
#include "binding/record/record.h"

/* --- packed Records -------------------------------------------------------------------------------------------------- */

/* Called through FFI with the userdata of a Data, which may be closed. */
static int take(struct pb_data *p, struct pb_packed *into)
{
	int n;

	if (!p->open || (!p->d.src.seekable && pf_inherited(p->generation)))
		return PB_OTHERWISE;
	if (!p->waiting) {
		p->step = pf_data_next(&p->d, &p->next);
		p->waiting = 1;
	}
	if (p->step != 1 || pf_record_is_user(p->next.type))
		return PB_OTHERWISE;
	n = pb_pack(p->next.layout, p->next.bytes, p->next.size, into);
	if (n == PB_TAKEN)
		p->waiting = 0;
	return n;
}

/* core.tag_data(data, intern): gives the layout for which PB_UNTAGGED was returned the number that intern(info, layout, places)
 * returns. */
static int l_tag(lua_State *L)
{
	struct pb_data *p = pb_check(L, 1, PB_DATA, "perf.data file");
	const struct pf_layout *l = p->open && p->waiting && p->step == 1 ? p->next.layout : NULL;
	const int outer = pb_hold(&p->hold);

	lua_settop(L, 2);
	if (l) {
		pb_data_state(L, "attrs");
		lua_rawgeti(L, -1, (int)l->index + 1);
		lua_remove(L, -2);
		pb_tag(L, p->d.events.layouts.list[l->index]);
	}
	pb_data_unhold(p, outer);
	return l ? 0 : luaL_argerror(L, 1, "the file has no such record");
}

/* Find the next record of that type. Returns 1, or 0 at the end. Skips damaged records, and passes those that describe the file
 * to the handler. The Data is at 1, Record's metatable at index metatable. */
static int next_of(lua_State *L, struct pb_data *p, uint32_t type, int metatable, struct pf_data_record *r)
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
		else if (pb_data_describes_file(r->type)) {
			const int outer = pb_hold(&p->hold);

			if (pb_push_record_as(L, metatable, r->layout, r->bytes, r->size, 0) >= 0)
				pb_data_call_handler(L, p, r->type);
			pb_data_unhold(p, outer);
		}
	}
}

static void fail_on_fields(lua_State *L, struct pb_data *p, const struct pf_data_record *r)
{
	pb_data_failed(L, p, pf_data_bad(&p->d, r->offset, "a record's fields exceed its size"));
}

/* core.tally_data(tally, data): count the rest of the file. Returns the number of records counted; or nil, message, code. */
static int l_tally(lua_State *L)
{
	struct pb_tally *t = pb_check_tally(L);
	struct pb_data *d = pb_check_data(L, 2);
	struct pb_plan plan = {0};
	struct pf_data_record r;
	uint64_t n = 0;
	int step;

	lua_settop(L, 2);
	lua_insert(L, 1); /* next_of has the Data at 1 */
	luaL_getmetatable(L, PB_RECORD);
	while ((step = next_of(L, d, t->type, 3, &r)) != 0) {
		luaL_argcheck(L, t->t.slots, 1, "Tally is closed"); /* a finalizer that ran in next_of may have closed it */
		step = pb_tally_count(t, &plan, r.layout, r.bytes, r.size);
		if (step == -EBADMSG)
			fail_on_fields(L, d, &r);
		else if (step < 0)
			return pb_fail(L, step, "tally");
		n += step > 0;
		lua_settop(L, 3);
	}
	return pb_u64(L, n);
}

/* Upvalues: the Data, its struct pb_each, Record's metatable. */
static int l_step(lua_State *L)
{
	struct pb_data *p = lua_touserdata(L, lua_upvalueindex(1));
	struct pb_each *e = lua_touserdata(L, lua_upvalueindex(2));
	struct pf_data_record r;
	struct pf_record rec;

	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	while (next_of(L, p, e->type, lua_upvalueindex(3), &r)) {
		if (pf_record_parse(r.layout, r.bytes, r.size, &rec) >= 0) {
			const int outer = pb_hold(&p->hold), n = pb_each_fields(L, e, &rec, r.bytes);

			pb_data_unhold(p, outer);
			return n;
		}
		fail_on_fields(L, p, &r);
		lua_settop(L, 1);
	}
	return 0;
}

static int l_each(lua_State *L)
{
	pb_check_data(L, 1);
	pb_each_new(L);
	luaL_getmetatable(L, PB_RECORD);
	lua_pushcclosure(L, l_step, 3);
	return 1;
}

void pb_open_data_source(lua_State *L)
{
	static const luaL_Reg functions[] = {{"tag_data", l_tag}, {"tally_data", l_tally}, {NULL, NULL}};
	static const luaL_Reg methods[] = {{"each", l_each}, {NULL, NULL}};

	pb_register(L, functions);
	pb_set_pointer(L, "take_data", (void *)(uintptr_t)&take);
	pb_extend(L, "Data", methods);
}

/* Event as a source of records: for each, for Tally, and for packed Records. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "binding/event/ring.h"
#include "binding/record/cdata.h"
#include "binding/record/source.h"
#include "binding/event/event.h"

/* --- packed Records -------------------------------------------------------------------------------------------------- */

/* Called through FFI with the userdata of an Event, which may be closed. */
static int take(struct pb_event *e, struct pb_packed *into)
{
	const unsigned char *bytes;
	int n;

	if (!e->ring.map || e->hold.closed || pf_ring_inherited(&e->ring) || pb_waking(e))
		return PB_OTHERWISE;
	n = pf_ring_peek(&e->ring, &bytes);
	if (n == 0)
		return PB_NONE;
	if (n < 0) {
		e->failed = n; /* the ring reports it only once */
		return PB_OTHERWISE;
	}
	n = pb_pack(pf_layouts_find(&e->layouts, bytes, (size_t)n), bytes, (size_t)n, into);
	if (n == PB_TAKEN)
		pf_ring_release(&e->ring);
	e->ring.current = 0; /* leave the record in the ring */
	return n;
}

/* core.tag_event(event, intern): call it when PB_UNTAGGED was returned. The layout of the next record gets a number: the result of
 * intern(info, layout, places). */
static int l_tag(lua_State *L)
{
	struct pb_event *e = pb_check(L, 1, PB_EVENT, "Event");
	const int outer = pb_hold(&e->hold);
	const unsigned char *bytes;
	int n = pf_ring_peek(&e->ring, &bytes);
	const struct pf_layout *l = n > 0 ? pf_layouts_find(&e->layouts, bytes, (size_t)n) : NULL;

	lua_settop(L, 2);
	if (l) {
		pb_ring_info(L, e, l);
		pb_tag(L, e->layouts.list[l->index]);
	}
	pb_event_unhold(e, outer);
	return l ? 0 : luaL_argerror(L, 1, "the ring has no such record");
}

/* --- Tally ----------------------------------------------------------------------------------------------------------- */

/* core.tally_event(tally, event): count the records that are in the ring now, but no more than fit in the ring, since a writer
 * may add records all the time. Damaged records are left out. Returns the number counted; or nil, message, code. */
static int l_tally(lua_State *L)
{
	struct pb_tally *t = pb_check_tally(L);
	struct pb_event *e = pb_check_mapped(L, 2);
	struct pb_plan plan = {0};
	const unsigned char *bytes;
	size_t done = 0, left, span;
	uint64_t n = 0;
	int size;

	while (done < e->ring.data_size && (size = pf_ring_peek(&e->ring, &bytes)) != 0) {
		const struct pf_layout *l = size < 0 ? NULL : pf_layouts_find(&e->layouts, bytes, (size_t)size);
		const int r = size < 0 ? size : pb_tally_count(t, &plan, l, bytes, (size_t)size);

		if (r < 0 && r != -EBADMSG)
			return pb_fail(L, r, "tally");
		n += r > 0;
		if (size > 0) {
			done += (size_t)size;
			pf_ring_release(&e->ring);
		}
		if (!plan.placed || e->layouts.n > 1)
			continue;
		left = pf_ring_span(&e->ring, &bytes);
		n += pb_tally_span(t, &plan, bytes, left, &span);
		if (span)
			pf_ring_skip(&e->ring, span);
		done += span;
	}
	return pb_u64(L, n);
}

/* --- each ------------------------------------------------------------------------------------------------------------ */

/* Upvalues: the Event, its struct pb_each. The loop ends at the caller's limits, or when the reader is woken. */
static int l_step(lua_State *L)
{
	struct pb_event *ev = pb_mapped_upvalue(L);
	struct pb_each *e = lua_touserdata(L, lua_upvalueindex(2));
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

			n = pb_each_fields(L, e, &rec, bytes);
			pf_ring_release(&ev->ring);
			pb_event_unhold(ev, outer);
			return n;
		}
	}
	return 0;
}

/* Remove the table of limits {max =, duration =}, which may follow the fields, from the stack. */
static void take_bounds(lua_State *L, uint64_t *max, uint64_t *ends)
{
	const int i = lua_gettop(L);

	if (i < 3 || !lua_istable(L, i))
		return;
	pb_check_options(L, i, "each");
	lua_getfield(L, i, "max");
	if (!lua_isnil(L, -1) && lua_tonumber(L, -1) < 9007199254740992.0)
		*max = (uint64_t)lua_tonumber(L, -1);
	lua_getfield(L, i, "duration");
	if (!lua_isnil(L, -1) && lua_tonumber(L, -1) < 1e9)
		*ends = pf_wall_ns() + (uint64_t)(lua_tonumber(L, -1) * 1e9);
	lua_settop(L, i - 1);
}

static int l_each(lua_State *L)
{
	uint64_t max = UINT64_MAX, ends = UINT64_MAX;
	struct pb_each *e;

	pb_check_mapped(L, 1);
	take_bounds(L, &max, &ends);
	e = pb_each_new(L);
	e->max = max;
	e->ends = ends;
	lua_pushcclosure(L, l_step, 2);
	return 1;
}

void pb_open_ring_source(lua_State *L)
{
	static const luaL_Reg functions[] = {{"tag_event", l_tag}, {"tally_event", l_tally}, {NULL, NULL}};
	static const luaL_Reg methods[] = {{"each", l_each}, {NULL, NULL}};

	pb_register(L, functions);
	pb_set_pointer(L, "take_event", (void *)(uintptr_t)&take);
	pb_extend(L, "Event", methods);
}

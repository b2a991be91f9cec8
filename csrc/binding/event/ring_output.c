/* Redirecting an event's records into another event's ring.
 *
 * The uservalue (info) has two private keys. KEY_OUTPUT: the Event whose ring this one writes into, which it keeps alive.
 * KEY_JOINED: the info tables of the events that write into this one's ring, by layout. */
#include <errno.h>

#include "binding/record/record.h"
#include "binding/event/ring.h"
#include "binding/event/event.h"

static const char key_output, key_joined;
#define KEY_OUTPUT ((void *)(uintptr_t)&key_output)
#define KEY_JOINED ((void *)(uintptr_t)&key_joined)

void pb_push_joined(lua_State *L, int i)
{
	lua_pushvalue(L, i);
	lua_pushlightuserdata(L, KEY_JOINED);
	lua_rawget(L, -2);
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_pushlightuserdata(L, KEY_JOINED);
		lua_pushvalue(L, -2);
		lua_rawset(L, -4);
	}
	lua_remove(L, -2);
}

/* Whether a reader can still find the event of every record if an event with layout l joins. Samples need an id at a common
 * position. Other records need it too if an event writes records without an event id in their body, or if the trailers differ. */
static int can_join(const struct pb_event *target, const struct pf_layout *l)
{
	const struct pf_layouts *ls = &target->layouts;
	int others = l->sides;

	for (uint32_t i = 0; i < ls->n; i++)
		others |= ls->list[i]->sides || !pf_layout_same(ls->list[i], l);
	return l->sample_id_at && l->sample_id_at == ls->sample_id_at &&
	       (!others || (l->other_id_at && l->other_id_at == ls->other_id_at));
}

/* Register the event's layout and info with the target's reader. The target is at 2. */
static int join(lua_State *L, struct pb_event *e, struct pb_event *target)
{
	const struct pf_layout *known;
	uint64_t id = 0;
	int r = pf_counter_ioctl_ptr(&e->ev, PF_IOC_ID, &id);

	if (r < 0)
		return r;
	known = pf_layouts_by_id(&target->layouts, id);
	if (known)
		return 0;
	pb_getuservalue(L, 2);
	pb_push_joined(L, -1);
	pb_getuservalue(L, 1);
	lua_rawseti(L, -2, (int)target->layouts.n);
	r = pf_layouts_add(&target->layouts, &e->layout);
	return r < 0 ? r : pf_layouts_bind(&target->layouts, id, (uint32_t)r);
}

/*** @classmod Event */

/*** Write records into another event's ring from now on; with nil into its own again. Both events need sample_type "identifier"
 * (or "id" at the same position), and sample_id_all if either writes other records than samples or the layouts of their records
 * differ (the read_format changes the layout only of events that sample "read"). An event that only counts writes nothing, and
 * needs no id.
 * @tparam[opt] Event event a mapped event of the same thread or CPU; it stays alive as long as others write into its ring
 * @treturn boolean true @fails "EINVAL" for an event of another thread, CPU or clock
 * @raise if the events of the records could not be distinguished, or the event has a ring */
static int l_set_output(lua_State *L)
{
	struct pb_event *e = pb_ring_event(L, 1), *target = NULL;
	int r;

	lua_settop(L, 2);
	if (lua_isnil(L, 2) && e->ring.map)
		return pb_result(L, 0, ""); /* its records go there already; the kernel would return EINVAL */
	if (!lua_isnil(L, 2)) {
		target = pb_check_mapped(L, 2);
		luaL_argcheck(L, !e->ring.map, 1, "Event has its own ring");
	}
	if (target && e->layout.writes) {
		luaL_argcheck(L, can_join(target, &e->layout), 2,
			      "the two events' records could not be distinguished: open both with \"identifier\" in sample_type and "
			      "sample_id_all = true");
		r = join(L, e, target);
		if (r < 0)
			return pb_fail(L, r, "set_output");
	}
	pf_user_drop(&e->ev.user); /* the kernel does not redirect a mapped event */
	r = pf_counter_ioctl(&e->ev, PF_IOC_SET_OUTPUT, target ? (unsigned long)target->ev.fd : (unsigned long)-1);
	if (r == -EINVAL && target)
		return pb_fail(L, r, "set_output: both events must be of the same CPU, or of the same thread, and have the same clock");
	if (r < 0)
		return pb_fail(L, r, "set_output");
	pb_lost_redirect(e, target);
	pb_getuservalue(L, 1);
	lua_pushlightuserdata(L, KEY_OUTPUT);
	lua_pushvalue(L, 2);
	lua_rawset(L, -3);
	return pb_bool(L, 1);
}

static int pause(lua_State *L, unsigned long on, const char *name)
{
	struct pb_event *e = pb_ring_event(L, 1);
	int r = pf_counter_ioctl(&e->ev, PF_IOC_PAUSE_OUTPUT, on);

	if (r == 0)
		e->ring.paused = on != 0;
	if (r == -EINVAL)
		return pb_fail(L, r, "%s: the event has no ring", name);
	return pb_result(L, r, name);
}

/*** Stop writing records, which are counted as lost, until `resume_output`.
 * @treturn boolean true @fails "EINVAL" if the event has no ring */
static int l_pause_output(lua_State *L)
{
	return pause(L, 1, "pause_output");
}

/*** Go on writing records.
 * @treturn boolean true @fails as `pause_output` */
static int l_resume_output(lua_State *L)
{
	return pause(L, 0, "resume_output");
}

/*** The bytes of the AUX area that an aux record describes. The kernel may then reuse their space, and all space before them.
 * @tparam Record|integer record of type "aux"; or an offset in bytes
 * @tparam[opt] integer size in bytes, after an offset
 * @treturn string @fails "ENODATA" if the area does not contain them any more
 * @raise if the event was not mapped with aux_pages */
static int l_read_aux(lua_State *L)
{
	struct pb_event *e = pb_check_mapped(L, 1);
	const struct pb_record *rec = pb_test(L, 2, PB_RECORD);
	uint64_t offset, size;
	void *space;
	int r;

	luaL_argcheck(L, e->ring.aux, 1, "Event is mapped without aux_pages");
	if (rec) {
		luaL_argcheck(L, rec->rec.type == PF_RECORD_AUX, 2, "a Record of type aux expected");
		offset = rec->rec.aux_offset;
		size = rec->rec.aux_size;
	} else {
		offset = pb_check_u64(L, 2, UINT64_MAX);
		size = pb_check_u64(L, 3, UINT64_MAX);
	}
	if (size > e->ring.aux_size)
		return pb_fail(L, -ENODATA, "aux");
	space = lua_newuserdata(L, (size_t)size);
	r = pf_ring_aux_copy(&e->ring, offset, (size_t)size, space);
	if (r < 0)
		return pb_fail(L, r, "aux");
	lua_pushlstring(L, space, (size_t)size);
	pf_ring_aux_release(&e->ring, offset + size);
	return 1;
}

void pb_open_ring_output(lua_State *L)
{
	static const luaL_Reg methods[] = {{"set_output", l_set_output},       {"pause_output", l_pause_output},
					   {"resume_output", l_resume_output}, 
					   {"read_aux", l_read_aux},           {NULL, NULL}};

	pb_extend(L, "Event", methods);
}

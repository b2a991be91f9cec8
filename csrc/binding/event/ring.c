/* Event's methods that map and read its ring. Reading first copies the bytes into a Lua object and then frees their space, so
 * that after a Lua error in between the record is still in the ring. */
#include <errno.h>
#include <string.h>

#include "binding/record/record.h"
#include "binding/event/ring.h"
#include "binding/event/event.h"

void pb_event_begin(struct pb_event *e, const struct pf_attr *attr, uint64_t hidden)
{
	pf_layout_init(&e->layout, attr, pf_arch_native());
	e->layout.read_hidden = (uint32_t)hidden;
	e->backward = attr->write_backward;
}

void pb_event_end(struct pb_event *e)
{
	pb_lost_end(e);
	pb_wake_end(e);
	e->hold.closed = e->hold.held;
	if (e->hold.held)
		return;
	pf_ring_unmap(&e->ring);
	pf_layouts_free(&e->layouts);
}

void pb_event_unhold(struct pb_event *e, int outer)
{
	if (pb_unhold(&e->hold, outer))
		pb_event_end(e);
}

/* --- mapping -------------------------------------------------------------------------------------------------------- */

static size_t option_pages(lua_State *L, const char *name)
{
	uint64_t v = 0;
	int negative = 0;

	lua_getfield(L, 2, name);
	if (!lua_isnil(L, -1) && (!pb_to_u64(L, -1, &v, &negative) || negative || v > UINT32_MAX || (v & (v - 1)) || v == 0))
		luaL_argerror(L, 2, lua_pushfstring(L, "option '%s': a power of two%s expected", name,
			v > UINT32_MAX ? ", at most 2147483648," : ""));
	lua_pop(L, 1);
	return (size_t)v;
}

/* ev:map{pages=, aux_pages=, overwrite=}, whose names the Lua layer has checked: the Event, and the number of pages. If the
 * user's limit of locked memory is too small, it maps fewer pages, and a third value says so. */
static int l_map(lua_State *L)
{
	struct pb_event *e = pb_ring_event(L, 1);
	size_t wanted, pages, aux;
	uint64_t id = 0;
	int r;

	lua_settop(L, 2);
	luaL_checktype(L, 2, LUA_TTABLE);
	wanted = pages = option_pages(L, "pages");
	aux = option_pages(L, "aux_pages");
	lua_getfield(L, 2, "overwrite");
	if (!lua_isnil(L, -1) && lua_toboolean(L, -1) != e->backward)
		return luaL_argerror(L, 2, e->backward ? "option 'overwrite': an event with write_backward has no other mode"
						       : "option 'overwrite': needs an event opened with write_backward = true");
	luaL_argcheck(L, !(aux && e->backward), 2, "option 'aux_pages': not with overwrite");
	luaL_argcheck(L, !e->ring.map, 1, "Event is mapped already");

	if (e->layouts.n == 0) {
		r = pf_layouts_add(&e->layouts, &e->layout);
		if (r == 0)
			r = pf_counter_ioctl_ptr(&e->ev, PF_IOC_ID, &id);
		if (r == 0)
			r = pf_layouts_bind(&e->layouts, id, 0);
		if (r < 0) {
			pf_layouts_free(&e->layouts);
			return pb_fail(L, r, "map");
		}
	}
	pf_user_drop(&e->ev.user); /* the kernel maps an event in one size only */
	while ((r = pf_ring_map(&e->ring, e->ev.fd, pages, aux, e->backward)) == -EPERM && pages > 1)
		pages /= 2;
	if (r < 0)
		return pb_fail(L, r, "mmap");
	e->ring.layouts = &e->layouts;
	lua_pushvalue(L, 1);
	lua_pushinteger(L, (lua_Integer)pages);
	if (pages == wanted)
		return 2;
	lua_pushfstring(L, "%d pages instead of %d: kernel.perf_event_mlock_kb allows no more", (int)pages, (int)wanted);
	return 3;
}

/* --- reading -------------------------------------------------------------------------------------------------------- */

void pb_ring_info(lua_State *L, const struct pb_event *e, const struct pf_layout *l)
{
	pb_getuservalue(L, 1);
	if (!l || e->layouts.n == 1 || l->index == 0)
		return;
	pb_push_joined(L, -1);
	lua_rawgeti(L, -1, (int)l->index);
	lua_replace(L, -3);
	lua_pop(L, 1);
}

/* Wait for the next record: the number of its bytes, or -errno. */
static int next_bytes(lua_State *L, struct pb_event *e, uint64_t deadline, const unsigned char **bytes)
{
	for (;;) {
		int r;

		if (pb_woken(e))
			return -ECANCELED;
		r = e->failed ? e->failed : pf_ring_peek(&e->ring, bytes);

		e->failed = 0;
		if (r != 0)
			return r;
		r = pb_await_one(L, e, deadline);
		if (r < 0)
			return r;
	}
}

static int read_failed(lua_State *L, int r)
{
	if (r == -EBADMSG)
		return pb_fail(L, r, "the ring is damaged: no record can be found, and its content is dropped");
	return pb_wait_failed(L, r);
}

/* The Event is at 1. into: the Record at 3, which is to be filled again, or NULL. metatable: index of Record's metatable. */
static int read_record(lua_State *L, struct pb_event *e, uint64_t deadline, struct pb_record *into, int metatable)
{
	const struct pf_layout *l;
	const unsigned char *bytes = NULL;
	int n = next_bytes(L, e, deadline, &bytes), r, outer;

	if (n < 0)
		return read_failed(L, n);
	outer = pb_hold(&e->hold);
	l = pf_layouts_find(&e->layouts, bytes, (size_t)n);
	pb_ring_info(L, e, l);
	r = pb_refill_record(L, into, 3, metatable, l, bytes, (size_t)n, lua_gettop(L));
	if (r < 0)
		r = pb_bad_record(L, r, bytes, (size_t)n);
	else
		r = 1;
	pf_ring_release(&e->ring);
	pb_event_unhold(e, outer);
	return r;
}

/*** @classmod Event */

/*** The next record of the event's ring.
 * @tparam[opt=0] number timeout seconds to wait for one; math.huge waits for ever
 * @tparam[opt] Record into a Record to use again: it is filled anew and returned if it has room
 * @treturn Record
 * @fails "ETIMEDOUT"; "EPIPE" when the watched process has ended and all is read; "ECANCELED" when the reader was woken;
 * "EBADMSG" for damaged bytes, after which reading goes on
 * @raise if the event is not mapped */
/* Upvalues: Event's and Record's metatables. */
static int l_read_record(lua_State *L)
{
	struct pb_event *e = pb_check_mapped_event(L, 1, pb_test_as(L, 1, lua_upvalueindex(1)));
	uint64_t deadline = pb_check_deadline(L, 2);
	struct pb_record *into = pb_test_as(L, 3, lua_upvalueindex(2));

	if (!into && !lua_isnoneornil(L, 3))
		return luaL_argerror(L, 3, lua_pushfstring(L, "Record expected, got %s", luaL_typename(L, 3)));
	return read_record(L, e, deadline, into, lua_upvalueindex(2));
}

/*** The bytes of the next record, as the kernel wrote them: see `Event:kernel_attr`.
 * @tparam[opt=0] number timeout seconds to wait for one
 * @treturn string @fails as `Event:read_record`
 * @raise if the event is not mapped */
static int l_read_raw(lua_State *L)
{
	struct pb_event *e = pb_check_mapped(L, 1);
	const unsigned char *bytes = NULL;
	int n = next_bytes(L, e, pb_check_deadline(L, 2), &bytes), outer;

	if (n < 0)
		return read_failed(L, n);
	outer = pb_hold(&e->hold);
	lua_pushlstring(L, (const char *)bytes, (size_t)n);
	pf_ring_release(&e->ring);
	pb_event_unhold(e, outer);
	return 1;
}

/*** The bytes of all whole records that are in the ring now.
 * @treturn string "" if there is none @fails "EBADMSG" for a damaged ring
 * @raise if the event is not mapped */
static int l_drain(lua_State *L)
{
	struct pb_event *e = pb_check_mapped(L, 1);
	size_t room = e->ring.data_size;
	ptrdiff_t n;
	void *space;

	if (!pf_ring_ready(&e->ring))
		return pb_text(L, "");
	space = lua_newuserdata(L, room);
	lua_pushliteral(L, "");
	n = pf_ring_drain(&e->ring, space, room);
	if (n < 0)
		return read_failed(L, (int)n);
	return pb_bytes(L, space, (size_t)n);
}

/* Upvalues: the Event, the timeout, Record's metatable. */
static int l_next(lua_State *L)
{
	for (;;) {
		struct pb_event *e = pb_mapped_upvalue(L);
		int r = read_record(L, e, pb_check_deadline(L, lua_upvalueindex(2)), NULL, lua_upvalueindex(3));

		if (r == 1)
			return 1;
		if (strcmp(lua_tostring(L, -1), "EBADMSG") != 0)
			return pb_nil(L);
	}
}

/* ev:records{timeout=}: an iterator that ends if no record arrives for that long, if the watched process has ended, or if the
 * reader is woken. The Lua layer implements max and duration. */
static int l_records(lua_State *L)
{
	pb_check_mapped(L, 1);
	lua_settop(L, 2);
	if (!lua_isnil(L, 2))
		pb_check_options(L, 2, "records");
	lua_pushvalue(L, 1);
	if (lua_isnil(L, 2))
		lua_pushnil(L);
	else
		lua_getfield(L, 2, "timeout");
	luaL_getmetatable(L, PB_RECORD);
	lua_pushcclosure(L, l_next, 3);
	return 1;
}

void pb_open_ring(lua_State *L)
{
	static const luaL_Reg methods[] = {{"map", l_map},     {"read_raw", l_read_raw}, {"drain", l_drain},
					   {"records", l_records}, {NULL, NULL}};

	lua_getfield(L, -1, "Event");
	lua_getfield(L, -1, "__index");
	pb_register(L, methods);
	lua_pushvalue(L, -2);
	luaL_getmetatable(L, PB_RECORD);
	lua_pushcclosure(L, l_read_record, 2);
	lua_setfield(L, -2, "read_record");
	lua_pop(L, 2);
}

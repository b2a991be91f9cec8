/* What Event's ring methods share, and waiting.
 *
 * The kernel wakes a reader only for samples when wakeup_events says so, and otherwise when the ring is half full. So a
 * wait is cut into slices, growing ones, and the ring looked at after each. */
#include <errno.h>
#include <string.h>

#include "../core/sys.h"
#include "../core/usage.h"
#include "ring.h"

enum { MAX_SLICE_MS = 50 };

struct pb_event *pb_ring_event(lua_State *L, int i)
{
	return (struct pb_event *)(void *)pb_check_event(L, i);
}

struct pb_event *pb_check_mapped(lua_State *L, int i)
{
	struct pb_event *e = pb_ring_event(L, i);

	if (!e->ring.map)
		luaL_argerror(L, i, "Event is not mapped: call map() first");
	return e;
}

uint64_t pb_check_deadline(lua_State *L, int i)
{
	lua_Number seconds = luaL_optnumber(L, i, 0);
	uint64_t now;

	luaL_argcheck(L, seconds >= 0, i, "a timeout is 0 or more seconds");
	if (seconds == 0)
		return 0;
	now = pf_wall_ns();
	return seconds >= 1e9 ? UINT64_MAX : now + (uint64_t)(seconds * 1e9);
}

void pb_check_options(lua_State *L, int i, const char *const *known)
{
	lua_pushnil(L);
	while (lua_next(L, i)) {
		const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : luaL_typename(L, -2);
		int k = 0;

		while (known[k] && strcmp(known[k], key) != 0)
			k++;
		if (!known[k])
			luaL_argerror(L, i, lua_pushfstring(L, "unknown option '%s'", key));
		lua_pop(L, 1);
	}
}

static int any_ready(struct pb_event *const *events, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (pf_ring_ready(&events[i]->ring))
			return 1;
	return 0;
}

/* Milliseconds until the deadline, slice at most. */
static int slice_of(uint64_t deadline, int slice)
{
	uint64_t now = deadline ? pf_wall_ns() : 0, left = deadline > now ? deadline - now : 0;
	uint64_t ms = left / 1000000 + (left % 1000000 != 0);

	return ms < (uint64_t)slice ? (int)ms : slice;
}

/* fds: room for n. The rings are looked at after every poll, the last one too. */
static int await(struct pb_event *const *events, struct pollfd *fds, nfds_t n, uint64_t deadline)
{
	nfds_t ended = 0;
	int slice = 1, ms = -1, why = -EPIPE;

	for (nfds_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){.fd = events[i]->ev.fd, .events = POLLIN};
	while (!any_ready(events, n)) {
		int r;

		if (ended == n)
			return why;
		if (ms == 0)
			return -ETIMEDOUT;
		ms = slice_of(deadline, slice);
		r = pf_sys->poll(fds, n, ms);
		if (r < 0 && r != -EINTR)
			return r;
		for (nfds_t i = 0; r > 0 && i < n; i++)
			if (fds[i].fd >= 0 && fds[i].revents & (POLLHUP | POLLERR)) {
				why = fds[i].revents & POLLHUP ? -EPIPE : -EIO;
				fds[i].fd = -1; /* it would end every poll at once */
				ended++;
			}
		slice = slice * 2 < MAX_SLICE_MS ? slice * 2 : MAX_SLICE_MS;
	}
	return 1;
}

int pb_await_one(struct pb_event *e, uint64_t deadline)
{
	struct pollfd fd;

	return await(&e, &fd, 1, deadline);
}

int pb_wait_failed(lua_State *L, int r)
{
	if (r != -ETIMEDOUT && r != -EPIPE && r != -EIO)
		return pb_fail(L, r, "poll");
	lua_pushnil(L);
	lua_pushstring(L, r == -ETIMEDOUT ? "no record came in that time"
			  : r == -EPIPE   ? "the watched process has ended, and all its records are read"
					  : "the pinned event lost its counter");
	pb_push_errno(L, -r);
	return 3;
}

static int waited(lua_State *L, int r)
{
	if (r < 0)
		return pb_wait_failed(L, r);
	lua_pushboolean(L, 1);
	return 1;
}

/* ev:poll([timeout]): true when a record is there. */
static int l_poll(lua_State *L)
{
	struct pb_event *e = pb_check_mapped(L, 1);

	return waited(L, pb_await_one(e, pb_check_deadline(L, 2)));
}

static int l_has_record(lua_State *L)
{
	lua_pushboolean(L, pf_ring_ready(&pb_check_mapped(L, 1)->ring));
	return 1;
}

static int l_is_mapped(lua_State *L)
{
	lua_pushboolean(L, pb_ring_event(L, 1)->ring.map != NULL);
	return 1;
}

/* core.wait(events [, timeout]): true when any of the mapped Events has a record; "EPIPE" when all of them have ended. */
static int l_wait(lua_State *L)
{
	uint64_t deadline = pb_check_deadline(L, 2);
	struct pb_event **events;
	size_t n;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = pb_rawlen(L, 1);
	luaL_argcheck(L, n > 0 && n < 1u << 20, 1, "Events expected");
	lua_settop(L, 1);
	events = lua_newuserdata(L, n * (sizeof *events + sizeof(struct pollfd)));
	for (size_t i = 0; i < n; i++) {
		lua_rawgeti(L, 1, (int)i + 1);
		events[i] = pb_check_mapped(L, -1);
		lua_pop(L, 1);
	}
	return waited(L, await(events, (struct pollfd *)(void *)(events + n), n, deadline));
}

void pb_open_ring_wait(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{"poll", l_poll}, {"has_record", l_has_record}, {"is_mapped", l_is_mapped}, {NULL, NULL}};

	lua_pushcfunction(L, l_wait);
	lua_setfield(L, -2, "wait");
	lua_getfield(L, -1, "Event");
	lua_getfield(L, -1, "__index");
	pb_register(L, methods);
	lua_pop(L, 2);
}

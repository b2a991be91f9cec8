/* Waiting for records, and the checks that Event's ring methods share.
 *
 * The kernel wakes a reader after wakeup_events samples, if that is set, and otherwise only when the ring is half full. So a wait
 * is cut into growing slices, and the ring is checked after each.
 *
 * A reader is woken by a flag, which its own Lua state sets, or by a byte in a pipe, which any thread and any signal handler can
 * write (ev:wake_fd()). A loop that never waits checks the flag each time, and the pipe every LOOK records.
 *
 * Lua handles a signal by a debug hook, which runs only while the interpreter does. So an empty Lua function is called between
 * slices. Thus ^C ends a read as it ends a loop, and a handler may wake the reader or close the event. */
#include <errno.h>
#include <fcntl.h>

#include "core/base/sys.h"
#include "core/base/clock.h"
#include "binding/event/ring.h"
#include "binding/event/event.h"

enum { MAX_SLICE_MS = 50, LOOK = 16 };

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

struct pb_event *pb_check_mapped_event(lua_State *L, int i, struct pb_event *e)
{
	return e && pf_counter_usable(&e->ev) == 0 && e->ring.map ? e : pb_check_mapped(L, i); /* raises with the reason */
}

struct pb_event *pb_mapped_upvalue(lua_State *L)
{
	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	return pb_check_mapped_event(L, 1, lua_touserdata(L, 1));
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

/* --- waking --------------------------------------------------------------------------------------------------------- */

/* Empties the pipe: several requests wake the reader once. */
static void look_at_pipe(struct pb_event *e)
{
	char bytes[64];

	while (pf_sys->read(e->wake_read, bytes, sizeof bytes) > 0)
		e->woken = 1;
}

int pb_check_woken(struct pb_event *e)
{
	if (++e->reads % LOOK == 0)
		look_at_pipe(e);
	return e->woken;
}

void pb_wake_clear(struct pb_event *e)
{
	if (e->wake_read >= 0)
		look_at_pipe(e);
	e->woken = 0;
}

void pb_wake_end(struct pb_event *e)
{
	if (e->wake_fd >= 0) {
		pf_sys->close(e->wake_fd);
		pf_sys->close(e->wake_read);
	}
	e->wake_fd = e->wake_read = -1;
	e->woken = 0;
}

static int open_pipe(struct pb_event *e)
{
	int fds[2], r;

	if (e->wake_fd >= 0)
		return 0;
	r = pf_sys->pipe(fds);
	if (r < 0)
		return r;
	for (int i = 0; i < 2 && r >= 0; i++)
		r = pf_sys->fcntl(fds[i], F_SETFL, O_NONBLOCK);
	if (r < 0) {
		pf_sys->close(fds[0]);
		pf_sys->close(fds[1]);
		return r;
	}
	e->wake_read = fds[0];
	e->wake_fd = fds[1];
	return 0;
}

/*** @classmod Event */

/*** End the read of this event that is waiting, or else the next one. That read returns nil, a message and "ECANCELED", even if
 * there is a record, and removes no record; `poll` returns the same; an iterator ends. For hooks, signal handlers and coroutines
 * of this Lua state; other states and threads use `Event:wake_fd`.
 * @since 0.2.0 */
static int l_wake(lua_State *L)
{
	pb_ring_event(L, 1)->woken = 1;
	return 0;
}

/*** A descriptor for code that cannot call `Event:wake`: writing a byte into it does the same. Other threads and Lua states call
 * `perf.wake`; a signal handler in C may call write(2). The event owns the descriptor and closes it.
 * @treturn integer @fails
 * @since 0.2.0 */
static int l_wake_fd(lua_State *L)
{
	struct pb_event *e = pb_ring_event(L, 1);
	int r = open_pipe(e);

	if (r < 0)
		return pb_fail(L, r, "wake_fd");
	return pb_int(L, e->wake_fd);
}

/* ev:woken(): whether its reader was woken; true only once for each wake. */
static int l_woken(lua_State *L)
{
	struct pb_event *e = pb_check(L, 1, PB_EVENT, "Event");

	return pb_bool(L, pb_woken(e));
}

/* core.wake(fd): true, or nil, message, code. A full pipe is not an error: it already contains a wake. */
static int l_wake_by(lua_State *L)
{
	int fd = (int)luaL_checkinteger(L, 1);
	ssize_t n = pf_sys->write(fd, "", 1);

	return pb_result(L, n < 0 && n != -EAGAIN ? (int)n : 0, "wake");
}

/* --- waiting -------------------------------------------------------------------------------------------------------- */

static int nothing(lua_State *L)
{
	(void)L;
	return 0;
}

static int any_ready(struct pb_event *const *events, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (pf_ring_ready(&events[i]->ring))
			return 1;
	return 0;
}

/* Milliseconds until the deadline, at most slice. */
static int slice_of(uint64_t deadline, int slice)
{
	uint64_t now = deadline ? pf_wall_ns() : 0, left = deadline > now ? deadline - now : 0;
	uint64_t ms = left / 1000000 + (left % 1000000 != 0);

	return ms < (uint64_t)slice ? (int)ms : slice;
}

static int any_woken(struct pb_event *const *events, nfds_t n)
{
	int woken = 0;

	for (nfds_t i = 0; i < n; i++) {
		if (events[i]->wake_read >= 0)
			look_at_pipe(events[i]);
		woken |= pb_woken(events[i]);
	}
	return woken;
}

/* A hook may wake the reader, raise an error, or close an event: -EBADF. */
static int run_hooks(lua_State *L, struct pb_event *const *events, nfds_t n)
{
	if (!lua_gethook(L))
		return 0;
	luaL_checkstack(L, 1, "hook");
	lua_pushcfunction(L, nothing);
	lua_call(L, 0, 0);
	for (nfds_t i = 0; i < n; i++)
		if (events[i]->ev.fd < 0)
			return -EBADF;
	return 0;
}

/* fds has room for 2 * n: the events, and the pipes that wake their readers. The rings are checked after every poll, including the
 * last one. */
static int await(lua_State *L, struct pb_event *const *events, struct pollfd *fds, nfds_t n, uint64_t deadline)
{
	nfds_t ended = 0;
	int slice = 1, ms = -1, why = -EPIPE;

	for (nfds_t i = 0; i < n; i++)
		fds[i] = (struct pollfd){.fd = events[i]->ev.fd, .events = POLLIN};
	while (!any_ready(events, n)) {
		int r;

		if (any_woken(events, n))
			return -ECANCELED;
		if (ended == n)
			return why;
		if (ms == 0)
			return -ETIMEDOUT;
		ms = slice_of(deadline, slice);
		for (nfds_t i = 0; i < n; i++) /* each time, since a hook may have called wake_fd */
			fds[n + i] = (struct pollfd){.fd = events[i]->wake_read, .events = POLLIN};
		r = pf_sys->poll(fds, 2 * n, ms);
		if (r < 0 && r != -EINTR)
			return r;
		for (nfds_t i = 0; r > 0 && i < n; i++)
			if (fds[i].fd >= 0 && fds[i].revents & (POLLHUP | POLLERR)) {
				why = fds[i].revents & POLLHUP ? -EPIPE : -EIO;
				fds[i].fd = -1; /* otherwise every further poll would return at once */
				ended++;
			}
		slice = slice * 2 < MAX_SLICE_MS ? slice * 2 : MAX_SLICE_MS;
		r = run_hooks(L, events, n);
		if (r < 0)
			return r;
	}
	return 1;
}

int pb_await_one(lua_State *L, struct pb_event *e, uint64_t deadline)
{
	struct pollfd fds[2];

	return await(L, &e, fds, 1, deadline);
}

int pb_wait_failed(lua_State *L, int r)
{
	if (r != -ETIMEDOUT && r != -EPIPE && r != -EIO && r != -ECANCELED)
		return pb_fail(L, r, "poll");
	lua_pushnil(L);
	lua_pushstring(L, r == -ETIMEDOUT ? "no record came in that time"
			  : r == -EPIPE   ? "the watched process has ended, and all its records are read"
			  : r == -ECANCELED ? "the reader was woken"
					  : "the pinned event lost its counter");
	pb_push_errno(L, -r);
	return 3;
}

static int waited(lua_State *L, int r)
{
	if (r < 0)
		return pb_wait_failed(L, r);
	return pb_bool(L, 1);
}

/*** Wait until there are records.
 * @tparam[opt=0] number timeout seconds
 * @treturn boolean true @fails as `Event:read_record`
 * @raise if the event is not mapped */
static int l_poll(lua_State *L)
{
	struct pb_event *e = pb_check_mapped(L, 1);

	return waited(L, pb_await_one(L, e, pb_check_deadline(L, 2)));
}

/*** Whether a record can be read without waiting.
 * @treturn boolean
 * @raise if the event is not mapped */
static int l_has_record(lua_State *L)
{
	return pb_bool(L, pf_ring_ready(&pb_check_mapped(L, 1)->ring));
}

/*** Whether the event has a ring.
 * @treturn boolean */
static int l_is_mapped(lua_State *L)
{
	return pb_bool(L, pb_ring_event(L, 1)->ring.map != NULL);
}

/* core.wait(events [, timeout]): true if any of the mapped Events has a record; "EPIPE" if the processes of all have ended. */
static int l_wait(lua_State *L)
{
	uint64_t deadline = pb_check_deadline(L, 2);
	struct pb_event **events;
	size_t n;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = pb_rawlen(L, 1);
	luaL_argcheck(L, n > 0 && n < 1u << 20, 1, "Events expected");
	lua_settop(L, 1);
	events = lua_newuserdata(L, n * (sizeof *events + 2 * sizeof(struct pollfd)));
	for (size_t i = 0; i < n; i++) {
		lua_rawgeti(L, 1, (int)i + 1);
		events[i] = pb_check_mapped(L, -1);
		lua_pop(L, 1);
	}
	return waited(L, await(L, events, (struct pollfd *)(void *)(events + n), n, deadline));
}

void pb_open_ring_wait(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{"poll", l_poll}, {"has_record", l_has_record}, {"is_mapped", l_is_mapped},
		{"wake", l_wake}, {"wake_fd", l_wake_fd}, {"woken", l_woken}, {NULL, NULL}};
	static const luaL_Reg functions[] = {{"wait", l_wait}, {"wake", l_wake_by}, {NULL, NULL}};

	pb_register(L, functions);
	pb_extend(L, "Event", methods);
}

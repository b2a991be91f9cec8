/* Event: the owner of one descriptor. The userdata is made before the descriptor is opened, so that no Lua error can leak it. Its
 * uservalue is the table `info` from the Lua layer (label, unit, leader ...), which keeps the group's leader alive. */
#include <errno.h>
#include <string.h>

#include "binding/counts/meter.h"
#include "binding/event/event.h"
#include "binding/kernel/attr.h"
#include "binding/event/ring.h"

static struct pf_counter *to_event(lua_State *L, int i)
{
	return pb_check(L, i, PB_EVENT, "Event");
}

struct pf_counter *pb_check_event(lua_State *L, int i)
{
	struct pf_counter *ev = to_event(L, i);

	if (ev->fd < 0)
		luaL_argerror(L, i, "Event is closed");
	if (pf_inherited(ev->generation))
		pb_refuse_inherited(L, i, "Event");
	return ev;
}

/* Add LOST to the read_format, and in a group ID, by which each count is attributed to its event. Returns the bits that were added. */
static uint64_t add_lost(struct pf_attr *attr)
{
	const uint64_t asked = attr->read_format, group = asked & PF_FORMAT(GROUP);

	attr->read_format |= PF_FORMAT(LOST) | (group ? PF_FORMAT(ID) : 0);
	return attr->read_format & ~asked;
}

/* Push a closed Event. class, info: the indices of Event's metatable and of the table that is its uservalue. */
static struct pb_event *new_event(lua_State *L, int class, int info)
{
	struct pb_event *e = memset(pb_newuserdata(L, sizeof *e), 0, sizeof *e);

	e->ev.fd = e->wake_fd = e->wake_read = -1;
	lua_pushvalue(L, class);
	lua_setmetatable(L, -2);
	lua_pushvalue(L, info);
	pb_setuservalue(L, -2);
	return e;
}

/* core.open(attr, pid, cpu, leader or nil, flags, info, user, lost): Event, or nil, message, code. user: its counter may be read
 * without a system call, see core/counts/user_read.h. lost: let the kernel count its lost records, whatever attr.read_format is;
 * readings show only what attr.read_format asks for. */
static int l_open(lua_State *L)
{
	struct pf_attr attr;
	struct pf_opening o = {
		.attr = &attr,
		.pid = (pid_t)luaL_checknumber(L, 2),
		.cpu = (int)luaL_checknumber(L, 3),
		.leader = lua_isnoneornil(L, 4) ? NULL : pb_check_event(L, 4),
		.flags = (unsigned long)luaL_optinteger(L, 5, 0),
		.may_user = lua_toboolean(L, 7),
	};
	struct pb_event *e;
	int r;

	pb_check_attr(L, 1, &attr);
	lua_settop(L, 8);
	if (lua_isnil(L, 6)) {
		lua_newtable(L);
		lua_replace(L, 6);
	}
	luaL_checktype(L, 6, LUA_TTABLE);
	e = new_event(L, lua_upvalueindex(1), 6);
	if (lua_toboolean(L, 8))
		o.hidden = add_lost(&attr);
	pb_event_begin(e, &attr, o.hidden);
	r = pf_event_open(&e->ev, &o);
	if (r == -E2BIG && o.kernel_size)
		return pb_fail(L, r, "perf_event_open: attr field '%s' is newer than this kernel",
			       pf_attr_unknown_to(&attr, o.kernel_size) ? pf_attr_unknown_to(&attr, o.kernel_size) : "?");
	return r < 0 ? pb_fail(L, r, "perf_event_open") : 1;
}

/* core.open_packed(bytes, info): the same for an attr as core.pack gives it, and the calling thread. */
static int l_open_packed(lua_State *L)
{
	struct pf_attr attr;
	struct pb_event *e;
	int r;

	luaL_argcheck(L, lua_type(L, 1) == LUA_TSTRING && pb_rawlen(L, 1) == sizeof attr, 1, "attr expected as core.pack gives it");
	memcpy(&attr, lua_tostring(L, 1), sizeof attr);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	e = new_event(L, lua_upvalueindex(1), 2);
	pb_event_begin(e, &attr, 0);
	r = pf_event_open(&e->ev, &(struct pf_opening){.attr = &attr, .cpu = -1});
	return r < 0 ? pb_fail(L, r, "perf_event_open") : 1;
}

/*** @classmod Event */

/*** Close the event and unmap its ring. Idempotent. */
static int l_close(lua_State *L)
{
	struct pf_counter *ev = to_event(L, 1);

	pb_event_end((struct pb_event *)(void *)ev);
	pf_event_close(ev);
	return 0;
}

static int l_gc(lua_State *L)
{
	struct pb_event *e = (struct pb_event *)(void *)to_event(L, 1);

	e->hold.held = 0;
	l_close(L);
	pb_lost_collected(L, e);
	return 0;
}

/*** Start counting.
 * @treturn boolean true @fails */
static int l_enable(lua_State *L)
{
	return pb_result(L, pf_counter_enable(pb_check_event(L, 1)), "enable");
}

/*** Stop counting.
 * @treturn boolean true @fails */
static int l_disable(lua_State *L)
{
	return pb_result(L, pf_counter_disable(pb_check_event(L, 1)), "disable");
}

static int l_reset(lua_State *L)
{
	return pb_result(L, pf_counter_reset(pb_check_event(L, 1)), "reset");
}

/* Like pb_result, with a hint for one errno. */
static int hinted(lua_State *L, int r, const char *name, int err, const char *hint)
{
	if (r != -err)
		return pb_result(L, r, name);
	pb_fail(L, r, "%s", name);
	lua_pushfstring(L, "%s (%s)", lua_tostring(L, -2), hint);
	lua_replace(L, -3);
	return 3;
}

/*** Enable the event until n more overflows.
 * @tparam integer n from 1
 * @treturn boolean true @fails "EINVAL" if the event has no period or frequency, or is inherited */
static int l_refresh(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);
	int r = pf_counter_ioctl(ev, PF_IOC_REFRESH, (unsigned long)pb_check_u64(L, 2, INT32_MAX));

	if (r >= 0)
		pf_counter_set(ev, 1);
	pf_counter_share(ev); /* the kernel will disable it */
	return hinted(L, r, "refresh", EINVAL,
		      "it needs a count of at least 1, and an event with a sample_period or sample_freq and without inherit");
}

/*** Change the period of an event that was opened with one, or the frequency.
 * @tparam integer n the count from one overflow to the next, or samples a second
 * @treturn boolean true @fails "EINVAL" if the event does not sample, or n is out of range */
static int l_set_period(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);
	uint64_t period = pb_check_u64(L, 2, INT64_MAX);

	return hinted(L, pf_counter_ioctl_ptr(ev, PF_IOC_PERIOD, &period), "set_period", EINVAL,
		      "it needs a period of at least 1, or a sample_freq up to kernel.perf_event_max_sample_rate, and an event that was "
		      "opened with one");
}

static int l_set_filter(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);
	size_t n;
	const char *text = luaL_checklstring(L, 2, &n);

	luaL_argcheck(L, strlen(text) == n, 2, "filter contains a zero byte");
	pf_own_filter(ev);
	return pb_result(L, pf_counter_ioctl_ptr(ev, PF_IOC_SET_FILTER, (void *)(uintptr_t)text), "set_filter");
}

static int l_modify(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);
	struct pf_attr attr;
	int r;

	pb_check_attr(L, 2, &attr);
	attr.size = pf_attr_size(&attr);
	r = pf_counter_ioctl_ptr(ev, PF_IOC_MODIFY_ATTRIBUTES, &attr);
	if (r == 0)
		pf_counter_set(ev, !attr.disabled);
	else if (r != -EOPNOTSUPP && pf_counter_state(ev) & PF_COUNTER_ON)
		pf_counter_enable(ev); /* a failed modification leaves an event disabled that was opened disabled */
	return r == -EINVAL ? hinted(L, r, "modify", EINVAL, "only the bp_ fields, and disabled, may differ from those that it was opened with")
			    : hinted(L, r, "modify", EOPNOTSUPP, "the kernel modifies only breakpoints: open another event");
}

/*** The kernel's id of the event, which samples have.
 * @treturn integer @fails */
static int l_id(lua_State *L)
{
	uint64_t id = 0;
	int r = pf_counter_ioctl_ptr(pb_check_event(L, 1), PF_IOC_ID, &id);

	if (r < 0)
		return pb_fail(L, r, "id");
	return pb_u64(L, id);
}

/*** The file descriptor, for other event loops: see `Event:poll`. The event owns it.
 * @treturn integer */
static int l_fd(lua_State *L)
{
	struct pf_counter *ev = pb_check_event(L, 1);

	pf_counter_share(ev); /* the caller can now use the descriptor directly, and may map it */
	pf_user_drop(&ev->user);
	return pb_int(L, ev->fd);
}

/*** Whether the event is open.
 * @treturn boolean */
static int l_is_open(lua_State *L)
{
	return pb_bool(L, to_event(L, 1)->fd >= 0);
}

/* ev:is_inherited(): whether it is open and the parent of this process opened it before a fork. */
static int l_is_inherited(lua_State *L)
{
	return pb_bool(L, pf_counter_usable(to_event(L, 1)) == -ECHILD);
}

/* ev:is_off(): whether it is disabled: it was opened disabled or was disabled, and has not been enabled since. */
static int l_is_off(lua_State *L)
{
	return pb_bool(L, !(pf_counter_state(to_event(L, 1)) & PF_COUNTER_ON));
}

static int l_info(lua_State *L)
{
	to_event(L, 1);
	pb_getuservalue(L, 1);
	return 1;
}

/* core.set_event_info(ev, info): replace the table that ev:info() returns. */
static int l_set_info(lua_State *L)
{
	struct pb_event *e = (struct pb_event *)(void *)to_event(L, 1);

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	pb_setuservalue(L, 1);
	e->plain = PB_UNKNOWN;
	return 0;
}

/* ev:format(): the read_format with which it was opened, as a number. */
static int l_format(lua_State *L)
{
	return pb_u64(L, to_event(L, 1)->format);
}

/* ev:scan(own): the result of read(2): {enabled_ns=, running_ns=, {value=, id=, lost=}, ...}, with one entry unless the
 * read_format has "group", and no entry if a pinned event lost its counter. Returns nil alone if it is not an open Event of this
 * process: then the Lua layer raises the error in the name of the called method. own: this read belongs to a measurement; the
 * field `own` is the number of system calls of measurements in the value. */
static int l_scan(lua_State *L)
{
	const struct pf_counter *ev = pb_test(L, 1, PB_EVENT);
	int own = lua_toboolean(L, 2);
	struct pf_reading rd;
	uint64_t words[512], calls;
	ssize_t n;

	if (!ev || pf_counter_usable(ev) < 0)
		return pb_nil(L);
	n = own ? pf_counter_read_own(ev, words, sizeof words / sizeof *words, &calls)
		: pf_counter_read(ev, words, sizeof words / sizeof *words);
	if (n >= 0) {
		lua_newtable(L);
		if (own)
			pb_set_u64(L, "own", calls);
		if (n == 0)
			return 1;
		n = pf_read_decode(ev->format, words, (size_t)n, &rd);
	}
	if (n >= 0)
		pf_reading_strip(&rd, ev->hidden);
	if (n < 0)
		return pb_fail(L, (int)n, "read");
	pb_set_reading(L, &rd);
	return 1;
}

/* ev:begin(): enables the event, and starts a measurement: value, enabled, running. ev:since(value, enabled, running): the
 * differences, and the id. On failure nil and the errno's symbol: "EBADF" not an open Event, "ECHILD" opened by the parent before
 * a fork, "ENOTSUP" another read_format, "ENODATA" pinned and without a counter ... */
static int measured(lua_State *L, int r, const uint64_t *words, int n)
{
	if (r < 0) {
		lua_pushnil(L);
		pb_push_errno(L, -r);
		return 2;
	}
	for (int i = 0; i < n; i++)
		pb_push_u64(L, words[i]);
	return n;
}

/* NULL if it is not an open Event. Upvalue 1 is Event's metatable: looking it up by name would double the cost. */
static struct pf_counter *quick_event(lua_State *L)
{
	struct pf_counter *ev = pb_test_as(L, 1, lua_upvalueindex(1));

	return ev && ev->fd >= 0 ? ev : NULL;
}

static int l_begin(lua_State *L)
{
	struct pf_counter *ev = quick_event(L);
	uint64_t words[PF_COUNTER_WORDS];

	return measured(L, ev ? pf_counter_begin(ev, words) : -EBADF, words, 3);
}

static int l_since(lua_State *L)
{
	struct pf_counter *ev = quick_event(L);
	uint64_t words[PF_COUNTER_WORDS];
	int negative;

	for (int i = 0; i < 3; i++)
		if (!pb_to_u64(L, i + 2, &words[i], &negative))
			return luaL_argerror(L, i + 2, "number expected");
	return measured(L, ev ? pf_counter_end(ev, words) : -EBADF, words, PF_COUNTER_VALUES);
}

/* ev:user(): value, enabled, running, id, read without a system call; nil and "EAGAIN" if that is not possible now,
 * "ENOTSUP" if the caller chose another read_format. */
static int l_user(lua_State *L)
{
	uint64_t words[PF_COUNTER_WORDS];

	return measured(L, pf_counter_user(pb_check_event(L, 1), words), words, PF_COUNTER_VALUES);
}

/* Whether the entry of a reading has nothing but its numbers and the label and unit of ev:info(), if the event always had its counter.
 * The info is on top of the stack. The answer is kept, since the other fields do not change as long as the event has this info. */
static int is_plain(lua_State *L, struct pb_event *e)
{
	static const char *const others[] = {"scale", "bound", "why", "note"}; /* as in `entry` of perf.counts */

	if (e->plain == PB_UNKNOWN) {
		e->plain = PB_PLAIN;
		for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
			lua_getfield(L, -1, others[i]);
			if (lua_toboolean(L, -1))
				e->plain = PB_NOT_PLAIN;
			lua_pop(L, 1);
		}
	}
	return e->plain == PB_PLAIN;
}

/* ev:take(): value, enabled, running, id, read for the program; and ev:info() if the entry is plain. Returns nil alone if
 * ev:scan() is needed: for another read_format, a pinned event without a counter, and what is not an open Event of this process;
 * else nil, message, code. */
static int l_take(lua_State *L)
{
	struct pf_counter *ev = quick_event(L);
	uint64_t words[PF_COUNTER_WORDS];
	int r = ev ? pf_counter_take(ev, words) : -EBADF;

	if (r == -EBADF || r == -ECHILD || r == -ENOTSUP || r == -ENODATA)
		return pb_nil(L);
	if (r < 0)
		return pb_fail(L, r, "read");
	measured(L, 0, words, PF_COUNTER_VALUES);
	pb_getuservalue(L, 1);
	if (words[1] == words[2] && words[1] != 0 && words[0] != PF_COUNT_FELL && is_plain(L, (struct pb_event *)(void *)ev))
		return PF_COUNTER_VALUES + 1;
	lua_pop(L, 1);
	return PF_COUNTER_VALUES;
}

/* core.watch_calls(event, at_exit, filtered, call, ...): declares that the event counts these system calls ("read", "ioctl" ...)
 * when they return (at_exit) or begin, or only some of them (filtered). The calls of measurements are then subtracted: see
 * core/counts/own_calls.h. */
static int l_watch(lua_State *L)
{
	static const char *const calls[] = {"read", "ioctl", "mmap", "munmap", NULL}; /* as pf_own_call */
	struct pf_counter *ev = pb_check_event(L, 1);
	unsigned bits = 0;
	int r;

	for (int i = 4; i <= lua_gettop(L); i++)
		bits |= 1u << luaL_checkoption(L, i, NULL, calls);
	r = pf_own_watch(ev, bits, lua_toboolean(L, 2));
	if (lua_toboolean(L, 3))
		pf_own_filter(ev);
	return pb_result(L, r, "watch");
}

/* core.own_section(begin): see core/counts/own_calls.h. */
static int l_own_section(lua_State *L)
{
	return pb_bool(L, pf_own_section(lua_toboolean(L, 1)));
}

void pb_open_event(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{"enable", l_enable},     {"disable", l_disable}, {"reset", l_reset}, {"refresh", l_refresh},
		{"set_period", l_set_period}, {"set_filter", l_set_filter}, {"modify", l_modify}, {"id", l_id},
		{"fd", l_fd},             {"is_open", l_is_open}, {"is_inherited", l_is_inherited}, {"is_off", l_is_off}, {"info", l_info},
		{"scan", l_scan},
		{"user", l_user},         {"format", l_format},
		{"close", l_close},       {NULL, NULL}};
	static const luaL_Reg quick[] = {{"begin", l_begin}, {"since", l_since}, {"take", l_take}};
	static const luaL_Reg openers[] = {{"open", l_open}, {"open_packed", l_open_packed}};

	pb_set_function(L, "watch_calls", l_watch);
	pb_set_function(L, "own_section", l_own_section);
	pb_set_function(L, "set_event_info", l_set_info);
	if (pf_user_config1 >= 0) /* the config1 for core.open's `user`; nil if this CPU cannot read counters in this way */
		pb_set_int(L, "user_config1", pf_user_config1);
	pb_class(L, PB_EVENT, methods, l_gc);
	for (size_t i = 0; i < sizeof openers / sizeof *openers; i++) {
		lua_pushvalue(L, -1);
		lua_pushcclosure(L, openers[i].func, 1);
		lua_setfield(L, -3, openers[i].name);
	}
	lua_getfield(L, -1, "__index");
	for (size_t i = 0; i < sizeof quick / sizeof *quick; i++) {
		lua_pushvalue(L, -2);
		lua_pushcclosure(L, quick[i].func, 1);
		lua_setfield(L, -2, quick[i].name);
	}
	lua_pop(L, 1);
	lua_setfield(L, -2, "Event"); /* the metatable; the Lua layer adds its own methods */
}

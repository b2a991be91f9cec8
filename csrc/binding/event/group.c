/* Group and Meter, which measure by reading before and after. Their results are Counts: counts.c.
 *
 * A Group is one kernel group. A Meter is several groups that are read together; without groups it reads the kernel's accounting
 * of the thread. Both hold a struct pf_meter, which points into the objects that own the descriptors: Events, or, for a Meter of
 * core.reopen, one Descriptors. Their uservalue keeps these alive. It is an array that no other code can change: of Events, with
 * the caller's array at 0; of Groups; or of the Descriptors.
 */
#include <errno.h>
#include <string.h>

#include "core/base/thread.h"
#include "core/base/clock.h"
#include "binding/counts/meter.h"
#include "binding/event/event.h"
#include "binding/memory/allocator.h"

#define PB_DESCRIPTORS "perf.Descriptors"

/* A new Meter, with room for nusers struct pf_user after its groups. */
static struct pf_meter *new_meter(lua_State *L, size_t ngroups, size_t nusers, const char *tname)
{
	size_t size = sizeof(struct pf_meter) + ngroups * sizeof(struct pf_meter_group) + nusers * sizeof(struct pf_user *);
	struct pf_meter *m = pb_new(L, size, tname);

	m->ngroups = (uint32_t)ngroups;
	m->generation = pf_fork_generation();
	return m;
}

static int is_alone(const struct pf_counter *c)
{
	return (c->format & ~PF_FORMAT(LOST)) == PF_COUNTER_FORMAT;
}

/* core.group(events, since): a Group of Events that were opened with events[1] as leader and the read_format of a meter's group.
 * since: the time by core.wall_ns when it began to count, if it counts already or will begin by itself. */
static int l_group(lua_State *L)
{
	struct pf_user **users;
	struct pf_meter *m;
	struct pf_counter *leader;
	size_t n, may = 0;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = pb_rawlen(L, 1);
	luaL_argcheck(L, n >= 1 && n <= PF_METER_MAX_GROUP, 1, "a group has 1 to 128 events");
	lua_settop(L, 2);
	m = new_meter(L, 1, n, PB_GROUP);
	users = (struct pf_user **)(void *)(m->group + 1);
	lua_rawgeti(L, 1, 1);
	leader = pb_check_event(L, -1);
	m->group[0].alone = n == 1 && is_alone(leader);
	luaL_argcheck(L, m->group[0].alone || (leader->format & ~PF_FORMAT(LOST)) == PF_METER_FORMAT, 1, "wrong read_format");
	m->group[0].lost = (leader->format & PF_FORMAT(LOST)) != 0;
	m->group[0].leader = leader;
	m->is_group = 1;
	m->since_ns = lua_isnil(L, 2) ? 0 : pb_check_u64(L, 2, UINT64_MAX);
	lua_pop(L, 1);
	m->group[0].n = m->nvalues = (uint32_t)n;
	lua_createtable(L, (int)n, 1);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 0);
	for (size_t i = 1; i <= n; i++) {
		struct pf_counter *ev;

		lua_rawgeti(L, 1, (int)i);
		ev = pb_check_event(L, -1);
		users[i - 1] = &ev->user;
		may += ev->user.may || ev->user.page;
		lua_rawseti(L, -2, (int)i);
	}
	if (may == n && n <= PF_USER_MOST)
		m->group[0].users = users;
	else
		for (size_t i = 0; i < n; i++)
			pf_user_drop(users[i]);
	pb_setuservalue(L, -2);
	return 1;
}

/* core.meter(groups, fresh, rests): several Groups, and Blocks, that are read together; without groups, the kernel's accounting of the
 * thread.
 * fresh: none of their events was ever enabled, and only measurements will enable them. rests: they are enabled only while a
 * measurement runs. */
static int l_meter(lua_State *L)
{
	const int fresh = lua_toboolean(L, 2), rests = lua_toboolean(L, 3);
	struct pf_meter *m;
	size_t n;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	n = pb_rawlen(L, 1);
	m = new_meter(L, n, 0, PB_METER);
	m->rests = rests && n > 0;
	m->needs = m->rests ? PF_METER_GUARD : 0;
	m->fresh = fresh && n > 0;
	if (n == 0) {
		m->nvalues = PF_USAGE_COUNT;
		m->since_ns = pf_wall_ns();
	}
	lua_createtable(L, (int)n, 0);
	for (size_t i = 0; i < n; i++) {
		const struct pf_meter *g;
		const struct pf_block_reader *b;

		lua_rawgeti(L, 1, (int)i + 1);
		g = pb_test(L, -1, PB_GROUP);
		b = g ? NULL : pb_test(L, -1, PB_BLOCKS);
		luaL_argcheck(L, g || (b && b->n <= PF_METER_MAX_GROUP), 1, "Groups expected");
		m->group[i] = g ? g->group[0] : (struct pf_meter_group){.leader = &pf_no_leader, .n = b->n, .blocks = b};
		m->nvalues += m->group[i].n;
		m->needs |= b ? PF_METER_MEMORY : 0;
		lua_rawseti(L, -2, (int)i + 1);
	}
	pb_setuservalue(L, -2);
	return 1;
}

/* The descriptors of a Meter that has no Events. */
struct descriptors {
	size_t n;
	struct pf_counter counter[];
};

static int l_close_descriptors(lua_State *L)
{
	struct descriptors *d = pb_test(L, 1, PB_DESCRIPTORS);

	while (d && d->n > 0) /* members before their leaders */
		pf_event_close(&d->counter[--d->n]);
	return 0;
}

/* Open the n events of one group, the leader first. Their packed attrs begin at entry `first` of table 1. 0 or -errno. */
static int open_packed(lua_State *L, struct descriptors *d, lua_Integer first, uint32_t n)
{
	struct pf_counter *leader = NULL, *c;

	for (uint32_t i = 0; i < n; i++) {
		struct pf_attr attr;
		const char *bytes;
		int r;

		lua_rawgeti(L, 1, (int)first + (int)i);
		bytes = lua_tostring(L, -1);
		luaL_argcheck(L, bytes && pb_rawlen(L, -1) == sizeof attr, 1, "attrs expected as core.pack gives them");
		memcpy(&attr, bytes, sizeof attr);
		c = &d->counter[d->n];
		r = pf_event_open(c, &(struct pf_opening){.attr = &attr, .cpu = -1, .leader = leader});
		if (r < 0)
			return r;
		d->n++;
		leader = leader ? leader : c;
		lua_pop(L, 1);
	}
	return 0;
}

/* core.reopen(attrs, sizes): a new Meter of the calling thread, like core.meter's of Events that were opened one by one, and its
 * members(), which are one Descriptors; or nil, message, code, and nothing is left open. sizes: the number of events of each group;
 * attrs: strings of core.pack, those of the leaders disabled. */
static int l_reopen(lua_State *L)
{
	struct descriptors *d;
	struct pf_meter *m;
	size_t nattrs, ngroups;
	lua_Integer first = 1;

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	nattrs = pb_rawlen(L, 1);
	ngroups = pb_rawlen(L, 2);
	m = new_meter(L, ngroups, 0, PB_METER);
	lua_createtable(L, 1, 0);
	d = pb_newplain(L, sizeof *d + nattrs * sizeof *d->counter);
	d->n = 0;
	luaL_getmetatable(L, PB_DESCRIPTORS);
	lua_setmetatable(L, -2);
	lua_rawseti(L, 4, 1);
	lua_pushvalue(L, 4);
	pb_setuservalue(L, 3);
	for (size_t i = 0; i < ngroups; i++) {
		uint32_t n;
		int r;

		lua_rawgeti(L, 2, (int)i + 1);
		n = (uint32_t)lua_tointeger(L, -1);
		luaL_argcheck(L, n >= 1 && n <= PF_METER_MAX_GROUP && n <= nattrs - (size_t)first + 1, 2, "sizes do not fit");
		r = open_packed(L, d, first, n);
		if (r < 0) {
			while (d->n > 0)
				pf_event_close(&d->counter[--d->n]);
			return pb_fail(L, r, "perf_event_open");
		}
		m->group[i].leader = &d->counter[first - 1];
		m->group[i].n = n;
		m->group[i].alone = n == 1 && is_alone(m->group[i].leader);
		m->nvalues += n;
		first += (lua_Integer)n;
		lua_pop(L, 1);
	}
	m->fresh = 1;
	m->owner = pf_thread_token();
	lua_settop(L, 4);
	return 2;
}

static int l_members(lua_State *L)
{
	pb_check_meter(L, 1);
	pb_getuservalue(L, 1);
	lua_rawgeti(L, -1, 0); /* a Group has the caller's array there */
	if (lua_isnil(L, -1))
		lua_pop(L, 1);
	return 1;
}

/* m:forget(): forget the descriptors, which their owners are about to close; every later use raises. */
static int l_forget(lua_State *L)
{
	pf_meter_forget(pb_check_meter(L, 1));
	return 0;
}

static int meter_ioctl(lua_State *L, unsigned long request, const char *name)
{
	struct pf_meter *m = pb_check_meter(L, 1);
	int r = pf_meter_ioctl(m, request);

	if (r == -ECHILD)
		pb_refuse_inherited(L, 1, "Group");
	luaL_argcheck(L, r != -EBADF, 1, PB_CLOSED_GROUP);
	return pb_result(L, r, name);
}

static int l_enable(lua_State *L)
{
	return meter_ioctl(L, PF_IOC_ENABLE, "enable");
}

static int l_disable(lua_State *L)
{
	return meter_ioctl(L, PF_IOC_DISABLE, "disable");
}

static int l_reset(lua_State *L)
{
	return meter_ioctl(L, PF_IOC_RESET, "reset");
}

/* m:own(): from now on only the calling thread can use the meter; in others core.begin returns nil. */
static int l_own(lua_State *L)
{
	pb_check_meter(L, 1)->owner = pf_thread_token();
	return 0;
}

/* m:used(): the number of measurements that have begun but not ended, including those that an error ended; and the time when the
 * last one began, by CLOCK_MONOTONIC. */
static int l_used(lua_State *L)
{
	const struct pf_meter *m = pb_check_meter(L, 1);

	lua_pushinteger(L, (lua_Integer)m->running);
	lua_pushnumber(L, (lua_Number)m->used_ns);
	return 2;
}

/* m:was_reset(): whether one of its events was reset separately. */
static int l_was_reset(lua_State *L)
{
	pb_check_meter(L, 1)->reset_ns = pf_wall_ns();
	return 0;
}

/* m:words(): the length of v in its Counts. */
static int l_words(lua_State *L)
{
	return pb_int(L, (lua_Integer)pf_meter_words(pb_check_meter(L, 1)));
}

/* core.thread_token([object]): the token of this thread; nil if an object is given that is not a table. */
static int l_thread_token(lua_State *L)
{
	const int type = lua_type(L, 1);

	return type == LUA_TTABLE || type == LUA_TNONE ? pb_u64(L, pf_thread_token()) : pb_nil(L);
}

static int l_fork_generation(lua_State *L)
{
	return pb_u64(L, pf_fork_generation());
}

static int l_wall_ns(lua_State *L)
{
	return pb_u64(L, pf_wall_ns());
}

static void new_class(lua_State *L, const char *tname, const char *field, const luaL_Reg *methods, lua_CFunction collect)
{
	pb_class(L, tname, methods, collect);
	lua_setfield(L, -2, field);
}

void pb_open_meter(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"group", l_group},       {"meter", l_meter},         {"reopen", l_reopen},
		{"wall_ns", l_wall_ns},
		{"thread_token", l_thread_token}, {"fork_generation", l_fork_generation}, {NULL, NULL}};
	static const luaL_Reg methods[] = {
		{"members", l_members}, {"forget", l_forget}, {"words", l_words}, {"enable", l_enable},
		{"disable", l_disable}, {"reset", l_reset}, {"own", l_own}, {"used", l_used}, {"was_reset", l_was_reset}, {NULL, NULL}};
	static const luaL_Reg descriptors[] = {{"close", l_close_descriptors}, {NULL, NULL}};

	pb_register(L, functions);
	new_class(L, PB_GROUP, "Group", methods, NULL);
	new_class(L, PB_METER, "Meter", methods, NULL);
	new_class(L, PB_DESCRIPTORS, "Descriptors", descriptors, l_close_descriptors);
}

/* Channels for a pool of threads, and functions to choose the CPUs of a thread. A channel's userdata holds one reference. A
 * reference is passed to another Lua state as text (export, adopt). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/pool/channel.h"
#include "core/base/thread.h"
#include "binding/base/binding.h"

#define PB_CHANNEL "perf.Channel"

struct channel {
	struct pf_channel *c;
	int made_here; /* made by core.channel: when it is collected, it closes the channel, so that other states stop waiting */
};

static struct pf_channel *to_channel(lua_State *L)
{
	const struct channel *u = pb_test(L, 1, PB_CHANNEL);

	luaL_argcheck(L, u && u->c, 1, "Channel expected");
	if (pf_channel_inherited(u->c))
		pb_refuse_inherited(L, 1, "Channel");
	return u->c;
}

/* core.channel([most]) */
static int l_channel(lua_State *L)
{
	lua_Integer most = luaL_optinteger(L, 1, 0);
	struct channel *u;

	luaL_argcheck(L, most >= 0, 1, "0 or more");
	u = pb_new(L, sizeof *u, PB_CHANNEL);
	u->c = pf_channel_new((size_t)most);
	u->made_here = 1;
	return u->c ? 1 : pb_fail(L, ENOMEM, "channel");
}

/* channel:export(): text that holds a reference; it must be adopted exactly once. */
static int l_export(lua_State *L)
{
	struct pf_channel *c = to_channel(L);
	char text[32];

	snprintf(text, sizeof text, "%" PRIxPTR, (uintptr_t)c);
	lua_pushstring(L, text);
	pf_channel_ref(c);
	return 1;
}

/* core.adopt(text): the exported channel, in this Lua state. */
static int l_adopt(lua_State *L)
{
	const char *text = luaL_checkstring(L, 1);
	struct channel *u = pb_new(L, sizeof *u, PB_CHANNEL);

	u->c = (struct pf_channel *)(uintptr_t)strtoull(text, NULL, 16);
	return 1;
}

/* channel:push(id, text): true; or nil, message, "EAGAIN", "EPIPE" or "ENOMEM" */
static int l_push(lua_State *L)
{
	struct pf_channel *c = to_channel(L);
	uint64_t id = (uint64_t)luaL_checknumber(L, 2);
	size_t size;
	const char *bytes = luaL_checklstring(L, 3, &size);
	int r = pf_channel_push(c, id, bytes, size);

	return pb_result(L, r, "channel");
}

/* channel:pop([seconds]): id, text; or nil, message, "ETIMEDOUT" or "EPIPE". Without seconds it waits without limit. */
static int l_pop(lua_State *L)
{
	struct pf_channel *c = to_channel(L);
	lua_Number seconds = luaL_optnumber(L, 2, -1);
	struct pb_owned *owned = pb_owner(L, free);
	struct pf_message *m;
	int r = pf_channel_pop(c, seconds < 0 ? -1 : seconds > 1e9 ? (int64_t)1e18 : (int64_t)(seconds * 1e9), &m);

	if (r < 0)
		return pb_fail(L, r, "channel");
	owned->p = m;
	lua_pushnumber(L, (lua_Number)m->id);
	lua_pushlstring(L, m->bytes, m->size);
	pb_release(owned);
	return 2;
}

/* channel:remove(id): whether the message was still there. */
static int l_remove(lua_State *L)
{
	return pb_bool(L, pf_channel_remove(to_channel(L), (uint64_t)luaL_checknumber(L, 2)));
}

/* channel:close([drop]): the number of messages that were dropped. */
static int l_close(lua_State *L)
{
	return pb_int(L, (lua_Integer)pf_channel_close(to_channel(L), lua_toboolean(L, 2)));
}

static int l_length(lua_State *L)
{
	return pb_int(L, (lua_Integer)pf_channel_length(to_channel(L)));
}

static int l_gc(lua_State *L)
{
	struct channel *u = pb_check(L, 1, PB_CHANNEL, "Channel");

	if (u->c && u->made_here && !pf_channel_inherited(u->c))
		pf_channel_close(u->c, 1);
	if (u->c)
		pf_channel_unref(u->c);
	u->c = NULL;
	return 0;
}

/* core.bind_cpu(cpu): from now on the calling thread runs only on that CPU. */
static int l_bind_cpu(lua_State *L)
{
	lua_Integer cpu = luaL_checkinteger(L, 1);

	luaL_argcheck(L, cpu >= 0, 1, "a CPU's number");
	return pb_result(L, cpu < PF_MOST_CPUS ? pf_thread_bind((int)cpu) : -EINVAL, "sched_setaffinity");
}

/* core.allowed_cpus(): array of the CPUs that the calling thread may run on. */
static int l_allowed_cpus(lua_State *L)
{
	static const int most = PF_MOST_CPUS;
	int n = 0;

	lua_newtable(L);
	for (int cpu = 0; cpu < most; cpu++) {
		int r = pf_thread_may_run(cpu);

		if (r < 0)
			return pb_fail(L, r, "sched_getaffinity");
		if (r > 0) {
			lua_pushinteger(L, cpu);
			lua_rawseti(L, -2, ++n);
		}
	}
	return 1;
}

void pb_open_channel(lua_State *L)
{
	static const luaL_Reg functions[] = {{"channel", l_channel}, {"adopt", l_adopt}, {"bind_cpu", l_bind_cpu},
					     {"allowed_cpus", l_allowed_cpus}, {NULL, NULL}};
	static const luaL_Reg methods[] = {{"export", l_export}, {"push", l_push},   {"pop", l_pop},      {"remove", l_remove},
					   {"close", l_close},   {"length", l_length}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_CHANNEL, methods, l_gc);
}

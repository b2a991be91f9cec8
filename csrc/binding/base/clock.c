/* Functions for spans: the time of day, and ids. */
#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "core/base/clock.h"
#include "binding/base/binding.h"

/* core.clock_base(), core.clock_skew(), core.clock_wall(): csrc/core/base/clock.h. */
static int l_clock_base(lua_State *L)
{
	return pb_u64(L, pf_clock_base());
}

static int l_clock_skew(lua_State *L)
{
	return pb_number(L, pf_clock_skew());
}

static int l_clock_wall(lua_State *L)
{
	return pb_number(L, pf_clock_wall());
}

/* core.clock_ns(seconds, ns): both as one number of nanoseconds, by the rule for 64-bit values. */
static int l_clock_ns(lua_State *L)
{
	return pb_u64(L, (uint64_t)luaL_checknumber(L, 1) * 1000000000u + (uint64_t)luaL_checknumber(L, 2));
}

/* core.clock_parts(ns): the inverse of core.clock_ns. */
static int l_clock_parts(lua_State *L)
{
	uint64_t ns = pb_check_u64(L, 1, UINT64_MAX);

	lua_pushnumber(L, (lua_Number)(ns / 1000000000u));
	lua_pushnumber(L, (lua_Number)(ns % 1000000000u));
	return 2;
}

/* core.first_time(text): true at the first call with this text in this process; false also after 64 texts. Texts are compared by
 * their FNV-1a hashes. There is no lock, since the child of a fork could inherit it held. */
static int l_first_time(lua_State *L)
{
	static _Atomic uint64_t seen[64];
	uint64_t hash = 14695981039346656037u;
	size_t size, places = sizeof seen / sizeof *seen;
	const char *text = luaL_checklstring(L, 1, &size);
	int first = 0;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
	for (size_t i = 0; i < places && !first; i++) {
		uint64_t there = 0;

		first = atomic_compare_exchange_strong(&seen[i], &there, hash);
		if (there == hash)
			break;
	}
	return pb_bool(L, first);
}

/* core.random_hex(n): 2n lower-case hexadecimal digits of cryptographic quality; n is at most 4096. */
static int l_random_hex(lua_State *L)
{
	unsigned char bytes[4096];
	lua_Integer n = luaL_checkinteger(L, 1);
	size_t have = 0;

	luaL_argcheck(L, n >= 1 && n <= (lua_Integer)sizeof bytes, 1, "1 to 4096");
	while (have < (size_t)n) {
		ssize_t got = getrandom(bytes + have, (size_t)n - have, 0);

		if (got < 0 && errno != EINTR)
			return pb_fail(L, errno, "getrandom");
		if (got > 0)
			have += (size_t)got;
	}
	return pb_hex(L, bytes, have);
}

void pb_open_trace(lua_State *L)
{
	static const luaL_Reg functions[] = {{"clock_base", l_clock_base}, {"clock_skew", l_clock_skew},
					     {"clock_wall", l_clock_wall}, {"clock_ns", l_clock_ns},
					     {"clock_parts", l_clock_parts}, {"random_hex", l_random_hex},
					     {"first_time", l_first_time}, {NULL, NULL}};

	pb_register(L, functions);
}

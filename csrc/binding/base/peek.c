/* core/base/peek.h, for tests. */
#include "core/base/peek.h"
#include "core/base/thread.h"
#include "binding/base/binding.h"

/* core.peek(address, n, [how]): n bytes, up to 64; nil if they cannot be read. how: "load" or "call"; else what works. */
static int l_peek(lua_State *L)
{
	static const char *const hows[] = {"any", "load", "call", NULL};
	static int (*const peeks[])(void *, uint64_t, size_t) = {pf_peek, pf_peek_load, pf_peek_call};
	const uint64_t address = pb_check_u64(L, 1, UINT64_MAX), n = pb_check_u64(L, 2, 64);
	char bytes[64];

	if (peeks[luaL_checkoption(L, 3, "any", hows)](bytes, address, n) < 0)
		lua_pushnil(L);
	else
		lua_pushlstring(L, bytes, n);
	return 1;
}

static uint32_t taken; /* pf_fork_generation at the last take */

static int l_peek_take(lua_State *L)
{
	(void)L;
	taken = pf_fork_generation();
	pf_peek_take();
	return 0;
}

static int l_peek_give(lua_State *L)
{
	(void)L;
	pf_peek_give(taken);
	return 0;
}

/* core.peek_ready(): whether loads can be used now. */
static int l_peek_ready(lua_State *L)
{
	return pb_bool(L, pf_peek_ready(NULL));
}

void pb_open_peek(lua_State *L)
{
	static const luaL_Reg functions[] = {{"peek", l_peek},
					     {"peek_take", l_peek_take},
					     {"peek_give", l_peek_give},
					     {"peek_ready", l_peek_ready},
					     {NULL, NULL}};

	pb_register(L, functions);
}

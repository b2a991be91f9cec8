/* Ledger: keeps a struct pf_ledger and the Meter it reads. Its users call the core through LuaJIT's FFI, since the hosts that have
 * requests to tell apart run LuaJIT. */
#include "core/resty/accounting.h"
#include "core/counts/meter.h"
#include "binding/counts/meter.h"

#define PB_LEDGER "perf.Ledger"

/* core.ledger(meter, phases, repeats, after): a Ledger, and a pointer to it that is valid until it is closed; or nil, message, code.
 * See csrc/core/resty/accounting.h. */
static int l_ledger(lua_State *L)
{
	struct pf_meter *meter = luaL_checkudata(L, 1, PB_METER);
	lua_Integer phases = luaL_checkinteger(L, 2), repeats = luaL_checkinteger(L, 3), after = luaL_checkinteger(L, 4);
	struct pf_ledger **l;
	int r;

	luaL_argcheck(L, phases >= 1 && phases <= 64, 2, "1 to 64 phases");
	luaL_argcheck(L, repeats >= 1 && repeats <= phases + 1, 3, "a phase, or the one after the last");
	luaL_argcheck(L, after >= 0 && after <= phases, 4, "a phase, or 0 for none");
	l = pb_newuserdata(L, sizeof *l);
	*l = NULL;
	luaL_getmetatable(L, PB_LEDGER);
	lua_setmetatable(L, -2);
	lua_createtable(L, 1, 0);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 1);
	pb_setuservalue(L, -2);
	r = pf_ledger_open(l, meter, (uint32_t)phases, (uint32_t)repeats, (uint32_t)after);
	if (r < 0)
		return pb_fail(L, r, "ledger");
	lua_pushlightuserdata(L, *l);
	return 2;
}

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(macro) TEXT_OF(macro)

/* core.ledger_functions(): the core's functions as light userdata, by name without the prefix; and the type of a ledger's first
 * members, as FFI takes it. */
static int l_functions(lua_State *L)
{
#define FUNCTION(name) (lua_pushlightuserdata(L, (void *)(uintptr_t)&pf_ledger_##name), lua_setfield(L, -2, #name))
	lua_newtable(L);
	FUNCTION(enter);
	FUNCTION(exit);
	FUNCTION(leave);
	FUNCTION(back);
	FUNCTION(admit);
	FUNCTION(end);
	FUNCTION(finish);
	FUNCTION(route);
	FUNCTION(settle);
#undef FUNCTION
	lua_pushliteral(L, "struct { " TEXT(PF_LEDGER_STATE) " }");
	return 2;
}

static int l_close(lua_State *L)
{
	struct pf_ledger **l = luaL_checkudata(L, 1, PB_LEDGER);

	pf_ledger_close(*l);
	*l = NULL;
	return 0;
}

void pb_open_ledger(lua_State *L)
{
	static const luaL_Reg methods[] = {{"close", l_close}, {NULL, NULL}};

	lua_pushcfunction(L, l_ledger);
	lua_setfield(L, -2, "ledger");
	lua_pushcfunction(L, l_functions);
	lua_setfield(L, -2, "ledger_functions");
	pb_class(L, PB_LEDGER, methods, l_close);
	lua_pop(L, 1);
}

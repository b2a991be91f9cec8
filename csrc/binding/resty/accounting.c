/* Accounting: holds a struct pf_accounting and the Meter that it reads. Lua calls the core through LuaJIT's FFI, since OpenResty
 * runs LuaJIT. */
#include "core/resty/accounting.h"
#include "core/resty/waits.h"
#include "core/counts/meter.h"
#include "binding/counts/meter.h"
#include "binding/resty/watch.h"

#define PB_ACCOUNTING "perf.Accounting"

/* core.accounting(meter, phases, nested, after): an Accounting, and a pointer to its struct that is valid until it is closed; or
 * nil, message, code. See csrc/core/resty/accounting.h. */
static int l_accounting(lua_State *L)
{
	struct pf_meter *meter = luaL_checkudata(L, 1, PB_METER);
	lua_Integer phases = luaL_checkinteger(L, 2), nested = luaL_checkinteger(L, 3), after = luaL_checkinteger(L, 4);
	struct pb_accounting *a;
	int r;

	luaL_argcheck(L, phases >= 1 && phases <= 64, 2, "1 to 64 phases");
	luaL_argcheck(L, nested >= 1 && nested <= phases + 1, 3, "a phase, or the one after the last");
	luaL_argcheck(L, after >= 0 && after <= phases, 4, "a phase, or 0 for none");
	a = pb_new(L, sizeof *a, PB_ACCOUNTING);
	lua_createtable(L, 1, 0);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 1);
	pb_setuservalue(L, -2);
	r = pf_accounting_open(&a->accounting, meter, (uint32_t)phases, (uint32_t)nested, (uint32_t)after);
	if (r < 0)
		return pb_fail(L, r, "accounting");
	lua_pushlightuserdata(L, a->accounting);
	return 2;
}

#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(macro) TEXT_OF(macro)

/* core.accounting_functions(): the core's functions as light userdata, by name without the prefix; and a C declaration of the
 * struct's first members for FFI; the size of a histogram; declarations of waits.h: the types, and the struct's members; and
 * PF_ACCOUNTING_TYPES. */
static int l_functions(lua_State *L)
{
#define FUNCTION(name) (lua_pushlightuserdata(L, (void *)(uintptr_t)&pf_accounting_##name), lua_setfield(L, -2, #name))
	lua_newtable(L);
	FUNCTION(enter);
	FUNCTION(exit);
	FUNCTION(leave);
	FUNCTION(back);
	FUNCTION(waits);
	FUNCTION(admit);
	FUNCTION(main);
	FUNCTION(see);
	FUNCTION(learn);
	FUNCTION(end);
	FUNCTION(report);
	FUNCTION(route);
	FUNCTION(merge);
	FUNCTION(label);
	FUNCTION(settle);
	FUNCTION(ran);
	FUNCTION(histogram);
#undef FUNCTION
	lua_pushlightuserdata(L, (void *)(uintptr_t)&pf_waits_copy);
	lua_setfield(L, -2, "copy_waits");
	lua_pushliteral(L, "struct { " TEXT(PF_ACCOUNTING_STATE) " }");
	lua_pushinteger(L, PF_ACCOUNTING_BUCKETS);
	lua_pushliteral(L, TEXT(PF_WAITS_TYPES));
	lua_pushliteral(L, "struct { " TEXT(PF_WAITS_STATE) " }");
	lua_pushliteral(L, TEXT(PF_ACCOUNTING_TYPES));
	return 6;
}

/* core.stack_key(level, most): a number that identifies the lines of up to `most` Lua functions on the stack, from a level on. It
 * is computed from the names of their sources, since an address may be reused. Two stacks have the same number with a probability
 * of 2^-52. */
static int l_stack_key(lua_State *L)
{
	int level = (int)luaL_checkinteger(L, 1), most = (int)luaL_checkinteger(L, 2);
	uint64_t h = 0xcbf29ce484222325u;
	lua_Debug ar;

	for (int i = 0; i < most && lua_getstack(L, level + i, &ar); i++) {
		lua_getinfo(L, "Sl", &ar);
		for (const char *c = ar.short_src; *c; c++)
			h = (h ^ (unsigned char)*c) * 0x100000001b3u;
		h = (h ^ (uint32_t)ar.linedefined) * 0x100000001b3u;
		h = (h ^ (uint32_t)ar.currentline) * 0x100000001b3u;
	}
	return pb_number(L, (lua_Number)(h >> 12));
}

/* accounting:watch(ns, tells): start the thread that watches for turns longer than ns. true; or nil, message, code. See
 * pb_watch_start. */
static int l_watch(lua_State *L)
{
	struct pb_accounting *a = luaL_checkudata(L, 1, PB_ACCOUNTING);
	lua_Number limit = luaL_checknumber(L, 2);

	luaL_argcheck(L, a->accounting && !a->watch, 1, "closed, or watched already");
	luaL_argcheck(L, limit >= 1e6 && limit <= 1e12, 2, "1 ms to 1,000 s expected");
	return pb_watch_start(L, a, (uint64_t)limit, lua_toboolean(L, 3));
}

/* accounting:name(kind, number, text): the name of a "route" or a "phase", for the watcher's lines. */
static int l_name(lua_State *L)
{
	static const char *const kinds[] = {"route", "phase", NULL};
	struct pb_accounting *a = luaL_checkudata(L, 1, PB_ACCOUNTING);
	int kind = luaL_checkoption(L, 2, NULL, kinds);
	lua_Integer number = luaL_checkinteger(L, 3);
	const char *text = luaL_checkstring(L, 4);

	luaL_argcheck(L, number >= 0 && number < PF_WATCH_NAMES, 3, "0 to 65535");
	return a->watch ? pb_watch_name(L, a->watch, (enum pf_watch_kind)kind, (uint32_t)number, text) : 0;
}

/* accounting:blocked(): the next turn that was longer; see pb_watch_take. */
static int l_blocked(lua_State *L)
{
	struct pb_accounting *a = luaL_checkudata(L, 1, PB_ACCOUNTING);

	return a->watch ? pb_watch_take(L, a->watch) : 0;
}

static int l_close(lua_State *L)
{
	struct pb_accounting *a = luaL_checkudata(L, 1, PB_ACCOUNTING);

	pb_watch_stop(a);
	pf_accounting_close(a->accounting);
	a->accounting = NULL;
	return 0;
}

void pb_open_accounting(lua_State *L)
{
	static const luaL_Reg methods[] = {{"watch", l_watch}, {"name", l_name}, {"blocked", l_blocked}, {"close", l_close}, {NULL, NULL}};

	pb_set_function(L, "accounting", l_accounting);
	pb_set_function(L, "accounting_functions", l_functions);
	pb_set_function(L, "stack_key", l_stack_key);
	pb_new_class(L, PB_ACCOUNTING, methods, l_close);
}

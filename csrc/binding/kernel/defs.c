/* core.defs: the .def tables as Lua arrays of rows, in the kernel's order. Each row is a table keyed by column. */
#include <string.h>

#include "core/kernel/attr.h"
#include "binding/base/binding.h"

/* A new array under that name in the table at 1. */
static void begin(lua_State *L, const char *name)
{
	lua_settop(L, 1);
	lua_newtable(L);
	lua_pushvalue(L, -1);
	lua_setfield(L, 1, name);
}

static void row(lua_State *L, const char *sym, int64_t value, const char *name)
{
	lua_createtable(L, 0, 6);
	pb_set_text(L, "sym", sym);
	pb_set_i64(L, "value", value);
	pb_set_text(L, "name", name);
}

/* Set a string field, unless the string is empty. */
static void text(lua_State *L, const char *key, const char *s)
{
	if (*s)
		pb_set_text(L, key, s);
}

/* Append the table on top to the array below it. */
static void append(lua_State *L)
{
	lua_rawseti(L, -2, (int)pb_rawlen(L, -2) + 1);
}

static int l_defs(lua_State *L)
{
	static const char *const kinds[] = {"u64", "u32", "u16", "bit", "flags", "name", "path"};

	lua_settop(L, 0);
	lua_newtable(L);

	begin(L, "hardware");
#define X(sym, value, name, alias, desc) (row(L, #sym, value, name), text(L, "alias", alias), text(L, "description", desc), append(L));
#include "core/kernel/defs/hardware.def"
#undef X
	begin(L, "software");
#define X(sym, value, name, alias, unit, desc, in_kernel)                                                       \
	(row(L, #sym, value, name), text(L, "alias", alias), text(L, "unit", unit), text(L, "description", desc), \
	 text(L, "in_kernel", in_kernel), append(L));
#include "core/kernel/defs/software.def"
#undef X

	begin(L, "cache");
#define CACHE(sym, value, name, ops) (row(L, #sym, value, name), text(L, "ops", ops), append(L));
#include "core/kernel/defs/cache.def"
#undef CACHE
	begin(L, "cache_op");
#define OP(sym, value, name, plural) (row(L, #sym, value, name), text(L, "plural", plural), append(L));
#include "core/kernel/defs/cache.def"
#undef OP
	begin(L, "cache_result");
#define RESULT(sym, value, name) (row(L, #sym, value, name), append(L));
#include "core/kernel/defs/cache.def"
#undef RESULT

#define X(sym, value, name) (row(L, #sym, (lua_Integer)(value), name), append(L));
	begin(L, "types");
#include "core/kernel/defs/types.def"
	begin(L, "sample");
#include "core/kernel/defs/sample.def"
	begin(L, "branch");
#include "core/kernel/defs/branch.def"
	begin(L, "format");
#include "core/kernel/defs/format.def"
	begin(L, "record");
#include "core/kernel/defs/record.def"
	begin(L, "clockid");
#include "core/kernel/defs/clockid.def"
	begin(L, "bp");
#include "core/kernel/defs/bp.def"
	begin(L, "ioctl");
#include "core/kernel/defs/ioctl.def"
#undef X

	begin(L, "attr");
	for (const struct pf_field *f = pf_fields; f->name; f++) {
		lua_createtable(L, 0, 2);
		pb_set_text(L, "name", f->name);
		pb_set_text(L, "kind", kinds[f->kind]);
		append(L);
	}
	lua_settop(L, 1);
	return 1;
}

struct event {
	const char *name, *alias;
	uint32_t value;
	const char *unit;
};

static int is_named(const struct event *e, const char *name)
{
	return strcmp(e->name, name) == 0 || (*e->alias && strcmp(e->alias, name) == 0);
}

/* core.generic(name): the type and config of a hardware or software event, and its unit. Returns nothing for other names. Callers
 * that need a few events use it, since the tables of core.defs take time and memory. */
static int l_generic(lua_State *L)
{
	static const struct event hardware[] = {
#define X(sym, value, name, alias, desc) {name, alias, value, ""},
#include "core/kernel/defs/hardware.def"
#undef X
	}, software[] = {
#define X(sym, value, name, alias, unit, desc, in_kernel) {name, alias, value, unit},
#include "core/kernel/defs/software.def"
#undef X
	};
	size_t n;
	const char *name = luaL_checklstring(L, 1, &n);

	if (strlen(name) != n)
		return 0;
	for (size_t i = 0; i < sizeof hardware / sizeof *hardware; i++)
		if (is_named(&hardware[i], name))
			return lua_pushinteger(L, PF_TYPE_HARDWARE), lua_pushinteger(L, (lua_Integer)hardware[i].value), 2;
	for (size_t i = 0; i < sizeof software / sizeof *software; i++) {
		if (!is_named(&software[i], name))
			continue;
		lua_pushinteger(L, PF_TYPE_SOFTWARE);
		lua_pushinteger(L, (lua_Integer)software[i].value);
		if (!*software[i].unit)
			return 2;
		lua_pushstring(L, software[i].unit);
		return 3;
	}
	return 0;
}

/* core.defs(): builds the tables at the first call, so that loading the module is quick. */
void pb_open_defs(lua_State *L)
{
	pb_set_function(L, "generic", l_generic);
	pb_set_function(L, "defs", l_defs);
}

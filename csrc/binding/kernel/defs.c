/* core.defs: the .def tables as Lua arrays of rows, in the kernel's order. Each row is a table keyed by column. */
#include "core/kernel/attr.h"
#include "binding/kernel/row.h"

/* Set a string field, unless the string is empty. */
static void text_if_any(lua_State *L, const char *key, const char *s)
{
	if (*s)
		text(L, key, s);
}

static int l_defs(lua_State *L)
{
	lua_newtable(L);

	lua_newtable(L);
#define X(sym, value, name, alias, desc) (row(L, #sym, value, name), text_if_any(L, "alias", alias), text_if_any(L, "description", desc), append(L));
#include "core/kernel/defs/hardware.def"
#undef X
	lua_setfield(L, -2, "hardware");

	lua_newtable(L);
#define X(sym, value, name, alias, unit, desc) \
	(row(L, #sym, value, name), text_if_any(L, "alias", alias), text_if_any(L, "unit", unit), text_if_any(L, "description", desc), append(L));
#include "core/kernel/defs/software.def"
#undef X
	lua_setfield(L, -2, "software");

	lua_newtable(L);
#define CACHE(sym, value, name, ops) (row(L, #sym, value, name), text_if_any(L, "ops", ops), append(L));
#include "core/kernel/defs/cache.def"
#undef CACHE
	lua_setfield(L, -2, "cache");
	lua_newtable(L);
#define OP(sym, value, name, plural) (row(L, #sym, value, name), text_if_any(L, "plural", plural), append(L));
#include "core/kernel/defs/cache.def"
#undef OP
	lua_setfield(L, -2, "cache_op");
	lua_newtable(L);
#define RESULT(sym, value, name) (row(L, #sym, value, name), append(L));
#include "core/kernel/defs/cache.def"
#undef RESULT
	lua_setfield(L, -2, "cache_result");

#define X(sym, value, name) (row(L, #sym, (lua_Integer)(value), name), append(L));
	lua_newtable(L);
#include "core/kernel/defs/types.def"
	lua_setfield(L, -2, "types");
	lua_newtable(L);
#include "core/kernel/defs/sample.def"
	lua_setfield(L, -2, "sample");
	lua_newtable(L);
#include "core/kernel/defs/branch.def"
	lua_setfield(L, -2, "branch");
	lua_newtable(L);
#include "core/kernel/defs/format.def"
	lua_setfield(L, -2, "format");
	lua_newtable(L);
#include "core/kernel/defs/record.def"
	lua_setfield(L, -2, "record");
	lua_newtable(L);
#include "core/kernel/defs/clockid.def"
	lua_setfield(L, -2, "clockid");
	lua_newtable(L);
#include "core/kernel/defs/bp.def"
	lua_setfield(L, -2, "bp");
	lua_newtable(L);
#include "core/kernel/defs/ioctl.def"
	lua_setfield(L, -2, "ioctl");
#undef X

	lua_newtable(L);
	for (const struct pf_field *f = pf_fields; f->name; f++) {
		static const char *const kinds[] = {"u64", "u32", "u16", "bit", "flags", "name", "path"};

		lua_createtable(L, 0, 3);
		text_if_any(L, "name", f->name);
		text_if_any(L, "kind", kinds[f->kind]);
		append(L);
	}
	lua_setfield(L, -2, "attr");
	return 1;
}

/* core.defs(): the tables are built at the first call, to keep loading the module cheap. */
void pb_open_defs(lua_State *L)
{
	lua_pushcfunction(L, l_defs);
	lua_setfield(L, -2, "defs");
}

/* core.record_defs(): the tables by which records are decoded, as Lua arrays of {sym=, value=, name=} in the kernel's
 * order, for documentation and specs. Keys: mode misc context txn aux_flag ksymbol bpf_event namespace branch_type
 * branch_new_type branch_spec branch_priv data_src (rows have also field= and prefix=) regs (rows have also arch=). */
#include "core/record/record.h"
#include "binding/kernel/row.h"

static int l_record_defs(lua_State *L)
{
	lua_newtable(L);

#define X(sym, value, name) (row(L, #sym, value, name), append(L));
	lua_newtable(L);
#include "core/kernel/defs/mode.def"
	lua_setfield(L, -2, "mode");
	lua_newtable(L);
#include "core/kernel/defs/context.def"
	lua_setfield(L, -2, "context");
	lua_newtable(L);
#include "core/kernel/defs/txn.def"
	lua_setfield(L, -2, "txn");
	lua_newtable(L);
#include "core/kernel/defs/aux_flag.def"
	lua_setfield(L, -2, "aux_flag");
	lua_newtable(L);
#include "core/kernel/defs/ksymbol.def"
	lua_setfield(L, -2, "ksymbol");
	lua_newtable(L);
#include "core/kernel/defs/bpf_event.def"
	lua_setfield(L, -2, "bpf_event");
	lua_newtable(L);
#include "core/kernel/defs/namespace.def"
	lua_setfield(L, -2, "namespace");
#undef X

	lua_newtable(L);
#define X(sym, bit, name, mask) (row(L, #sym, bit, name), append(L));
#include "core/record/misc.def"
#undef X
	lua_setfield(L, -2, "misc");

	lua_newtable(L);
#define TYPE(sym, value, name) (row(L, #sym, value, name), append(L));
#include "core/kernel/defs/branch_entry.def"
#undef TYPE
	lua_setfield(L, -2, "branch_type");
	lua_newtable(L);
#define NEW_TYPE(sym, value, name) (row(L, #sym, value, name), append(L));
#include "core/kernel/defs/branch_entry.def"
#undef NEW_TYPE
	lua_setfield(L, -2, "branch_new_type");
	lua_newtable(L);
#define SPEC(sym, value, name) (row(L, #sym, value, name), append(L));
#include "core/kernel/defs/branch_entry.def"
#undef SPEC
	lua_setfield(L, -2, "branch_spec");
	lua_newtable(L);
#define PRIV(sym, value, name) (row(L, #sym, value, name), append(L));
#include "core/kernel/defs/branch_entry.def"
#undef PRIV
	lua_setfield(L, -2, "branch_priv");

	lua_newtable(L);
#define VALUE(field, prefix, sym, value, name) \
	(row(L, #sym, value, name), text(L, "field", #field), text(L, "prefix", #prefix), append(L));
#include "core/kernel/defs/data_src.def"
#undef VALUE
	lua_setfield(L, -2, "data_src");

	lua_newtable(L);
#define R(arch, sym, bit, name) (row(L, #sym, bit, name), text(L, "arch", #arch), append(L));
#include "core/kernel/defs/regs.def"
#undef R
	lua_setfield(L, -2, "regs");
	return 1;
}

void pb_open_record_defs(lua_State *L)
{
	lua_pushcfunction(L, l_record_defs);
	lua_setfield(L, -2, "record_defs");
}

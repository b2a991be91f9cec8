/* Layouts: the attrs of several events, and the ids in their records, to decode bytes that are not in a ring of this process:
 * from a file, another machine, a test.
 *
 *     local ls = core.layouts()
 *     local i = ls:add(attr, info)        ls:bind(id, i)
 *     local rec = ls:record(bytes)
 */
#include <errno.h>

#include "binding/record/record.h"
#include "binding/kernel/attr.h"

#define PB_LAYOUTS "perf.Layouts"

static struct pf_layouts *check_layouts(lua_State *L)
{
	return pb_check(L, 1, PB_LAYOUTS, "Layouts");
}

static int l_layouts(lua_State *L)
{
	pb_new(L, sizeof(struct pf_layouts), PB_LAYOUTS);
	lua_newtable(L);
	pb_setuservalue(L, -2);
	return 1;
}

/* ls:add(attr [, info [, machine]]): the index of that attr's layout. Its records have this info; machine is uname's name of the
 * architecture whose registers the samples have. */
static int l_add(lua_State *L)
{
	struct pf_layouts *ls = check_layouts(L);
	const char *machine = luaL_optstring(L, 4, NULL);
	const enum pf_arch arch = machine ? pf_arch_named(machine) : pf_arch_native();
	struct pf_attr attr;
	struct pf_layout l;
	int i;

	pb_check_attr(L, 2, &attr);
	lua_settop(L, 3);
	if (lua_isnil(L, 3)) {
		lua_newtable(L);
		lua_replace(L, 3);
	}
	luaL_checktype(L, 3, LUA_TTABLE);
	pf_layout_init(&l, &attr, arch);
	pb_getuservalue(L, 1);
	lua_pushvalue(L, 3);
	lua_rawseti(L, -2, (int)ls->n + 1);
	i = pf_layouts_add(ls, &l);
	if (i < 0)
		return pb_fail(L, i, "layouts");
	return pb_int(L, i + 1);
}

static int l_bind(lua_State *L)
{
	struct pf_layouts *ls = check_layouts(L);
	uint64_t id = pb_check_u64(L, 2, UINT64_MAX), i = pb_check_u64(L, 3, UINT32_MAX);

	luaL_argcheck(L, i >= 1 && i <= ls->n, 3, "no such layout");
	return pb_result(L, pf_layouts_bind(ls, id, (uint32_t)i - 1), "layouts");
}

/* ls:record(bytes [, swapped]): a Record of one whole record's bytes; swapped: of the other byte order. */
static int l_record(lua_State *L)
{
	const struct pf_layouts *ls = check_layouts(L);
	const int swapped = lua_toboolean(L, 3);
	size_t n;
	const unsigned char *bytes = (const unsigned char *)luaL_checklstring(L, 2, &n);
	const struct pf_layout *l = swapped ? pf_layouts_find_swapped(ls, bytes, n) : pf_layouts_find(ls, bytes, n);
	int info = 0, e;

	lua_settop(L, 3);
	if (l) {
		pb_getuservalue(L, 1);
		lua_rawgeti(L, -1, (int)l->index + 1);
		info = lua_gettop(L);
	}
	e = n < PF_RECORD_MAX_SIZE ? pb_push_record(L, l, bytes, n, swapped, info) : -EBADMSG;
	return e < 0 ? pb_bad_record(L, e, bytes, n) : 1;
}

/* core.trailer(attr): the bytes that sample_id_all adds to a record of that event. */
static int l_trailer(lua_State *L)
{
	struct pf_attr attr;
	struct pf_layout l;

	pb_check_attr(L, 1, &attr);
	pf_layout_init(&l, &attr, PF_ARCH_OTHER);
	return pb_int(L, l.trailer_size);
}

static int l_close(lua_State *L)
{
	pf_layouts_free(check_layouts(L));
	return 0;
}

void pb_open_layouts(lua_State *L)
{
	static const luaL_Reg methods[] = {
		{"add", l_add}, {"bind", l_bind}, {"record", l_record}, {"close", l_close}, {NULL, NULL}};

	pb_set_function(L, "layouts", l_layouts);
	pb_set_function(L, "trailer", l_trailer);
	pb_new_class(L, PB_LAYOUTS, methods, l_close);
}

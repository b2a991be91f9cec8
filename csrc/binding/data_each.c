/* data:each(type, field, ...): the fields of one type of records as plain values, without a Record for each: for files of
 * millions of samples.
 *
 *     for i, ip, time in data:each("sample", "ip", "time") do
 *
 * Records that tell about the file itself are told of on the way as ever; the others cost their parsing and no more. */
#include <errno.h>
#include <string.h>

#include "data.h"
#include "record.h"

enum { MAX_FIELDS = 32 };

struct each {
	uint32_t type;
	int n, field[MAX_FIELDS];
	uint64_t count;
};

/* Upvalues: the Data, its struct each, Record's metatable. */
static int l_step(lua_State *L)
{
	struct pb_data *p = lua_touserdata(L, lua_upvalueindex(1));
	struct each *e = lua_touserdata(L, lua_upvalueindex(2));
	struct pf_data_record r;
	struct pf_record rec;
	int n;

	lua_settop(L, 0);
	for (;;) {
		if (!p->open)
			return luaL_error(L, "the perf.data file is closed");
		n = pf_data_next(&p->d, &r);
		if (n == PF_DATA_NEEDS_INFLATE) {
			lua_pushvalue(L, lua_upvalueindex(1));
			n = pb_data_step(L, p, &r);
		}
		if (n == 0) {
			lua_pushnil(L);
			return 1;
		}
		if (n > 0 && r.type == e->type) {
			n = pf_record_parse(r.layout, r.bytes, r.size, &rec);
			if (n >= 0)
				break;
			pf_data_bad(&p->d, r.offset, "a record's parts do not fit into it");
		}
		if (n < 0 || pb_data_tells(r.type)) {
			lua_settop(L, 0);
			lua_pushvalue(L, lua_upvalueindex(1));
			if (n < 0)
				pb_data_failed(L, p, n);
			else if (pb_push_record_as(L, lua_upvalueindex(3), r.layout, r.bytes, r.size, 0) >= 0)
				pb_data_tell(L, p, r.type);
		}
		lua_settop(L, 0);
	}
	lua_settop(L, 0);
	pb_push_u64(L, ++e->count);
	for (int i = 0; i < e->n; i++)
		pb_push_plain_field(L, &rec, r.bytes, e->field[i]);
	return 1 + e->n;
}

static int l_each(lua_State *L)
{
	const struct pf_name *t = pf_names_record;
	const char *name;
	struct each *e;
	int n = lua_gettop(L) - 2;

	pb_check_data(L, 1);
	name = luaL_checkstring(L, 2);
	while (t->name && strcmp(t->name, name) != 0)
		t++;
	if (!t->name)
		return luaL_argerror(L, 2, lua_pushfstring(L, "no record of the kernel has the type '%s'", name));
	luaL_argcheck(L, n <= MAX_FIELDS, 3 + MAX_FIELDS, "too many fields");
	e = pb_newuserdata(L, sizeof *e);
	*e = (struct each){.type = t->value, .n = n};
	for (int i = 0; i < n; i++) {
		name = luaL_checkstring(L, 3 + i);
		e->field[i] = pb_plain_field(name);
		if (e->field[i] < 0)
			return luaL_argerror(L, 3 + i, lua_pushfstring(L, "field '%s' is not one number or string", name));
	}
	luaL_checkstack(L, n + 4, "fields");
	lua_pushvalue(L, 1);
	lua_insert(L, -2);
	luaL_getmetatable(L, PB_RECORD);
	lua_pushcclosure(L, l_step, 3);
	return 1;
}

void pb_open_data_each(lua_State *L)
{
	static const luaL_Reg methods[] = {{"each", l_each}, {NULL, NULL}};

	lua_getfield(L, -1, "Data");
	lua_getfield(L, -1, "__index");
	pb_register(L, methods);
	lua_pop(L, 2);
}

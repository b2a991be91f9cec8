/* source:each(type, field, ...): the fields of one type of records as plain values, without making a Record for each: for files
 * of millions of samples, and for rings that fill fast.
 *
 *     for i, ip, time in data:each("sample", "ip", "time") do
 *     for i, ip, time in ev:each("sample", "ip", "time") do      -- the records in the ring now
 *
 * Records of other types are skipped, damaged ones are left out. The steps of the loops are in event/ring_source.c and
 * data/source.c. */
#include "binding/record/source.h"

enum { FIELD_STACK = 8 }; /* stack slots for pushing one field */

int pb_each_fields(lua_State *L, struct pb_each *e, const struct pf_record *rec, const unsigned char *bytes)
{
	lua_settop(L, 0);
	luaL_checkstack(L, 1 + e->n + FIELD_STACK, "fields"); /* every call begins with LUA_MINSTACK slots only */
	pb_push_u64(L, ++e->count);
	for (int i = 0; i < e->n; i++)
		pb_push_plain_field(L, rec, bytes, e->field[i]);
	return 1 + e->n;
}

struct pb_each *pb_each_new(lua_State *L)
{
	const uint32_t type = pb_check_record_type(L, 2);
	const int n = lua_gettop(L) - 2;
	struct pb_each *e;

	luaL_argcheck(L, n <= PB_EACH_FIELDS, 3 + PB_EACH_FIELDS, "too many fields");
	e = pb_newplain(L, sizeof *e);
	*e = (struct pb_each){.type = type, .n = n};
	for (int i = 0; i < n; i++)
		e->field[i] = pb_check_field(L, 3 + i, luaL_checkstring(L, 3 + i), 0);
	lua_pushvalue(L, 1);
	lua_insert(L, -2);
	return e;
}

/* Records for LuaJIT's compiler.
 *
 * Reading a field of a userdata takes a call through the C API, which LuaJIT does not compile. So lua/perf/record/cdata.lua holds
 * a record as a cdata: its bytes, and a tag that tells their layout. The fields of a sample up to period are at the places that
 * its layout gives, and Lua reads them there; other fields, and those of other records, are parsed when they are used.
 *
 * A cdata keeps nothing alive, so the tag leads to the info of the event that wrote the record; pb_tag gives a layout its tag at
 * its first record. Damage is found before a record is taken. */
#include "binding/record/cdata.h"

#include <string.h>

#include "core/base/bytes.h"
#include "core/record/sample_order.h"

enum { TCDATA = 10 }; /* the result of lua_type on LuaJIT, which no header defines */

static int sound(const struct pf_layout *l, const unsigned char *bytes, size_t n)
{
	struct pf_record rec;

	if (!l->tail && pf_load32(bytes) == PF_RECORD_SAMPLE)
		return n % 8 == 0 && n >= sizeof(struct pf_header) + l->fixed_size;
	return pf_record_parse(l, bytes, n, &rec) >= 0;
}

int pb_pack(const struct pf_layout *l, const unsigned char *bytes, size_t n, struct pb_packed *into)
{
	if (!l || !sound(l, bytes, n))
		return PB_OTHERWISE;
	if (!l->tag)
		return PB_UNTAGGED;
	if (!into || into->room < n)
		return (int)n;
	into->tag = (int32_t)(2 * l->tag + (pf_load32(bytes) == PF_RECORD_SAMPLE));
	memcpy(into->bytes, bytes, n);
	return PB_TAKEN;
}

/* The fields that have the same position in every sample: {name = bytes from the record's start}. */
static void push_places(lua_State *L, uint64_t sample_type)
{
	lua_newtable(L);
	for (const struct pf_place *p = pf_places; p->name; p++)
		if (pf_place_at(p, sample_type))
			pb_set_int(L, p->name, pf_place_at(p, sample_type));
}

void pb_tag(lua_State *L, struct pf_layout *l)
{
	lua_pushlstring(L, (const char *)l, sizeof *l);
	push_places(L, l->sample_type);
	lua_call(L, 3, 1);
	l->tag = (uint32_t)lua_tointeger(L, -1);
}

int pb_unpack(lua_State *L, int i, int info, struct pb_record *out)
{
	const struct pb_packed *p = lua_type(L, i) == TCDATA ? lua_topointer(L, i) : NULL;
	const char *layout = lua_tostring(L, i + 1);
	struct pf_layout l;

	if (!p || !layout || pb_rawlen(L, i + 1) != sizeof l)
		return 0;
	memcpy(&l, layout, sizeof l);
	out->bytes = p->bytes;
	out->info = info;
	return pf_record_parse(&l, p->bytes, pf_load16(p->bytes + 6), &out->rec) >= 0;
}

/* core.packed_field(record, layout, info, i): field i of core.record_fields(). perf.record.cdata calls it only with its own
 * records. */
static int l_packed_field(lua_State *L)
{
	struct pb_record r;

	if (!pb_unpack(L, 1, 3, &r))
		return 0;
	return pb_push_field(L, &r, (int)luaL_checkinteger(L, 4) - 1);
}

void pb_open_packed(lua_State *L)
{
	pb_set_function(L, "packed_field", l_packed_field);
}

/* The features of a perf.data file and the perf tool's own records as Lua values, by the rows of core/data/schema.h. */
#include <string.h>

#include "binding/data/data.h"
#include "binding/kernel/attr.h"

void pb_push_ids(lua_State *L, const uint64_t *ids, uint64_t n)
{
	lua_createtable(L, n < 65536 ? (int)n : 0, 0);
	for (uint64_t i = 0; i < n; i++) {
		pb_push_u64(L, ids[i]);
		lua_rawseti(L, -2, (int)i + 1);
	}
}

const char *pb_user_type(uint32_t type)
{
	const struct pf_user_record *u = pf_user_record(type);

	return u ? u->name : NULL;
}

static void push_number(lua_State *L, const struct pf_row *row, uint64_t n)
{
	const struct pf_feature *f = pf_features;
	double d;

	switch (row->kind) {
	case PF_FLOAT:
		memcpy(&d, &n, sizeof d);
		lua_pushnumber(L, d);
		return;
	case PF_BOOL:
	case PF_FLAG:
		lua_pushboolean(L, n != 0);
		return;
	case PF_FEATURE:
		while (f->name && f->bit != n)
			f++;
		if (f->name)
			lua_pushstring(L, f->name);
		else
			pb_push_u64(L, n);
		return;
	case PF_SIGNED:
		pb_push_i64(L, (int64_t)n);
		return;
	default:
		pb_push_u64(L, n);
	}
}

/* Push the table under the row's name, or of the array's element that is being read; a new one if there is none. */
static void open_table(lua_State *L, const struct pf_reader *r, const struct pf_row *row)
{
	if (r->index)
		lua_rawgeti(L, -1, (int)r->index);
	else if (*row->name)
		lua_getfield(L, -1, row->name);
	else
		lua_pushnil(L);
	if (lua_istable(L, -1))
		return;
	lua_pop(L, 1);
	lua_newtable(L);
}

/* Sets the value on top of the stack in the table below it; a value without a name or an index stays there. */
static void store(lua_State *L, const struct pf_reader *r, const struct pf_row *row)
{
	if (row->kind == PF_MAP_VALUE)
		lua_rawset(L, -3);
	else if (row->kind == PF_MAP_KEY)
		return;
	else if (r->index)
		lua_rawseti(L, -2, (int)r->index);
	else if (*row->name)
		lua_setfield(L, -2, row->name);
}

static void emit(struct pf_reader *r, const struct pf_row *row, enum pf_part part, const void *p, uint64_t n)
{
	lua_State *L = r->user;

	switch (part) {
	case PF_PART_OPEN:
		open_table(L, r, row);
		return;
	case PF_PART_CLOSE:
		break;
	case PF_PART_NUMBER:
		push_number(L, row, n);
		break;
	case PF_PART_BYTES:
		if (row->kind == PF_ATTR)
			pb_push_attr(L, p);
		else if (row->kind == PF_BUILD_ID)
			pb_push_hex(L, p, (size_t)n);
		else
			lua_pushlstring(L, p, (size_t)n);
	}
	store(L, r, row);
}

int pb_push_feature(lua_State *L, const struct pf_feature *f, const void *bytes, size_t n, int swapped, uint64_t ncpus)
{
	struct pf_reader r = {.begin = bytes, .at = bytes, .swapped = swapped, .ncpus = ncpus, .emit = emit, .user = L};

	r.end = r.begin + n;
	luaL_checkstack(L, 12, "feature");
	pf_read(&r, f->rows);
	return !r.bad;
}

void pb_user_fields(lua_State *L, const unsigned char *record, size_t size)
{
	struct pf_reader r = {.begin = record, .at = record + sizeof(struct pf_header), .end = record + size, .emit = emit, .user = L};
	const struct pf_user_record *u;
	struct pf_header h;

	memcpy(&h, record, sizeof h);
	r.misc = h.misc;
	u = pf_user_record(h.type);
	luaL_checkstack(L, 12, "record");
	if (u)
		pf_read(&r, u->rows);
}

int pb_user_field(lua_State *L, const unsigned char *record, size_t size)
{
	lua_newtable(L);
	pb_user_fields(L, record, size);
	lua_pushvalue(L, 2);
	lua_rawget(L, -2);
	if (!lua_isnil(L, -1))
		return 1;
	lua_pop(L, 2);
	return 0;
}

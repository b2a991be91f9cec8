/* Record.
 *
 * A field is decoded when it is used: __index finds its row in fields.def by name, and returns nil for a field that this record
 * does not have. Nothing is cached, so a field that is a table is a new one each time. The methods that format are in Lua
 * (perf.record), loaded at their first use. */
#include "binding/record/record.h"

#include <string.h>

#include "core/base/bytes.h"

const struct pb_tool_records *pb_tool_records;

enum kind { KIND_PART, KIND_U64, KIND_U32, KIND_I64, KIND_I32, KIND_TEXT, KIND_HEX, KIND_BYTES, KIND_MISC, KIND_FLAG };

static const struct field {
	const char *name;
	enum kind kind;
	uint16_t offset;
	uint64_t mask;
	int (*part)(lua_State *L, const struct pb_record *r);
} fields[] = {
#define P(name, mask) {#name, KIND_PART, 0, mask, pb_part_##name},
#define F(name, kind, mask, member) {#name, KIND_##kind, offsetof(struct pf_record, member), mask, NULL},
#include "core/record/fields.def"
};

enum { NFIELDS = sizeof fields / sizeof *fields };

static const struct {
	const char *name;
	int bit;
} misc_bits[] = {
#define X(sym, bit, name, mask) {name, bit},
#include "core/record/misc.def"
#undef X
}, aux_bits[] = {
#define X(sym, bit, name) {name, bit},
#include "core/kernel/defs/aux_flag.def"
#undef X
};

static const char empty_info; /* registry key: the info of a Record without any */

static struct pb_record *check_record(lua_State *L, int i)
{
	return pb_check(L, i, PB_RECORD, "Record");
}

void pb_push_info(lua_State *L, const struct pb_record *r)
{
	if (r->info)
		lua_pushvalue(L, r->info);
	else
		pb_getuservalue(L, 1);
}

PF_INLINE int push_plain(lua_State *L, const struct pf_record *rec, const unsigned char *bytes, const struct field *f)
{
	const void *member = (const char *)rec + f->offset;
	const struct pf_view *v = member;

	if (f->mask && !(rec->has & f->mask))
		return pb_nil(L);
	if (f->kind == KIND_U64) /* most fields are of this kind, so it is tested first */
		return pb_u64(L, *(const uint64_t *)member);
	switch (f->kind) {
	case KIND_U64:
	case KIND_PART:
		return 0;
	case KIND_I64:
		return pb_i64(L, *(const int64_t *)member);
	case KIND_U32:
		return pb_u64(L, *(const uint32_t *)member);
	case KIND_I32:
		return pb_int(L, *(const int32_t *)member);
	case KIND_TEXT:
	case KIND_BYTES:
		return pb_bytes(L, bytes + v->at, v->n);
	case KIND_HEX:
		return pb_hex(L, bytes + v->at, v->n);
	case KIND_MISC:
		for (size_t i = 0; i < sizeof misc_bits / sizeof *misc_bits; i++)
			if (strcmp(misc_bits[i].name, f->name) == 0)
				lua_pushboolean(L, rec->misc >> misc_bits[i].bit & 1);
		return 1;
	case KIND_FLAG:
		for (size_t i = 0; i < sizeof aux_bits / sizeof *aux_bits; i++)
			if (strcmp(aux_bits[i].name, f->name) == 0)
				lua_pushboolean(L, rec->aux_flags >> aux_bits[i].bit & 1);
		return 1;
	}
	return 0;
}

PF_INLINE int push_field(lua_State *L, const struct pb_record *r, const struct field *f)
{
	if (f->kind != KIND_PART)
		return push_plain(L, &r->rec, r->bytes, f);
	if (!f->mask || (r->rec.has & f->mask))
		return f->part(L, r);
	return pb_nil(L);
}

int pb_push_field(lua_State *L, const struct pb_record *r, int i)
{
	luaL_argcheck(L, i >= 0 && i < NFIELDS, 4, "no such field");
	return push_field(L, r, &fields[i]);
}

static int fits(const struct field *f, int number)
{
	return f->kind != KIND_PART && (!number || f->kind <= KIND_I32);
}

int pb_check_field(lua_State *L, int arg, const char *name, int number)
{
	int i = 0, n = 0;

	while (i < NFIELDS && strcmp(fields[i].name, name) != 0)
		i++;
	if (i < NFIELDS && fits(&fields[i], number))
		return i;
	if (i < NFIELDS) {
		lua_pushstring(L, fields[i].kind == KIND_PART ? "; read it from a Record, as records() gives them"
				  : fields[i].kind >= KIND_MISC ? ", but a boolean" : ", but a string");
	} else {
		lua_newtable(L);
		for (i = 0; i < NFIELDS; i++)
			if (fits(&fields[i], number)) {
				lua_pushstring(L, fields[i].name);
				lua_rawseti(L, -2, ++n);
			}
		pb_push_hint(L, name);
	}
	return luaL_argerror(L, arg, lua_pushfstring(L, "field '%s' is not one number%s%s", name, number ? "" : " or string",
						     lua_tostring(L, -1)));
}

const char *pb_field_name(int field)
{
	return fields[field].name;
}

void pb_push_plain_field(lua_State *L, const struct pf_record *rec, const unsigned char *bytes, int field)
{
	push_plain(L, rec, bytes, &fields[field]);
}

static int is_half(int field)
{
	return fields[field].kind == KIND_U32 || fields[field].kind == KIND_I32;
}

int pb_field_value(const struct pf_record *rec, int field, uint64_t *out)
{
	const struct field *f = &fields[field];
	const void *member = (const char *)rec + f->offset;

	if (f->mask && !(rec->has & f->mask))
		return 0;
	*out = is_half(field) ? *(const uint32_t *)member : *(const uint64_t *)member;
	return 1;
}

void pb_push_number(lua_State *L, int field, uint64_t v)
{
	if (fields[field].kind == KIND_I64)
		pb_push_i64(L, (int64_t)v);
	else if (fields[field].kind == KIND_I32)
		lua_pushinteger(L, (int32_t)v);
	else
		pb_push_u64(L, v);
}

uint64_t pb_as_field(int field, uint64_t v)
{
	return is_half(field) ? (uint32_t)v : v;
}

uint32_t pb_check_record_type(lua_State *L, int i)
{
	const char *name = luaL_checkstring(L, i);
	const struct pf_name *t = pf_name_find(pf_names_record, name);

	if (t)
		return t->value;
	return (uint32_t)luaL_argerror(L, i, lua_pushfstring(L, "no record of the kernel has the type '%s'", name));
}

/* The rows of `fields` by the addresses of their names. Lua has only one copy of a short string, so __index can compare
 * addresses, which is quicker than to look a key up in a table. The names are keys of the table in l_index, so they live as long
 * as that one, and no other string gets their addresses. */
enum { SLOTS = 256 };
_Static_assert(SLOTS >= 3 * NFIELDS, "searches take long if few slots are free");

struct index {
	const void *metatable; /* Record's */
	struct slot {
		const char *name;
		const struct field *field;
	} slots[SLOTS];
};

/* The slot of that name, or a free one. */
static struct slot *slot_of(struct index *x, const char *name)
{
	size_t i = (uintptr_t)name / 8;

	for (i ^= i / SLOTS; x->slots[i % SLOTS].name && x->slots[i % SLOTS].name != name; i++)
		;
	return &x->slots[i % SLOTS];
}

/* Push a struct index. Record's metatable is on top of the stack. */
static void push_index(lua_State *L)
{
	struct index *x = memset(pb_newplain(L, sizeof *x), 0, sizeof *x);

	x->metatable = lua_topointer(L, -2);
	for (int i = 0; i < NFIELDS; i++) {
		const char *name = (lua_pushstring(L, fields[i].name), lua_tostring(L, -1));

		*slot_of(x, name) = (struct slot){name, &fields[i]};
		lua_pop(L, 1);
	}
}

/* Upvalues: struct index; a table from names to rows of `fields`, to methods, and to {function} for a field that Lua computes */
static int l_index(lua_State *L)
{
	struct index *x = lua_touserdata(L, lua_upvalueindex(1));
	const struct pb_record *r = lua_touserdata(L, 1);
	const struct field *f;

	if (!r || !lua_getmetatable(L, 1) || lua_topointer(L, -1) != x->metatable)
		r = check_record(L, 1);
	if (pf_record_is_user(r->rec.type) && pb_tool_records->field(L, r->bytes, r->rec.size))
		return 1;
	f = slot_of(x, lua_tostring(L, 2))->field;
	if (f)
		return push_field(L, r, f);
	lua_pushvalue(L, 2);
	lua_rawget(L, lua_upvalueindex(2));
	f = lua_touserdata(L, -1);
	if (f)
		return push_field(L, r, f);
	if (lua_istable(L, -1)) {
		lua_rawgeti(L, -1, 1);
		lua_pushvalue(L, 1);
		lua_call(L, 1, 1);
	}
	return 1;
}

/* The string that upvalue 1 names: a function of the module perf.record. */
static int l_in_lua(lua_State *L)
{
	pb_push_module(L, "perf.record");
	lua_pushvalue(L, lua_upvalueindex(1));
	lua_gettable(L, -2);
	lua_insert(L, 1);
	lua_pop(L, 1);
	lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
	return lua_gettop(L);
}

/*** A record that the kernel wrote into an event's ring, or perf into a file. It has the fields of its type under the kernel's
 * names (`rec.type`, `rec.ip` ...); a field that it does not have is nil. A field is made when it is used: read a field that is a
 * table once, not in a loop. It prints as one line, as perf script does. doc/record.md lists the fields of each type. Besides
 * those of perf_event_open(2) there are the fields below.
 * @classmod Record */

/*** The record as the kernel wrote it.
 * @treturn string */
static int l_bytes(lua_State *L)
{
	const struct pb_record *r = check_record(L, 1);

	return pb_bytes(L, r->bytes, r->rec.size);
}

/*** The event that wrote the record: {label=, attr=, ...}.
 * @treturn table `{label=, attr=, ...}` */
static int l_info(lua_State *L)
{
	check_record(L, 1);
	pb_getuservalue(L, 1);
	return 1;
}

/* core.earlier(a, b): whether Record a was written before b. A record without a time comes before all that have one. */
static int l_earlier(lua_State *L)
{
	const struct pf_record *a = &check_record(L, 1)->rec, *b = &check_record(L, 2)->rec;
	int ta = (a->has & PF_SAMPLE(TIME)) != 0, tb = (b->has & PF_SAMPLE(TIME)) != 0;

	return pb_bool(L, ta && tb ? a->time < b->time : ta < tb);
}

static struct pb_record *new_record(lua_State *L, size_t n, int metatable)
{
	struct pb_record *r = pb_newuserdata(L, sizeof *r + n);

	r->bytes = r->own;
	r->info = 0;
	r->room = (uint32_t)n;
	lua_pushvalue(L, metatable);
	lua_setmetatable(L, -2);
	return r;
}

/* Fill the Record on top of the stack; damaged bytes remove it. */
static int fill(lua_State *L, struct pb_record *r, const struct pf_layout *l, const unsigned char *bytes, size_t n,
		int swapped, int info)
{
	int e;

	memcpy(r->own, bytes, n);
	e = swapped ? pf_record_parse_swapped(l, r->own, n, &r->rec) : pf_record_parse(l, r->own, n, &r->rec);
	if (e < 0) {
		memset(&r->rec, 0, sizeof r->rec); /* a Record that is used again must not show half of this one */
		lua_pop(L, 1);
		return e;
	}
	if (info) {
		lua_pushvalue(L, info);
	} else {
		lua_pushlightuserdata(L, (void *)(uintptr_t)&empty_info);
		lua_rawget(L, LUA_REGISTRYINDEX);
	}
	pb_setuservalue(L, -2);
	return e;
}

int pb_push_record_as(lua_State *L, int metatable, const struct pf_layout *l, const unsigned char *bytes, size_t n, int info)
{
	return fill(L, new_record(L, n, metatable), l, bytes, n, 0, info);
}

int pb_push_record(lua_State *L, const struct pf_layout *l, const unsigned char *bytes, size_t n, int swapped, int info)
{
	struct pb_record *r;

	luaL_getmetatable(L, PB_RECORD);
	r = new_record(L, n, lua_gettop(L));
	lua_remove(L, -2);
	return fill(L, r, l, bytes, n, swapped, info);
}

int pb_refill_record(lua_State *L, struct pb_record *r, int at, int metatable, const struct pf_layout *l,
		     const unsigned char *bytes, size_t n, int info)
{
	if (!r || r->room < n)
		return pb_push_record_as(L, metatable, l, bytes, n, info);
	lua_pushvalue(L, at);
	return fill(L, r, l, bytes, n, 0, info);
}

int pb_bad_record(lua_State *L, int err, const unsigned char *bytes, size_t n)
{
	struct pf_header h = {0};
	const char *name;

	if (n >= sizeof h)
		memcpy(&h, bytes, sizeof h);
	name = pf_name_of(pf_names_record, h.type);
	return pb_fail(L, err, "record of type %u (%s), %u bytes: its inner lengths do not fit", h.type, name ? name : "unknown", h.size);
}

/* core.user_fields(rec): a table of the fields of a perf tool's record beyond the common ones; nil for the kernel's records. */
static int l_user_fields(lua_State *L)
{
	const struct pb_record *r = check_record(L, 1);

	if (!pf_record_is_user(r->rec.type))
		return 0;
	lua_newtable(L);
	pb_tool_records->fields(L, r->bytes, r->rec.size);
	return 1;
}

/* core.record_fields(): the names of all fields, in the order in which they print. */
static int l_record_fields(lua_State *L)
{
	lua_createtable(L, NFIELDS, 0);
	for (int i = 0; i < NFIELDS; i++) {
		lua_pushstring(L, fields[i].name);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

static void push_in_lua(lua_State *L, const char *name)
{
	lua_pushstring(L, name);
	lua_pushcclosure(L, l_in_lua, 1);
}

void pb_open_record(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"record_fields", l_record_fields}, {"user_fields", l_user_fields}, {"earlier", l_earlier}, {NULL, NULL}};
	static const luaL_Reg methods[] = {{"bytes", l_bytes}, {"info", l_info}, {NULL, NULL}};

	pb_register(L, functions);
	lua_pushlightuserdata(L, (void *)(uintptr_t)&empty_info);
	lua_newtable(L);
	lua_rawset(L, LUA_REGISTRYINDEX);

	luaL_newmetatable(L, PB_RECORD);
	lua_createtable(L, 0, NFIELDS + 8);
	pb_register(L, methods);
	push_in_lua(L, "totable");
	lua_setfield(L, -2, "totable");
	lua_createtable(L, 1, 0);
	push_in_lua(L, "raw_fields");
	lua_rawseti(L, -2, 1);
	lua_setfield(L, -2, "raw_fields");
	for (int i = 0; i < NFIELDS; i++)
		pb_set_pointer(L, fields[i].name, (void *)(uintptr_t)&fields[i]);
	lua_pushvalue(L, -2);
	push_index(L);
	lua_replace(L, -2);
	lua_insert(L, -2);
	lua_pushcclosure(L, l_index, 2);
	lua_setfield(L, -2, "__index");
	push_in_lua(L, "tostring");
	lua_setfield(L, -2, "__tostring");
	pb_set_text(L, "__name", "perf.Record");
	lua_setfield(L, -2, "Record");
}

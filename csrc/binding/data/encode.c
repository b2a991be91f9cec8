/* The features of a perf.data file from Lua values, by the rows of core/data/schema.h. A field that is missing or has a wrong type
 * raises an error that names the feature and the field.
 *
 * The bytes grow in a userdata at a fixed stack index, so that an error at any point frees them. */
#include <string.h>

#include "binding/data/data.h"
#include "binding/kernel/attr.h"

struct out {
	lua_State *L;
	const char *feature;
	int slot; /* stack index of the userdata */
	unsigned char *bytes;
	size_t n, room;
	uint32_t attr_size; /* the size of each attr of event_desc */
};

static _Noreturn void bad_value(struct out *o, const char *field, const char *expected)
{
	luaL_error(o->L, "feature '%s': %s: %s expected, got %s", o->feature, field, expected, luaL_typename(o->L, -1));
	__builtin_unreachable();
}

static void put(struct out *o, const void *p, size_t n)
{
	if (n > o->room - o->n) {
		size_t room = (o->n + n) * 2;
		unsigned char *bytes = pb_newuserdata(o->L, room);

		memcpy(bytes, o->bytes, o->n);
		lua_replace(o->L, o->slot);
		o->bytes = bytes;
		o->room = room;
	}
	memcpy(o->bytes + o->n, p, n);
	o->n += n;
}

/* The low bytes of v; width is 4 or 8. */
static void put_number(struct out *o, uint64_t v, unsigned width)
{
	const uint32_t low = (uint32_t)v;

	put(o, width == 4 ? (const void *)&low : &v, width);
}

static const char *to_text(struct out *o, const char *field, size_t *n)
{
	if (lua_type(o->L, -1) != LUA_TSTRING)
		bad_value(o, field, "string");
	return lua_tolstring(o->L, -1, n);
}

/* A string with its final zero is padded to a multiple of 64 bytes, as perf does. */
static void put_string(struct out *o, const char *field)
{
	static const char zeros[64];
	size_t n;
	const char *text = to_text(o, field, &n);

	if (n > 0xffff)
		n = 0xffff;
	put_number(o, (n + 64) & ~(size_t)63, 4);
	put(o, text, n);
	put(o, zeros, 64 - n % 64);
}

static uint64_t to_number(struct out *o, const char *field)
{
	uint64_t v = 0;
	int negative;

	if (!pb_to_u64(o->L, -1, &v, &negative))
		bad_value(o, field, "integer");
	return v;
}

static size_t check_array(struct out *o, const char *field)
{
	if (!lua_istable(o->L, -1))
		bad_value(o, field, "table");
	return pb_rawlen(o->L, -1);
}

static unsigned nibble(struct out *o, char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c < 'a' || c > 'f')
		bad_value(o, "build_id", "lower-case hexadecimal string");
	return (unsigned)(c - 'a') + 10;
}

/* A record of RECORDS: its header, pid, build id, the build id's size, and the file's name, padded to a multiple of 8. */
static void put_build_id(struct out *o)
{
	enum { PID = 8, ID = 12, ID_SIZE = 32, NAME = 36, LONGEST = 4096 };
	unsigned char record[NAME + 4 + LONGEST + 8] = {0};
	struct pf_header h = {PF_USER_HEADER_BUILD_ID, 0, 0};
	const char *text;
	int32_t pid;
	size_t n;

	lua_getfield(o->L, -1, "pid");
	pid = lua_isnil(o->L, -1) ? -1 : (int32_t)to_number(o, "pid");
	memcpy(record + PID, &pid, sizeof pid);
	lua_pop(o->L, 1);
	lua_getfield(o->L, -1, "build_id");
	text = lua_tolstring(o->L, -1, &n);
	if (!text || n > 40 || n % 2)
		bad_value(o, "build_id", "hexadecimal string of at most 20 bytes");
	for (size_t i = 0; i < n / 2; i++)
		record[ID + i] = (unsigned char)(nibble(o, text[2 * i]) << 4 | nibble(o, text[2 * i + 1]));
	record[ID_SIZE] = (unsigned char)(n / 2);
	lua_pop(o->L, 1);
	lua_getfield(o->L, -1, "misc");
	h.misc = lua_isnil(o->L, -1) ? 2 : (uint16_t)to_number(o, "misc"); /* user space */
	h.misc |= 1u << 15;                                                 /* the size is present */
	lua_pop(o->L, 1);
	lua_getfield(o->L, -1, "filename");
	text = to_text(o, "filename", &n);
	if (n > LONGEST)
		bad_value(o, "filename", "string of at most 4096 bytes");
	memcpy(record + NAME, text, n);
	h.size = (uint16_t)(NAME + 4 + ((n + 8) & ~(size_t)7));
	memcpy(record, &h, sizeof h);
	put(o, record, h.size);
	lua_pop(o->L, 1);
}

/* The smallest attr that holds all of the elements' attrs. */
static void put_attr_size(struct out *o)
{
	const size_t n = check_array(o, "value");
	struct pf_attr a;

	o->attr_size = PF_ATTR_SIZE_VER0;
	for (size_t i = 1; i <= n; i++) {
		lua_rawgeti(o->L, -1, (int)i);
		check_array(o, "element");
		lua_getfield(o->L, -1, "attr");
		check_array(o, "attr");
		pb_check_attr(o->L, lua_gettop(o->L), &a);
		if (pf_attr_size(&a) > o->attr_size)
			o->attr_size = pf_attr_size(&a);
		lua_pop(o->L, 2);
	}
	put(o, &o->attr_size, sizeof o->attr_size);
}

static void put_attr(struct out *o)
{
	struct pf_attr a;

	pb_check_attr(o->L, lua_gettop(o->L), &a);
	a.size = o->attr_size;
	put(o, &a, o->attr_size);
}

/* An array of bit numbers as a bitmap that ends with the highest of them. */
static void put_bitmap(struct out *o, const char *field)
{
	uint64_t top = 0, block, *words;
	const size_t n = check_array(o, field);

	for (size_t i = 1; i <= n; i++) {
		lua_rawgeti(o->L, -1, (int)i);
		block = to_number(o, field);
		if (block >= 1u << 24)
			bad_value(o, field, "number of a block of memory");
		if (block >= top)
			top = block + 1;
		lua_pop(o->L, 1);
	}
	put(o, &top, sizeof top);
	words = pb_newuserdata(o->L, (size_t)(top / 64 + 1) * sizeof *words);
	memset(words, 0, (size_t)(top / 64 + 1) * sizeof *words);
	for (size_t i = 1; i <= n; i++) {
		lua_rawgeti(o->L, -2, (int)i);
		block = to_number(o, field);
		words[block / 64] |= PF_BIT(block % 64);
		lua_pop(o->L, 1);
	}
	put(o, words, (size_t)((top + 63) / 64) * sizeof *words);
	lua_pop(o->L, 1);
}

/* Pushes the value of a row: the field of that name in the table on top of the stack, or, for a row without a name, that value
 * itself. */
static void get(struct out *o, const struct pf_row *row)
{
	if (*row->name)
		lua_getfield(o->L, -1, row->name);
	else
		lua_pushvalue(o->L, -1);
}

/* The list that follows a COUNT or OPTIONAL. */
static const struct pf_row *list_after(const struct pf_row *row)
{
	while (row->kind < PF_LIST)
		row++;
	return row;
}

static void put_count(struct out *o, const struct pf_row *row, const char *field)
{
	const struct pf_row *list = list_after(row);
	uint64_t n;

	get(o, list);
	n = check_array(o, *list->name ? list->name : field);
	if (list->kind == PF_MAP)
		for (n = 0, lua_pushnil(o->L); lua_next(o->L, -2); lua_pop(o->L, 1))
			n++;
	put_number(o, n, row->size);
	lua_pop(o->L, 1);
}

static void put_rows(struct out *o, const struct pf_row *row, const char *field);

static void put_list(struct out *o, const struct pf_row *row, const char *field)
{
	const size_t n = check_array(o, field);

	for (size_t i = 1; i <= n; i++) {
		lua_rawgeti(o->L, -1, (int)i);
		if (row->kind != PF_LIST)
			check_array(o, "element");
		if (row->kind == PF_RECORDS)
			put_build_id(o);
		else
			put_rows(o, row + 1, field);
		lua_pop(o->L, 1);
	}
}

/* {name = value, ...} */
static void put_map(struct out *o, const struct pf_row *row)
{
	for (lua_pushnil(o->L); lua_next(o->L, -2); lua_pop(o->L, 1)) {
		lua_pushvalue(o->L, -2); /* lua_next needs the key unchanged */
		put_string(o, row[1].name);
		lua_pop(o->L, 1);
		put_string(o, row[2].name);
	}
}

/* The value of a row, which is on top of the stack. */
static void put_value(struct out *o, const struct pf_row *row, const char *field)
{
	const char *text;
	size_t n;

	switch (row->kind) {
	case PF_UNSIGNED:
		put_number(o, to_number(o, field), row->size);
		return;
	case PF_PAD:
		put_number(o, row->from, row->size);
		return;
	case PF_STRING:
		put_string(o, field);
		return;
	case PF_BYTES:
		text = to_text(o, field, &n);
		put(o, text, n);
		return;
	case PF_TABLE:
		check_array(o, field);
		return;
	case PF_COUNT:
		put_count(o, row, field);
		return;
	case PF_LIST:
	case PF_TABLES:
	case PF_RECORDS:
		put_list(o, row, field);
		return;
	case PF_MAP:
		put_map(o, row);
		return;
	case PF_BITMAP:
		put_bitmap(o, field);
		return;
	case PF_ATTR_SIZE:
		put_attr_size(o);
		return;
	case PF_ATTR:
		put_attr(o);
		return;
	default: /* no bytes: FLAG, NCPUS and SAME_NCPUS */
		return;
	}
}

static void put_rows(struct out *o, const struct pf_row *row, const char *field)
{
	for (; row->kind != PF_END; row = pf_row_next(row)) {
		int ends;

		get(o, row->kind == PF_OPTIONAL ? list_after(row) : row);
		ends = row->kind == PF_OPTIONAL && lua_isnil(o->L, -1);
		put_value(o, row, *row->name ? row->name : field);
		lua_pop(o->L, 1);
		if (ends)
			return;
	}
}

void pb_encode_feature(lua_State *L, const struct pf_feature *f)
{
	struct out o = {.L = L, .feature = f->name, .slot = lua_gettop(L), .room = 256};

	if (f->bit == PF_FEATURE_COMPRESSED) /* the records that are written here are not compressed */
		luaL_error(L, "feature '%s' cannot be written", f->name);
	luaL_checkstack(L, 16, "feature");
	o.bytes = pb_newuserdata(L, o.room);
	lua_insert(L, o.slot); /* the buffer's index is below the value's */
	put_rows(&o, f->rows, "value");
	lua_pushlstring(L, (const char *)o.bytes, o.n);
	lua_replace(L, o.slot);
	lua_settop(L, o.slot);
}

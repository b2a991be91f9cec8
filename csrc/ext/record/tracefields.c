/* perf.ext.tracefields: the fields of a tracepoint's raw data.
 *
 * A format is parsed into an array of rows, by which records are decoded. A record may come from a file, so none of its values is
 * trusted. Its layout, by the format:
 *
 *    0  u16 common_type (the event's id)   2  u8 common_flags   3  u8 common_preempt_count   4  s32 common_pid
 *    8  the event's own fields, at the offsets of its format; dynamic arrays at the end
 */
#include "ext/record/tracefields.h"

#include <errno.h>
#include <string.h>

#define FORMAT "perf.tracefields.Format"

static struct px_format *to_format(lua_State *L, int i)
{
	return pb_check(L, i, FORMAT, "Format");
}

struct px_format *px_check_format(lua_State *L, int i)
{
	struct px_format *f = to_format(L, i);

	luaL_argcheck(L, f->text != NULL, i, "Format is closed");
	return f;
}

/*** A parsed format file, which `perf.tracefields.parse` returns.
 * @classmod TraceFormat */

/*** Free the format. Idempotent. */
static int l_close(lua_State *L)
{
	struct px_format *f = to_format(L, 1);

	px_free_text(f);
	f->text = NULL;
	f->nfields = 0;
	return 0;
}

/* A number of the table on top of the stack; and a string, which the table keeps. */
static uint32_t number(lua_State *L, const char *key)
{
	uint32_t v;

	lua_getfield(L, -1, key);
	v = (uint32_t)(lua_isboolean(L, -1) ? lua_toboolean(L, -1) : lua_tonumber(L, -1));
	lua_pop(L, 1);
	return v;
}

static const char *text(lua_State *L, const char *key)
{
	const char *s;

	lua_getfield(L, -1, key);
	s = luaL_checkstring(L, -1);
	lua_pop(L, 1);
	return s;
}

/* ext.format(parsed): the Format of what perf.record.trace_format has parsed, with the fields text, system, big_endian, long_size and
 * trusted. It keeps the table. */
static int l_format(lua_State *L)
{
	struct px_format *f;
	uint32_t n;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_getfield(L, 1, "fields");
	luaL_checktype(L, 2, LUA_TTABLE);
	n = (uint32_t)pb_rawlen(L, 2);
	f = pb_new(L, sizeof *f + n * sizeof *f->fields, FORMAT);
	lua_pushvalue(L, 1);
	pb_setuservalue(L, -2);
	for (uint32_t i = 0; i < n; i++) {
		lua_rawgeti(L, 2, (int)i + 1);
		f->fields[i] = (struct px_field){
			.name = text(L, "name"), .type = text(L, "type"), .offset = number(L, "offset"), .size = number(L, "size"),
			.elem = number(L, "elem"), .place = (enum px_place)number(L, "place"), .shape = (enum px_shape)number(L, "shape"),
			.is_signed = (int)number(L, "is_signed"), .is_address = (int)number(L, "is_address")};
		lua_pop(L, 1);
	}
	lua_pushvalue(L, 1);
	f->name = text(L, "name");
	f->system = text(L, "system");
	f->id = number(L, "id");
	f->big_endian = (int)number(L, "big_endian");
	f->long_size = number(L, "long_size");
	f->trusted = (int)number(L, "trusted");
	f->text = text(L, "text");
	f->nfields = n;
	lua_getfield(L, -1, "text");
	f->text_size = pb_rawlen(L, -1);
	lua_settop(L, 3);
	return 1;
}

/* --- decoding ------------------------------------------------------------------------------- */

uint64_t px_read_uint(const struct px_format *f, const unsigned char *p, uint32_t size)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < size; i++)
		v = v << 8 | p[f->big_endian ? i : size - 1 - i];
	return v;
}

int px_locate(const struct px_format *f, const struct px_field *field, const unsigned char *raw, size_t n, uint32_t *offset,
	      uint32_t *size)
{
	uint64_t at = field->offset, length = field->size, v;

	if (at + length > n)
		return -1;
	if (field->place != PX_HERE) {
		v = px_read_uint(f, raw + at, field->size);
		if (field->place == PX_STR_LOC) {
			at = v;
			length = at < n ? strnlen((const char *)raw + at, n - (size_t)at) : 0;
		} else {
			length = v >> 16;
			at = (v & 0xffff) + (field->place == PX_REL_LOC ? at + field->size : 0);
		}
		/* The offset of an empty array can have any value. */
		if (length && at + length > n)
			return -1;
		if (!length)
			at = 0;
	}
	*offset = (uint32_t)at;
	*size = (uint32_t)length;
	return 0;
}

static void push_int(lua_State *L, const struct px_format *f, const struct px_field *field, const unsigned char *p)
{
	uint64_t v = px_read_uint(f, p, field->elem);
	unsigned shift = 64 - field->elem * 8;

	if (field->is_signed || field->is_address)
		pb_push_i64(L, (int64_t)(v << shift) >> shift);
	else
		pb_push_u64(L, v);
}

static void push_field(lua_State *L, const struct px_format *f, const struct px_field *field, const unsigned char *p,
		       uint32_t size)
{
	switch (field->shape) {
	case PX_INT:
		push_int(L, f, field, p);
		return;
	case PX_INTS:
		lua_createtable(L, (int)(size / field->elem), 0);
		for (uint32_t i = 0; i < size / field->elem; i++) {
			push_int(L, f, field, p + i * field->elem);
			lua_rawseti(L, -2, (int)i + 1);
		}
		return;
	case PX_TEXT:
		lua_pushlstring(L, (const char *)p, strnlen((const char *)p, size));
		return;
	case PX_BYTES:
		lua_pushlstring(L, (const char *)p, size);
		return;
	}
}

/*** The fields of raw data by name.
 * @tparam string raw the bytes
 * @treturn table `{name = value}` @fails "EBADMSG" if raw does not contain all of a field */
static int l_decode(lua_State *L)
{
	struct px_format *f = px_check_format(L, 1);
	size_t n;
	const unsigned char *raw = (const unsigned char *)luaL_checklstring(L, 2, &n);

	lua_createtable(L, 0, (int)f->nfields);
	for (uint32_t i = 0; i < f->nfields; i++) {
		const struct px_field *field = &f->fields[i];
		uint32_t offset, size;

		if (px_locate(f, field, raw, n, &offset, &size) < 0)
			return pb_refuse(L, -EBADMSG, "%s: field '%s' is not within the %zu bytes of the record", f->name,
				       field->name, n);
		push_field(L, f, field, raw + offset, size);
		lua_setfield(L, -2, field->name);
	}
	return 1;
}

/*** The fields, in the format's order.
 * @treturn {table,...} `{name=, type=, offset=, size=, signed=, dynamic=, common=}`, offset and size in bytes */
static int l_fields(lua_State *L)
{
	struct px_format *f = px_check_format(L, 1);

	lua_createtable(L, (int)f->nfields, 0);
	for (uint32_t i = 0; i < f->nfields; i++) {
		const struct px_field *field = &f->fields[i];

		lua_createtable(L, 0, 7);
		pb_set_text(L, "name", field->name);
		pb_set_text(L, "type", field->type);
		pb_set_u64(L, "offset", field->offset);
		pb_set_u64(L, "size", field->size);
		pb_set_bool(L, "signed", field->is_signed);
		if (field->place != PX_HERE)
			pb_set_bool(L, "dynamic", 1);
		if (strncmp(field->name, "common_", 7) == 0)
			pb_set_bool(L, "common", 1);
		lua_rawseti(L, -2, (int)i + 1);
	}
	return 1;
}

/*** The tracepoint's name, its group and its id.
 * @treturn string its name
 * @treturn string its group
 * @treturn integer its id */
static int l_name(lua_State *L)
{
	struct px_format *f = px_check_format(L, 1);

	lua_pushstring(L, f->name);
	lua_pushstring(L, f->system);
	pb_push_u64(L, f->id);
	return 3;
}

PX_EXPORT int luaopen_perf_ext_tracefields(lua_State *L);
int luaopen_perf_ext_tracefields(lua_State *L)
{
	static const luaL_Reg methods[] = {{"decode", l_decode}, {"fields", l_fields}, {"name", l_name},
					   {"text", px_format_text}, {NULL, NULL}};

	px_open(L);
	px_class(L, FORMAT, methods, l_close);
	lua_newtable(L);
	pb_set_function(L, "format", l_format);
	pb_set_int(L, "long_size", sizeof(long));
	luaL_getmetatable(L, FORMAT);
	lua_setfield(L, -2, "Format");
	return 1;
}

/* Conversion between a Lua table of attr fields and struct pf_attr, by the field table of core/kernel/attr.c. */
#include <string.h>

#include "binding/kernel/attr.h"

/* The number of a bit that is newer than the table, in the form that push_names writes ("bit57"), or -1. */
static int64_t unnamed_bit(const char *name)
{
	int64_t bit = 0;
	const char *p = name + 3;

	if (strncmp(name, "bit", 3) != 0 || *p == '\0')
		return -1;
	for (; *p >= '0' && *p <= '9' && bit < 64; p++)
		bit = bit * 10 + (*p - '0');
	return *p == '\0' && bit < 64 ? bit : -1;
}

static _Noreturn void bad_field(lua_State *L, int arg, const struct pf_field *f, const char *why)
{
	luaL_argerror(L, arg, lua_pushfstring(L, "field '%s': %s", f->name, why));
	__builtin_unreachable();
}

/* Push the array of the names in a table of rows that ends with a row without a name. */
#define PUSH_NAMES(L, row)                                 \
	do {                                               \
		int n_ = 0;                                \
		lua_newtable(L);                           \
		for (; (row)->name; (row)++) {             \
			lua_pushstring(L, (row)->name);    \
			lua_rawseti(L, -2, ++n_);          \
		}                                          \
	} while (0)

static _Noreturn void unknown_name(lua_State *L, int arg, const struct pf_field *f, const char *name)
{
	const struct pf_name *names = f->names;

	PUSH_NAMES(L, names);
	pb_push_hint(L, name);
	bad_field(L, arg, f, lua_pushfstring(L, "unknown name '%s'%s", name, lua_tostring(L, -1)));
}

/* Refuse {ip = true} and {"ip", nil, "tid"}, since only a part of them would be read: every key of the table on top must be an
 * index within its length. */
static void check_array(lua_State *L, int arg, const struct pf_field *f)
{
	lua_Number n = (lua_Number)pb_rawlen(L, -1);

	lua_pushnil(L);
	while (lua_next(L, -2)) {
		lua_pop(L, 1);
		if (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) > n)
			bad_field(L, arg, f, lua_pushfstring(L, "nil at [%d]", (int)n + 1));
		if (lua_type(L, -1) != LUA_TNUMBER || lua_tonumber(L, -1) < 1) {
			lua_pushvalue(L, -1);
			bad_field(L, arg, f, lua_pushfstring(L, "array of names expected, got the key '%s'",
							     lua_tostring(L, -1) ? lua_tostring(L, -1) : luaL_typename(L, -1)));
		}
	}
}

/* The value on top of the stack: a number, one name for NAME, or an array of names for FLAGS. */
static uint64_t named_value(lua_State *L, int arg, const struct pf_field *f)
{
	const struct pf_name *known;
	uint64_t mask = 0;
	int64_t v;

	if (f->kind == PF_FIELD_NAME) {
		known = pf_name_find(f->names, lua_tostring(L, -1));
		if (known)
			return known->value;
		unknown_name(L, arg, f, lua_tostring(L, -1));
	}
	check_array(L, arg, f);
	for (int i = 1, n = (int)pb_rawlen(L, -1); i <= n; i++) {
		lua_rawgeti(L, -1, i);
		if (lua_type(L, -1) != LUA_TSTRING)
			bad_field(L, arg, f, lua_pushfstring(L, "name expected at [%d], got %s", i, luaL_typename(L, -1)));
		known = pf_name_find(f->names, lua_tostring(L, -1));
		v = known ? (int64_t)known->value : unnamed_bit(lua_tostring(L, -1));
		if (v < 0)
			unknown_name(L, arg, f, lua_tostring(L, -1));
		mask |= PF_BIT(v);
		lua_pop(L, 1);
	}
	return mask;
}

static uint64_t field_value(lua_State *L, int arg, const struct pf_field *f)
{
	uint64_t v = 0;
	int negative = 0, type = lua_type(L, -1);

	if (f->kind == PF_FIELD_PATH) {
		if (type != LUA_TSTRING)
			bad_field(L, arg, f, lua_pushfstring(L, "string expected, got %s", lua_typename(L, type)));
		if (strlen(lua_tostring(L, -1)) != pb_rawlen(L, -1))
			bad_field(L, arg, f, "string contains a zero byte");
		return (uint64_t)(uintptr_t)lua_tostring(L, -1);
	}
	if (f->kind == PF_FIELD_BIT && type == LUA_TBOOLEAN)
		return (uint64_t)lua_toboolean(L, -1);
	if (f->kind == PF_FIELD_FLAGS && type == LUA_TTABLE)
		return named_value(L, arg, f);
	if (f->kind == PF_FIELD_NAME && type == LUA_TSTRING && !pb_to_u64(L, -1, &v, &negative))
		return named_value(L, arg, f);
	if (!pb_to_u64(L, -1, &v, &negative))
		bad_field(L, arg, f, lua_pushfstring(L, "%s expected, got %s",
						     f->kind == PF_FIELD_BIT     ? "boolean"
						     : f->kind == PF_FIELD_FLAGS ? "integer or array of names"
						     : f->kind == PF_FIELD_NAME  ? "integer or name"
										 : "integer",
						     lua_typename(L, type)));
	if (negative && f->is_signed && (int64_t)v >= INT32_MIN)
		return v;
	/* Addresses and configs may be negative: two's complement. A sample_ field is an amount and may not be. */
	if ((negative && (f->max != UINT64_MAX || strncmp(f->name, "sample_", 7) == 0)) || (!negative && v > f->max))
		bad_field(L, arg, f, "out of range");
	return v;
}

void pb_check_attr(lua_State *L, int i, struct pf_attr *out)
{
	memset(out, 0, sizeof *out);
	luaL_checktype(L, i, LUA_TTABLE);
	lua_pushnil(L);
	while (lua_next(L, i)) {
		const struct pf_field *f = lua_type(L, -2) == LUA_TSTRING ? pf_field_find(lua_tostring(L, -2)) : NULL;

		if (!f) {
			const struct pf_field *fields = pf_fields;
			const char *name;

			lua_pushvalue(L, -2);
			name = lua_tostring(L, -1) ? lua_tostring(L, -1) : luaL_typename(L, -1);
			PUSH_NAMES(L, fields);
			pb_push_hint(L, name);
			luaL_argerror(L, i, lua_pushfstring(L, "unknown attr field '%s'%s", name, lua_tostring(L, -1)));
			return; /* cppcheck does not know across functions that luaL_argerror raises */
		}
		pf_field_set(f, out, field_value(L, i, f));
		lua_pop(L, 1);
	}
}

static void push_names(lua_State *L, const struct pf_name *names, uint64_t mask)
{
	int n = 0;

	lua_newtable(L);
	for (; names->name; names++)
		if (mask & PF_BIT(names->value)) {
			mask &= ~PF_BIT(names->value);
			lua_pushstring(L, names->name);
			lua_rawseti(L, -2, ++n);
		}
	for (int bit = 0; bit < 64; bit++) /* bits newer than the table */
		if (mask & PF_BIT(bit)) {
			lua_pushfstring(L, "bit%d", bit);
			lua_rawseti(L, -2, ++n);
		}
}

/* Whether the name is that of the other member of a union, which does not apply to this attr. */
static int is_other_member(const struct pf_attr *a, const char *name)
{
	const int bp = a->type == PF_TYPE_BREAKPOINT;
	const struct {
		const char *name;
		int hidden;
	} members[] = {{"sample_period", a->freq}, {"sample_freq", !a->freq}, {"wakeup_events", a->watermark},
		       {"wakeup_watermark", !a->watermark}, {"bp_addr", !bp}, {"bp_len", !bp}, {"config1", bp}, {"config2", bp},
		       /* pointers, perhaps of another process: shown as config1 and config2 */
		       {"kprobe_func", 1}, {"uprobe_path", 1}, {"kprobe_addr", 1}, {"probe_offset", 1}};

	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (strcmp(name, members[i].name) == 0)
			return members[i].hidden;
	return 0;
}

void pb_push_attr(lua_State *L, const struct pf_attr *a)
{
	lua_newtable(L);
	for (const struct pf_field *f = pf_fields; f->name; f++) {
		uint64_t v = f->get(a);
		const char *name = f->kind == PF_FIELD_NAME ? pf_name_of(f->names, (uint32_t)v) : NULL;

		if ((v == 0 && f->kind != PF_FIELD_NAME) || is_other_member(a, f->name))
			continue;
		if (f->kind == PF_FIELD_NAME && strcmp(f->name, "clockid") == 0 && !a->use_clockid)
			continue;
		if (f->kind == PF_FIELD_FLAGS)
			push_names(L, f->names, v);
		else if (f->kind == PF_FIELD_BIT && f->max == 1)
			lua_pushboolean(L, 1);
		else if (name)
			lua_pushstring(L, name);
		else
			pb_push_i64(L, (int64_t)v);
		lua_setfield(L, -2, f->name);
	}
}

/* core.pack(fields): the bytes of struct perf_event_attr, its size field set. */
static int l_pack(lua_State *L)
{
	struct pf_attr a;

	pb_check_attr(L, 1, &a);
	a.size = pf_attr_size(&a);
	return pb_bytes(L, &a, sizeof a);
}

/* core.unpack(bytes): a table of the fields that are set. */
static int l_unpack(lua_State *L)
{
	struct pf_attr a;
	size_t n;
	const char *bytes = luaL_checklstring(L, 1, &n);

	memset(&a, 0, sizeof a);
	memcpy(&a, bytes, n < sizeof a ? n : sizeof a);
	pb_push_attr(L, &a);
	return 1;
}

void pb_open_attr(lua_State *L)
{
	static const luaL_Reg functions[] = {{"pack", l_pack}, {"unpack", l_unpack}, {NULL, NULL}};
	pb_register(L, functions);
}

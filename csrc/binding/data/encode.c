/* The features of a perf.data file from Lua values: for each shape of core/data_feature.h that a writer can use, the reverse
 * of data/feature.c. A field that is missing or of a wrong type raises, with the feature's and the field's name.
 *
 * The bytes grow in a userdata at a stack index of their own, so that an error at any point frees them. */
#include <string.h>

#include "core/data/format.h"
#include "binding/data/data.h"

struct out {
	lua_State *L;
	const char *feature;
	int slot; /* stack index of the userdata */
	unsigned char *bytes;
	size_t n, room;
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

static void put32(struct out *o, uint32_t v)
{
	put(o, &v, sizeof v);
}

static void put64(struct out *o, uint64_t v)
{
	put(o, &v, sizeof v);
}

static const char *to_text(struct out *o, const char *field, size_t *n)
{
	if (lua_type(o->L, -1) != LUA_TSTRING)
		bad_value(o, field, "string");
	return lua_tolstring(o->L, -1, n);
}

/* A string is padded to 64 bytes, as perf does, its final zero included. */
static void put_string(struct out *o, const char *field)
{
	static const char zeros[64];
	size_t n;
	const char *text = to_text(o, field, &n);

	if (n > 0xffff)
		n = 0xffff;
	put32(o, (uint32_t)((n + 64) & ~(size_t)63));
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

/* Fields of the table on top of the stack. */
static void field32(struct out *o, const char *field)
{
	lua_getfield(o->L, -1, field);
	put32(o, (uint32_t)to_number(o, field));
	lua_pop(o->L, 1);
}

static void field64(struct out *o, const char *field)
{
	lua_getfield(o->L, -1, field);
	put64(o, to_number(o, field));
	lua_pop(o->L, 1);
}

static void field_string(struct out *o, const char *field)
{
	lua_getfield(o->L, -1, field);
	put_string(o, field);
	lua_pop(o->L, 1);
}

static size_t check_array(struct out *o, const char *field)
{
	if (!lua_istable(o->L, -1))
		bad_value(o, field, "table");
	return pb_rawlen(o->L, -1);
}

static void put_strings(struct out *o, const char *field)
{
	size_t n = check_array(o, field);

	put32(o, (uint32_t)n);
	for (size_t i = 1; i <= n; i++) {
		lua_rawgeti(o->L, -1, (int)i);
		put_string(o, field);
		lua_pop(o->L, 1);
	}
}

static void each(struct out *o, void (*element)(struct out *o))
{
	size_t n = check_array(o, "value");

	for (size_t i = 1; i <= n; i++) {
		lua_rawgeti(o->L, -1, (int)i);
		check_array(o, "element");
		element(o);
		lua_pop(o->L, 1);
	}
}

static unsigned nibble(struct out *o, char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c < 'a' || c > 'f')
		bad_value(o, "build_id", "lower-case hexadecimal string");
	return (unsigned)(c - 'a') + 10;
}

static void put_build_id(struct out *o)
{
	static const char zeros[8];
	unsigned char body[28] = {0};
	struct pf_header h = {PF_USER_HEADER_BUILD_ID, 0, 0};
	const char *text;
	int32_t pid;
	size_t n;

	lua_getfield(o->L, -1, "pid");
	pid = lua_isnil(o->L, -1) ? -1 : (int32_t)to_number(o, "pid");
	lua_pop(o->L, 1);
	memcpy(body, &pid, sizeof pid);
	lua_getfield(o->L, -1, "build_id");
	text = lua_tolstring(o->L, -1, &n);
	if (!text || n > 40 || n % 2)
		bad_value(o, "build_id", "hexadecimal string of at most 20 bytes");
	for (size_t i = 0; i < n / 2; i++)
		body[4 + i] = (unsigned char)(nibble(o, text[2 * i]) << 4 | nibble(o, text[2 * i + 1]));
	body[24] = (unsigned char)(n / 2);
	lua_pop(o->L, 1);
	lua_getfield(o->L, -1, "misc");
	h.misc = lua_isnil(o->L, -1) ? 2 : (uint16_t)to_number(o, "misc"); /* user space */
	h.misc |= 1u << 15;                                                 /* the size is there */
	lua_pop(o->L, 1);
	lua_getfield(o->L, -1, "filename");
	text = to_text(o, "filename", &n);
	if (n > 4096)
		bad_value(o, "filename", "string of at most 4096 bytes");
	h.size = (uint16_t)(sizeof h + sizeof body + ((n + 8) & ~(size_t)7));
	/* the body ends 4 bytes off a multiple of 8, the name's padding makes up for it */
	h.size = (uint16_t)((h.size + 7) & ~7);
	put(o, &h, sizeof h);
	put(o, body, sizeof body);
	put(o, text, n);
	for (size_t left = h.size - sizeof h - sizeof body - n; left > 0;) {
		size_t part = left < sizeof zeros ? left : sizeof zeros;

		put(o, zeros, part);
		left -= part;
	}
	lua_pop(o->L, 1);
}

static void put_event_desc(struct out *o)
{
	size_t n = check_array(o, "value");
	uint32_t size = PF_ATTR_SIZE_VER0;
	struct pf_attr a;

	for (size_t i = 1; i <= n; i++) { /* one size for all */
		lua_rawgeti(o->L, -1, (int)i);
		check_array(o, "element");
		lua_getfield(o->L, -1, "attr");
		pb_check_attr(o->L, lua_gettop(o->L), &a);
		if (pf_attr_size(&a) > size)
			size = pf_attr_size(&a);
		lua_pop(o->L, 2);
	}
	put32(o, (uint32_t)n);
	put32(o, size);
	for (size_t i = 1; i <= n; i++) {
		size_t nids;

		lua_rawgeti(o->L, -1, (int)i);
		lua_getfield(o->L, -1, "attr");
		pb_check_attr(o->L, lua_gettop(o->L), &a);
		a.size = size;
		put(o, &a, size);
		lua_pop(o->L, 1);
		lua_getfield(o->L, -1, "ids");
		nids = check_array(o, "ids");
		put32(o, (uint32_t)nids);
		lua_getfield(o->L, -2, "name");
		put_string(o, "name");
		lua_pop(o->L, 1);
		for (size_t k = 1; k <= nids; k++) {
			lua_rawgeti(o->L, -1, (int)k);
			put64(o, to_number(o, "ids"));
			lua_pop(o->L, 1);
		}
		lua_pop(o->L, 2);
	}
}

static void put_cpu(struct out *o)
{
	field32(o, "core_id");
	field32(o, "socket_id");
}

static void put_die(struct out *o)
{
	field32(o, "die_id");
}

static void put_cpu_topology(struct out *o)
{
	check_array(o, "value");
	lua_getfield(o->L, -1, "cores");
	put_strings(o, "cores");
	lua_getfield(o->L, -2, "threads");
	put_strings(o, "threads");
	lua_getfield(o->L, -3, "cpus");
	each(o, put_cpu);
	lua_getfield(o->L, -4, "dies");
	if (!lua_isnil(o->L, -1)) {
		put_strings(o, "dies");
		lua_pushvalue(o->L, -2);
		each(o, put_die);
		lua_pop(o->L, 1);
	}
	lua_pop(o->L, 4);
}

static void put_numa_node(struct out *o)
{
	field32(o, "node");
	field64(o, "mem_total");
	field64(o, "mem_free");
	field_string(o, "cpus");
}

static void put_pmu(struct out *o)
{
	field32(o, "type");
	field_string(o, "name");
}

static void put_group(struct out *o)
{
	field_string(o, "name");
	field32(o, "leader");
	field32(o, "members");
}

static void put_hybrid(struct out *o)
{
	field_string(o, "pmu");
	field_string(o, "cpus");
}

static void put_auxtrace(struct out *o)
{
	field64(o, "offset");
	field64(o, "size");
}

static void put_cache(struct out *o)
{
	field32(o, "level");
	field32(o, "line_size");
	field32(o, "sets");
	field32(o, "ways");
	field_string(o, "type");
	field_string(o, "size");
	field_string(o, "cpus");
}

/* {block, ...} as a bitmap, whose last bit is the last block's. */
static void put_mem_node(struct out *o)
{
	uint64_t top = 0, *words;
	size_t n;

	field64(o, "node");
	field64(o, "size");
	lua_getfield(o->L, -1, "blocks");
	n = check_array(o, "blocks");
	for (size_t i = 1; i <= n; i++) {
		uint64_t block;

		lua_rawgeti(o->L, -1, (int)i);
		block = to_number(o, "blocks");
		if (block >= 1u << 24)
			bad_value(o, "blocks", "number of a block of memory");
		if (block >= top)
			top = block + 1;
		lua_pop(o->L, 1);
	}
	put64(o, top);
	words = pb_newuserdata(o->L, (size_t)(top / 64 + 1) * sizeof *words);
	memset(words, 0, (size_t)(top / 64 + 1) * sizeof *words);
	for (size_t i = 1; i <= n; i++) {
		uint64_t block;

		lua_rawgeti(o->L, -2, (int)i);
		block = to_number(o, "blocks");
		words[block / 64] |= PF_BIT(block % 64);
		lua_pop(o->L, 1);
	}
	put(o, words, (size_t)((top + 63) / 64) * sizeof *words);
	lua_pop(o->L, 2);
}

static void put_mem_topology(struct out *o)
{
	check_array(o, "value");
	field64(o, "version");
	field64(o, "block_size");
	lua_getfield(o->L, -1, "nodes");
	put64(o, check_array(o, "nodes"));
	each(o, put_mem_node);
	lua_pop(o->L, 1);
}

/* {name = value, ...} */
static void put_caps(struct out *o)
{
	uint32_t n = 0;

	check_array(o, "value");
	for (lua_pushnil(o->L); lua_next(o->L, -2); lua_pop(o->L, 1))
		n++;
	put32(o, n);
	for (lua_pushnil(o->L); lua_next(o->L, -2); lua_pop(o->L, 1)) {
		lua_pushvalue(o->L, -2);
		put_string(o, "name of a capability");
		lua_pop(o->L, 1);
		put_string(o, "capability");
	}
}

static void put_pmu_caps(struct out *o)
{
	lua_getfield(o->L, -1, "caps");
	put_caps(o);
	lua_pop(o->L, 1);
	field_string(o, "name");
}

static void put_counted(struct out *o, void (*element)(struct out *o))
{
	put32(o, (uint32_t)check_array(o, "value"));
	each(o, element);
}

static void put_fields(struct out *o, const char *const *names, int wide)
{
	check_array(o, "value");
	for (; *names; names++)
		if (wide)
			field64(o, *names);
		else
			field32(o, *names);
}

static void put_feature(struct out *o, enum pf_feature_shape shape)
{
	static const char *const nrcpus[] = {"available", "online", NULL}, *const times[] = {"first", "last", NULL},
				 *const clock[] = {"version", "clockid", NULL}, *const clocks[] = {"wall_ns", "clock_ns", NULL},
				 *const machine[] = {"machine", "flags", NULL};
	size_t n;
	const char *text;

	switch (shape) {
	case PF_SHAPE_BYTES:
		text = to_text(o, "value", &n);
		put(o, text, n);
		return;
	case PF_SHAPE_FLAG:
		return;
	case PF_SHAPE_STRING:
		put_string(o, "value");
		return;
	case PF_SHAPE_STRINGS:
		put_strings(o, "value");
		return;
	case PF_SHAPE_U64:
		put64(o, to_number(o, "value"));
		return;
	case PF_SHAPE_NRCPUS:
		put_fields(o, nrcpus, 0);
		return;
	case PF_SHAPE_BUILD_ID:
		each(o, put_build_id);
		return;
	case PF_SHAPE_EVENT_DESC:
		put_event_desc(o);
		return;
	case PF_SHAPE_CPU_TOPOLOGY:
		put_cpu_topology(o);
		return;
	case PF_SHAPE_NUMA_TOPOLOGY:
		put_counted(o, put_numa_node);
		return;
	case PF_SHAPE_PMU_MAPPINGS:
		put_counted(o, put_pmu);
		return;
	case PF_SHAPE_GROUP_DESC:
		put_counted(o, put_group);
		return;
	case PF_SHAPE_AUXTRACE:
		put64(o, check_array(o, "value"));
		each(o, put_auxtrace);
		return;
	case PF_SHAPE_CACHE:
		put32(o, 1);
		put_counted(o, put_cache);
		return;
	case PF_SHAPE_SAMPLE_TIME:
		put_fields(o, times, 1);
		return;
	case PF_SHAPE_CLOCK_DATA:
		put_fields(o, clock, 0);
		put_fields(o, clocks, 1);
		return;
	case PF_SHAPE_HYBRID_TOPOLOGY:
		put_counted(o, put_hybrid);
		return;
	case PF_SHAPE_E_MACHINE:
		put_fields(o, machine, 0);
		return;
	case PF_SHAPE_MEM_TOPOLOGY:
		put_mem_topology(o);
		return;
	case PF_SHAPE_COMPRESSED: /* what is written here is not */
		break;
	case PF_SHAPE_CAPS:
		put_caps(o);
		return;
	case PF_SHAPE_PMU_CAPS:
		put_counted(o, put_pmu_caps);
		return;
	}
	luaL_error(o->L, "feature '%s' cannot be written", o->feature);
}

void pb_encode_feature(lua_State *L, const char *name, enum pf_feature_shape shape)
{
	struct out o = {.L = L, .feature = name, .slot = lua_gettop(L), .room = 256};

	luaL_checkstack(L, 16, "feature");
	o.bytes = pb_newuserdata(L, o.room);
	lua_insert(L, o.slot); /* below the value */
	put_feature(&o, shape);
	lua_pushlstring(L, (const char *)o.bytes, o.n);
	lua_replace(L, o.slot);
	lua_settop(L, o.slot);
}

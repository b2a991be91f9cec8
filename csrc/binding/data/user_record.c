/* Records of the perf tool itself. Those of fixed fields are rows of a table; the others have a function each.
 *
 *   header_attr          attr, ids                    thread_map     threads {pid, comm}
 *   header_event_type    event_id name                cpu_map        cpus, or any first last
 *   header_tracing_data  data_size                    stat_config    config {tag = value}
 *   header_build_id      pid build_id filename        stat           id cpu thread value enabled_ns running_ns
 *   id_index             entries {id idx cpu tid}     stat_round     final time
 *   auxtrace_info        kind priv                    event_update   id, and unit, scale, name or cpus
 *   auxtrace             data_size offset reference   time_conv      time_shift time_mult time_zero
 *                        idx tid cpu                                 time_cycles time_mask
 *   auxtrace_error       kind code cpu pid tid ip     header_feature feature data
 *                        time message */
#include <string.h>

#include "core/data/format.h"
#include "binding/data/data.h"

enum kind { U64, U32, S32, TEXT };

static const struct field {
	uint32_t type;
	const char *name;
	enum kind kind;
	unsigned at, size; /* from the record's start; of a text at most */
} fields[] = {
	{PF_USER_HEADER_EVENT_TYPE, "event_id", U64, 8, 0},
	{PF_USER_HEADER_EVENT_TYPE, "name", TEXT, 16, 64},
	{PF_USER_HEADER_TRACING_DATA, "data_size", U32, 8, 0},
	{PF_USER_AUXTRACE_INFO, "kind", U32, 8, 0},
	{PF_USER_AUXTRACE, "data_size", U64, 8, 0},
	{PF_USER_AUXTRACE, "offset", U64, 16, 0},
	{PF_USER_AUXTRACE, "reference", U64, 24, 0},
	{PF_USER_AUXTRACE, "idx", U32, 32, 0},
	{PF_USER_AUXTRACE, "tid", S32, 36, 0},
	{PF_USER_AUXTRACE, "cpu", S32, 40, 0},
	{PF_USER_AUXTRACE_ERROR, "kind", U32, 8, 0},
	{PF_USER_AUXTRACE_ERROR, "code", U32, 12, 0},
	{PF_USER_AUXTRACE_ERROR, "cpu", S32, 16, 0},
	{PF_USER_AUXTRACE_ERROR, "pid", S32, 20, 0},
	{PF_USER_AUXTRACE_ERROR, "tid", S32, 24, 0},
	{PF_USER_AUXTRACE_ERROR, "ip", U64, 32, 0},
	{PF_USER_STAT, "id", U64, 8, 0},
	{PF_USER_STAT, "cpu", S32, 16, 0},
	{PF_USER_STAT, "thread", S32, 20, 0},
	{PF_USER_STAT, "value", U64, 24, 0},
	{PF_USER_STAT, "enabled_ns", U64, 32, 0},
	{PF_USER_STAT, "running_ns", U64, 40, 0},
	{PF_USER_STAT_ROUND, "final", U64, 8, 0},
	{PF_USER_STAT_ROUND, "time", U64, 16, 0},
	{PF_USER_EVENT_UPDATE, "id", U64, 16, 0},
	{PF_USER_TIME_CONV, "time_shift", U64, 8, 0},
	{PF_USER_TIME_CONV, "time_mult", U64, 16, 0},
	{PF_USER_TIME_CONV, "time_zero", U64, 24, 0},
	{PF_USER_TIME_CONV, "time_cycles", U64, 32, 0},
	{PF_USER_TIME_CONV, "time_mask", U64, 40, 0},
	{PF_USER_BPF_METADATA, "name", TEXT, 8, 512},
};

static const struct {
	uint32_t type;
	const char *name;
} types[] = {
#define X(sym, value, name) {PF_USER_##sym, name},
#include "core/data/user_record.def"
#undef X
};

const char *pb_user_type(uint32_t type)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i].type == type)
			return types[i].name;
	return NULL;
}

static void push_text(lua_State *L, const unsigned char *p, size_t n)
{
	lua_pushlstring(L, (const char *)p, strnlen((const char *)p, n));
}

static void set_fixed(lua_State *L, const struct field *f, const unsigned char *record, size_t size)
{
	size_t need = f->kind == U64 ? 8 : f->kind == TEXT ? 1 : 4;
	struct pf_cursor c = {record + f->at, record + size, 0, 0};
	uint32_t v;

	if (f->at + need > size)
		return;
	if (f->kind == U64) {
		pb_push_u64(L, pf_cursor_u64(&c));
	} else if (f->kind == TEXT) {
		push_text(L, c.at, size - f->at < f->size ? size - f->at : f->size);
	} else {
		v = pf_cursor_u32(&c);
		lua_pushnumber(L, f->kind == S32 ? (lua_Number)(int32_t)v : (lua_Number)v);
	}
	lua_setfield(L, -2, f->name);
}

static void set_header_attr(lua_State *L, struct pf_cursor *c)
{
	struct pf_cursor head = *c;
	const unsigned char *p;
	struct pf_attr a;
	uint32_t size;

	pf_cursor_u32(&head);
	size = pf_cursor_u32(&head);
	if (size == 0)
		size = PF_ATTR_SIZE_VER0;
	p = pf_cursor_bytes(c, size);
	if (!p || size < PF_ATTR_SIZE_VER0)
		return;
	memset(&a, 0, sizeof a);
	memcpy(&a, p, size < sizeof a ? size : sizeof a);
	pb_push_attr(L, &a);
	lua_setfield(L, -2, "attr");
	lua_newtable(L);
	for (int i = 1; c->end - c->at >= 8; i++) {
		pb_push_u64(L, pf_cursor_u64(c));
		lua_rawseti(L, -2, i);
	}
	lua_setfield(L, -2, "ids");
}

/* An array of tables of u64 fields behind its u64 count; with text 16, the last field is a text of so many bytes. */
static void set_entries(lua_State *L, struct pf_cursor *c, const char *name, const char *const *keys, unsigned text)
{
	uint64_t n = pf_cursor_u64(c);
	size_t nkeys = 0, size;

	while (keys[nkeys])
		nkeys++;
	size = text ? (nkeys - 1) * 8 + text : nkeys * 8;
	n = pf_cursor_count(c, n, size);
	lua_newtable(L);
	for (uint64_t i = 1; i <= n; i++) {
		lua_newtable(L);
		for (size_t k = 0; k < nkeys; k++) {
			if (text && k == nkeys - 1)
				push_text(L, pf_cursor_bytes(c, text), text);
			else
				pb_push_i64(L, (int64_t)pf_cursor_u64(c));
			lua_setfield(L, -2, keys[k]);
		}
		lua_rawseti(L, -2, (int)i);
	}
	lua_setfield(L, -2, name);
}

static uint16_t take16(struct pf_cursor *c)
{
	const unsigned char *p = pf_cursor_bytes(c, 2);
	uint16_t v = 0;

	if (p)
		memcpy(&v, p, sizeof v);
	return v;
}

/* type 0: a list; 1: a mask of 32-bit or 64-bit words; 2: a range. */
static void set_cpus(lua_State *L, struct pf_cursor *c)
{
	uint16_t type = take16(c), n, width;
	int i = 0;

	if (type == 2) {
		const unsigned char *any = pf_cursor_bytes(c, 2);
		int first = take16(c), last = take16(c);

		lua_newtable(L);
		for (int cpu = first; !c->bad && cpu <= last; cpu++) {
			lua_pushinteger(L, cpu);
			lua_rawseti(L, -2, ++i);
		}
		lua_setfield(L, -2, "cpus");
		lua_pushboolean(L, any && *any);
		lua_setfield(L, -2, "any_cpu");
		return;
	}
	n = take16(c);
	width = type == 0 ? 2 : take16(c);
	if (width == 8)
		pf_cursor_bytes(c, 4);
	else if (width != 2 && width != 4)
		c->bad = 1;
	lua_newtable(L);
	for (unsigned k = 0; k < n && !c->bad; k++) {
		uint64_t v = width == 2 ? take16(c) : width == 4 ? pf_cursor_u32(c) : pf_cursor_u64(c);

		if (width == 2 && !c->bad) {
			lua_pushinteger(L, (int16_t)v);
			lua_rawseti(L, -2, ++i);
		}
		for (unsigned b = 0; width > 2 && b < width * 8u; b++)
			if (v >> b & 1) {
				lua_pushinteger(L, (lua_Integer)k * (lua_Integer)(width * 8u) + (lua_Integer)b);
				lua_rawseti(L, -2, ++i);
			}
	}
	lua_setfield(L, -2, "cpus");
}

static void set_event_update(lua_State *L, struct pf_cursor *c)
{
	uint64_t kind = pf_cursor_u64(c);
	double scale;
	const unsigned char *p;

	pf_cursor_u64(c);
	if (c->bad)
		return;
	if (kind == 1) {
		p = pf_cursor_bytes(c, sizeof scale);
		if (!p)
			return;
		memcpy(&scale, p, sizeof scale);
		lua_pushnumber(L, scale);
		lua_setfield(L, -2, "scale");
	} else if (kind == 3) {
		set_cpus(L, c);
	} else if (kind == 0 || kind == 2) {
		push_text(L, c->at, (size_t)(c->end - c->at));
		lua_setfield(L, -2, kind == 0 ? "unit" : "name");
	}
}

static void set_auxtrace_error(lua_State *L, const unsigned char *record, size_t size)
{
	uint32_t format;
	uint64_t time;
	size_t at = 40;

	if (size < 40)
		return;
	memcpy(&format, record + 28, sizeof format);
	if (format >= 1 && size >= 48) {
		memcpy(&time, record + 40, sizeof time);
		pb_push_u64(L, time);
		lua_setfield(L, -2, "time");
		at = 48;
	}
	push_text(L, record + at, size - at < 64 ? size - at : 64);
	lua_setfield(L, -2, "message");
}

static void set_feature(lua_State *L, struct pf_cursor *c)
{
	uint64_t bit = pf_cursor_u64(c);
	const struct pf_feature *f = pf_features;

	while (f->name && f->bit != bit)
		f++;
	if (f->name)
		lua_pushstring(L, f->name);
	else
		pb_push_u64(L, bit);
	lua_setfield(L, -2, "feature");
	lua_pushlstring(L, (const char *)c->at, (size_t)(c->end - c->at));
	lua_setfield(L, -2, "data");
}

static void set_priv(lua_State *L, struct pf_cursor *c)
{
	pf_cursor_u64(c); /* kind and padding */
	lua_newtable(L);
	for (int i = 1; c->end - c->at >= 8; i++) {
		pb_push_u64(L, pf_cursor_u64(c));
		lua_rawseti(L, -2, i);
	}
	lua_setfield(L, -2, "priv");
}

void pb_user_fields(lua_State *L, const unsigned char *record, size_t size)
{
	static const char *const index_keys[] = {"id", "idx", "cpu", "tid", NULL};
	static const char *const thread_keys[] = {"pid", "comm", NULL};
	static const char *const config_keys[] = {"tag", "value", NULL};
	struct pf_cursor c = {record + sizeof(struct pf_header), record + size, 0, 0};
	struct pf_header h;

	memcpy(&h, record, sizeof h);
	luaL_checkstack(L, 12, "record");
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (fields[i].type == h.type)
			set_fixed(L, &fields[i], record, size);
	switch (h.type) {
	case PF_USER_HEADER_ATTR:
		set_header_attr(L, &c);
		break;
	case PF_USER_HEADER_BUILD_ID:
		pb_push_build_id_record(L, c.at, size - sizeof h, h.misc, 0);
		for (const char *const *key = (const char *const[]){"pid", "build_id", "filename", NULL}; *key; key++) {
			lua_getfield(L, -1, *key);
			lua_setfield(L, -3, *key);
		}
		lua_pop(L, 1);
		break;
	case PF_USER_ID_INDEX:
		set_entries(L, &c, "entries", index_keys, 0);
		break;
	case PF_USER_THREAD_MAP:
		set_entries(L, &c, "threads", thread_keys, 16);
		break;
	case PF_USER_STAT_CONFIG:
		set_entries(L, &c, "config", config_keys, 0);
		break;
	case PF_USER_AUXTRACE_INFO:
		set_priv(L, &c);
		break;
	case PF_USER_CPU_MAP:
		set_cpus(L, &c);
		break;
	case PF_USER_EVENT_UPDATE:
		set_event_update(L, &c);
		break;
	case PF_USER_AUXTRACE_ERROR:
		set_auxtrace_error(L, record, size);
		break;
	case PF_USER_HEADER_FEATURE:
		set_feature(L, &c);
		break;
	default:
		break;
	}
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

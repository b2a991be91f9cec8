/* Data: an open perf.data file. The userdata holds the descriptor and the reader; its uservalue is a table:
 *
 *   attrs       array of {attr =, ids =, name = ...}, one for each event, which is also the info of its records
 *   handler     called with each record that describes the file itself (attr, name, feature, build id)
 *   inflater    a function, called once, that returns a decompressor
 *   inflate     the decompressor, which must live as long as the Data
 *   message, code   of the first error
 *
 * The iterator of records() skips damaged records; next() returns an error for each of them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/data/read.h"
#include "core/base/sys.h"
#include "core/base/thread.h"
#include "binding/data/data.h"
#include "binding/record/record.h"
#include "binding/kernel/attr.h"

static struct pb_data *to_data(lua_State *L, int i)
{
	return pb_check(L, i, PB_DATA, "perf.data file");
}

struct pb_data *pb_check_data(lua_State *L, int i)
{
	struct pb_data *p = to_data(L, i);

	if (!p->open)
		luaL_argerror(L, i, "the perf.data file is closed");
	return p;
}

static int l_close(lua_State *L)
{
	struct pb_data *p = to_data(L, 1);

	p->hold.closed = p->hold.held;
	if (!p->hold.held)
		pf_data_close(&p->d);
	if (p->own)
		pf_sys->close(p->fd);
	p->open = p->own = 0;
	return 0;
}

static int l_gc(lua_State *L)
{
	to_data(L, 1)->hold.held = 0;
	return l_close(L);
}

/* Appends the events that the reader has found since the last call to the table attrs, which is on top of the stack. */
static void add_attrs(lua_State *L, struct pb_data *p)
{
	for (; p->nattrs < p->d.events.n; p->nattrs++) {
		const struct pf_data_event *e = &p->d.events.list[p->nattrs];

		lua_createtable(L, 0, 4);
		pb_push_attr(L, &e->attr);
		lua_setfield(L, -2, "attr");
		pb_push_ids(L, e->ids, e->nids);
		lua_setfield(L, -2, "ids");
		lua_rawseti(L, -2, (int)p->nattrs + 1);
	}
}

void pb_data_state(lua_State *L, const char *field)
{
	pb_getuservalue(L, 1);
	lua_getfield(L, -1, field);
	lua_remove(L, -2);
}

int pb_data_failed(lua_State *L, struct pb_data *p, int err)
{
	int n;

	if (err == -EBADMSG)
		n = pb_fail(L, err, "%s, at offset %" PRIu64, p->d.why, p->d.where);
	else if (err == -ENOSYS || err == -ESPIPE)
		n = pb_fail(L, err, "%s", p->d.why);
	else
		n = pb_fail(L, err, "read");
	if (p->nerrors++ == 0) {
		pb_getuservalue(L, 1);
		lua_pushvalue(L, -3);
		lua_setfield(L, -2, "message");
		lua_pushvalue(L, -2);
		lua_setfield(L, -2, "code");
		lua_pop(L, 1);
	}
	return n;
}

/* core.data_open(path or nil for standard input): Data, or nil, message, code. */
static int l_open(lua_State *L)
{
	const char *path = lua_isnoneornil(L, 1) ? NULL : pb_check_path(L, 1);
	struct pb_data *p = pb_new(L, sizeof *p, PB_DATA);
	int r;

	p->generation = pf_fork_generation();
	lua_newtable(L);
	lua_newtable(L);
	lua_setfield(L, -2, "attrs");
	pb_setuservalue(L, -2);
	lua_replace(L, 1);
	lua_settop(L, 1);
	if (path) { /* without O_NONBLOCK, to wait for the writer of a fifo */
		p->fd = pf_sys->open(path, O_RDONLY | O_NOCTTY, 0);
		if (p->fd < 0)
			return pb_fail(L, p->fd, "open");
		p->own = 1;
	}
	p->open = 1;
	r = pf_data_open(&p->d, p->fd);
	if (r < 0) {
		r = pb_data_failed(L, p, r);
		lua_pushcfunction(L, l_close);
		lua_pushvalue(L, 1);
		lua_call(L, 1, 0);
		return r;
	}
	pb_data_state(L, "attrs");
	add_attrs(L, p);
	lua_settop(L, 1);
	return 1;
}

/* Gets the decompressor from Lua. */
static int load_inflate(lua_State *L, struct pb_data *p)
{
	pb_data_state(L, "inflater");
	if (!lua_isnil(L, -1)) {
		lua_call(L, 0, 1);
		p = pb_check_data(L, 1);
		p->d.inflate = pb_test(L, -1, PB_INFLATE);
		pb_getuservalue(L, 1);
		lua_pushvalue(L, -2);
		lua_setfield(L, -2, "inflate");
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	if (p->d.inflate)
		return 1;
	p->d.no_inflate = 1;
	p->d.why = "its records are compressed, and perf.ext.zstd, which reads these, is not built here (it needs libzstd)";
	return 0;
}

int pb_data_describes_file(uint32_t type)
{
	return type == PF_USER_HEADER_ATTR || type == PF_USER_HEADER_EVENT_TYPE || type == PF_USER_EVENT_UPDATE ||
	       type == PF_USER_HEADER_FEATURE || type == PF_USER_HEADER_BUILD_ID;
}

/* The infos have changed, so the tags of the layouts are out of date. */
static void forget_tags(struct pb_data *p)
{
	for (uint32_t i = 0; i < p->d.events.layouts.n; i++)
		p->d.events.layouts.list[i]->tag = 0;
}

void pb_data_call_handler(lua_State *L, struct pb_data *p, uint32_t type)
{
	if (type == PF_USER_HEADER_ATTR) {
		pb_data_state(L, "attrs");
		add_attrs(L, p);
		lua_pop(L, 1);
	}
	pb_data_state(L, "handler");
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		return;
	}
	lua_pushvalue(L, -2);
	lua_call(L, 1, 0);
	forget_tags(p);
}

int pb_data_step(lua_State *L, struct pb_data *p, struct pf_data_record *r)
{
	const int refused = !p->d.src.seekable && pf_inherited(p->generation);
	int n = refused ? luaL_error(L, PB_INHERITED, "The perf.data file") : p->waiting ? p->step : pf_data_next(&p->d, r);

	if (p->waiting)
		*r = p->next;
	p->waiting = 0;
	while (n == PF_DATA_NEEDS_INFLATE)
		n = load_inflate(L, p) ? pf_data_next(&p->d, r) : -ENOSYS;
	return n;
}

/* The Data is at 1, attrs at index attrs, Record's metatable at index metatable. Pushes a Record and returns 1, pushes nil and
 * returns 0 at the end, or pushes nil, message, code and returns -errno. */
static int read_next(lua_State *L, struct pb_data *p, int attrs, int metatable)
{
	struct pf_data_record r;
	int n = pb_data_step(L, p, &r), info = 0, outer;

	if (n < 0) {
		pb_data_failed(L, p, n);
		return n;
	}
	if (n == 0) {
		lua_pushnil(L);
		return 0;
	}
	if (r.layout) {
		lua_rawgeti(L, attrs, (int)r.layout->index + 1);
		info = lua_gettop(L);
	}
	outer = pb_hold(&p->hold);
	n = pb_push_record_as(L, metatable, r.layout, r.bytes, r.size, info);
	if (n < 0)
		pb_data_failed(L, p, pf_data_bad(&p->d, r.offset, "a record's fields exceed its size"));
	else if (pb_data_describes_file(r.type))
		pb_data_call_handler(L, p, r.type);
	pb_data_unhold(p, outer);
	return n < 0 ? -EBADMSG : 1;
}

/* data:next(): the next Record; nil at the end; nil, message, code for one that is damaged. */
static int l_next(lua_State *L)
{
	struct pb_data *p = pb_check_data(L, 1);

	lua_settop(L, 1);
	pb_data_state(L, "attrs");
	luaL_getmetatable(L, PB_RECORD);
	return read_next(L, p, 2, 3) < 0 ? 3 : 1;
}

/* Upvalues: the Data, attrs, Record's metatable. */
static int l_each(lua_State *L)
{
	struct pb_data *p = lua_touserdata(L, lua_upvalueindex(1));
	int r;

	do {
		lua_settop(L, 0);
		if (!p->open)
			return luaL_error(L, "the perf.data file is closed");
		lua_pushvalue(L, lua_upvalueindex(1));
		r = read_next(L, p, lua_upvalueindex(2), lua_upvalueindex(3));
	} while (r < 0);
	return 1;
}

/* data:records(): an iterator. */
static int l_records(lua_State *L)
{
	pb_check_data(L, 1);
	lua_settop(L, 1);
	pb_data_state(L, "attrs");
	luaL_getmetatable(L, PB_RECORD);
	lua_pushcclosure(L, l_each, 3);
	return 1;
}

/* data:state(): the uservalue, the number of errors, and the sums of the lost and of the lost_samples records that were read. */
static int l_state(lua_State *L)
{
	const struct pb_data *p = to_data(L, 1);

	pb_getuservalue(L, 1);
	pb_push_u64(L, p->nerrors);
	pb_push_u64(L, p->d.lost);
	pb_push_u64(L, p->d.lost_samples);
	return 4;
}

/* data:header(): the fields of the header. */
static int l_header(lua_State *L)
{
	const struct pb_data *p = pb_check_data(L, 1);
	const struct pf_data *d = &p->d;
	int little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;

	lua_createtable(L, 0, 10);
	pb_set_u64(L, "version", d->version);
	pb_set_text(L, "endian", d->swapped != little ? "little" : "big");
	pb_set_bool(L, "pipe", d->pipe);
	pb_set_bool(L, "unfinished", d->unfinished);
	if (!d->pipe) {
		pb_set_u64(L, "data_offset", d->header.data.offset);
		pb_set_u64(L, "data_size", d->header.data.size);
		pb_set_u64(L, "attr_size", d->header.attr_size);
	}
	return 1;
}

/* data:skipped(): the number of skipped records of unknown types, and the last such type. */
static int l_skipped(lua_State *L)
{
	const struct pf_data *d = &pb_check_data(L, 1)->d;

	pb_push_u64(L, d->skipped);
	if (d->skipped == 0)
		return 1;
	lua_pushinteger(L, (lua_Integer)d->skipped_type);
	return 2;
}

/* data:payload(n): up to n bytes of the data that follows the last record; nil at its end. */
static int l_payload(lua_State *L)
{
	struct pb_data *p = pb_check_data(L, 1);
	size_t n = (size_t)pb_check_u64(L, 2, PF_DATA_WINDOW);
	void *buf;
	ssize_t got;

	if (n > p->d.payload)
		n = (size_t)p->d.payload;
	if (n == 0)
		return pb_nil(L);
	buf = pb_newuserdata(L, n);
	got = pf_data_payload(&p->d, buf, n);
	if (got < 0)
		return pb_data_failed(L, p, (int)got);
	return pb_bytes(L, buf, (size_t)got);
}

static const struct pf_feature *check_feature(lua_State *L, int i)
{
	const char *name = luaL_checkstring(L, i);
	const struct pf_feature *f = pf_features;

	while (f->name && strcmp(f->name, name) != 0)
		f++;
	if (!f->name)
		luaL_argerror(L, i, lua_pushfstring(L, "unknown feature '%s'", name));
	return f;
}

static int push_feature(lua_State *L, const struct pb_data *p, const struct pf_feature *f, const void *bytes, size_t n,
			uint64_t ncpus)
{
	return pb_push_feature(L, f, bytes, n, p->d.swapped, ncpus) ? 1 : pb_fail(L, -EBADMSG, "feature %s", f->name);
}

/* data:feature(name, ncpus): its value; nil if the file does not have it; nil, message, code if it is damaged. */
static int l_feature(lua_State *L)
{
	struct pb_data *p = pb_check_data(L, 1);
	const struct pf_feature *f = check_feature(L, 2);
	uint64_t ncpus = (uint64_t)luaL_optnumber(L, 3, 0);
	struct pf_section s;
	unsigned char *buf;
	ssize_t got;
	int r = pf_data_feature(&p->d, f->bit, &s);

	if (r == 0 || (r > 0 && s.size == 0 && f->rows->kind != PF_FLAG)) /* old recorders write empty sections */
		return pb_nil(L);
	if (r < 0)
		return pb_fail(L, r, "feature %s", f->name);
	if (s.size > 1u << 30)
		return pb_fail(L, -EFBIG, "feature %s", f->name);
	buf = pb_newuserdata(L, s.size ? (size_t)s.size : 1);
	got = pf_source_copy(&p->d.src, s.offset, buf, (size_t)s.size);
	if (got < 0)
		return pb_fail(L, (int)got, "feature %s", f->name);
	return push_feature(L, p, f, buf, (size_t)got, ncpus);
}

/* data:decode(name, bytes, ncpus): the same for the bytes of a header_feature record. */
static int l_decode(lua_State *L)
{
	struct pb_data *p = pb_check_data(L, 1);
	const struct pf_feature *f = check_feature(L, 2);
	size_t n;
	const char *bytes = luaL_checklstring(L, 3, &n);

	return push_feature(L, p, f, bytes, n, (uint64_t)luaL_optnumber(L, 4, 0));
}

/* data:arch(machine): sets the architecture whose registers the samples have. */
static int l_arch(lua_State *L)
{
	struct pb_data *p = pb_check_data(L, 1);

	pf_data_events_arch(&p->d.events, pf_arch_named(luaL_checkstring(L, 2)));
	forget_tags(p);
	return 0;
}

/* data:types(): the event names of a file from before Linux 3.11, {[config] = name}, keyed as core.hex does. */
static int l_types(lua_State *L)
{
	const struct pf_data *d = &pb_check_data(L, 1)->d;
	const struct pf_section *s = &d->header.types;
	struct {
		uint64_t config;
		char name[64];
	} t;

	lua_newtable(L);
	if (d->pipe || s->offset > d->src.size || s->size > d->src.size - s->offset)
		return 1;
	for (uint64_t at = 0; at + sizeof t <= s->size && at < 65536 * sizeof t; at += sizeof t) {
		char key[24];

		if (pf_source_copy(&d->src, s->offset + at, &t, sizeof t) < (ssize_t)sizeof t)
			break;
		if (d->swapped)
			t.config = __builtin_bswap64(t.config);
		snprintf(key, sizeof key, "0x%" PRIx64, t.config);
		lua_pushlstring(L, t.name, strnlen(t.name, sizeof t.name));
		lua_setfield(L, -2, key);
	}
	return 1;
}

/* core.features(): array of every feature's name, in the order of their bits. */
static int l_features(lua_State *L)
{
	lua_newtable(L);
	for (int i = 0; pf_features[i].name; i++) {
		lua_createtable(L, 0, 3);
		pb_set_text(L, "name", pf_features[i].name);
		pb_set_u64(L, "bit", pf_features[i].bit);
		pb_set_bool(L, "raw", pf_features[i].rows->kind == PF_BYTES);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

void pb_open_data(lua_State *L)
{
	static const struct pb_tool_records tool_records = {pb_user_type, pb_user_fields, pb_user_field};
	static const luaL_Reg functions[] = {{"data_open", l_open}, {"data_features", l_features}, {NULL, NULL}};
	static const luaL_Reg methods[] = {
		{"next", l_next}, {"records", l_records}, {"state", l_state}, {"header", l_header}, {"skipped", l_skipped},
		{"payload", l_payload}, {"feature", l_feature}, {"decode", l_decode}, {"arch", l_arch}, {"types", l_types},
		{"close", l_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_class(L, PB_DATA, methods, l_gc);
	lua_setfield(L, -2, "Data");
	pb_tool_records = &tool_records;
}

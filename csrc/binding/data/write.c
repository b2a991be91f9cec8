/* DataWriter: a perf.data file that is being written. The uservalue is a table:
 *
 *   mapped      {filename = {misc =, pid =, build_id = if a record has it}}: the files that were mapped as code
 *   auxtrace    array of {offset =, size =}: the positions of the auxtrace records
 *
 * These, and the times of the first and last sample, are collected from the records for the features of the file. */
#include <errno.h>
#include <string.h>

#include "core/symbols/build_id.h"
#include "core/data/write.h"
#include "core/base/thread.h"
#include "binding/data/data.h"
#include "binding/record/cdata.h"
#include "binding/kernel/attr.h"
#include "binding/record/record.h"

#define PB_WRITER "perf.DataWriter"

struct pb_writer {
	struct pf_writer w;
	struct pf_layouts layouts;
	uint64_t samples, lost, lost_samples, first, last; /* first and last: times of samples, 0 = none */
	int open, finished;
};

static struct pb_writer *to_writer(lua_State *L, int i)
{
	return pb_check(L, i, PB_WRITER, "perf.data writer");
}

static struct pb_writer *check_writer(lua_State *L, int i)
{
	struct pb_writer *p = to_writer(L, i);

	if (!p->open)
		luaL_error(L, "the perf.data writer is closed");
	if (pf_inherited(p->w.generation))
		luaL_error(L, PB_INHERITED, "The perf.data writer");
	return p;
}

static int release(struct pb_writer *p)
{
	int r = 0;

	if (p->open)
		r = pf_writer_close(&p->w);
	p->open = 0;
	pf_layouts_free(&p->layouts);
	return r;
}

static int l_gc(lua_State *L)
{
	release(to_writer(L, 1));
	return 0;
}

/* writer:is_inherited(): whether it is open and the parent opened it before a fork. */
static int l_is_inherited(lua_State *L)
{
	const struct pb_writer *p = to_writer(L, 1);

	return pb_bool(L, p->open && pf_inherited(p->w.generation));
}

/* writer:close(): true, or nil, message, code; idempotent. */
static int l_close(lua_State *L)
{
	struct pb_writer *p = to_writer(L, 1);

	return pb_result(L, release(p), "write");
}

/* Converts the array of {attr =, ids =} at index 2 to events. They live in userdata that are pushed. */
static uint32_t check_events(lua_State *L, struct pf_writer_event **out)
{
	struct pf_writer_event *events;
	struct pf_attr *attrs;
	size_t n;

	luaL_checktype(L, 2, LUA_TTABLE);
	n = pb_rawlen(L, 2);
	luaL_argcheck(L, n > 0 && n < 65536, 2, "an array of events expected");
	events = pb_newuserdata(L, n * sizeof *events);
	attrs = pb_newuserdata(L, n * sizeof *attrs);
	luaL_checkstack(L, (int)n + 8, "events");
	for (size_t i = 0; i < n; i++) {
		uint64_t *ids;
		size_t nids;

		lua_rawgeti(L, 2, (int)i + 1);
		luaL_argcheck(L, lua_istable(L, -1), 2, "an array of events expected");
		lua_getfield(L, -1, "attr");
		pb_check_attr(L, lua_gettop(L), &attrs[i]);
		lua_getfield(L, -2, "ids");
		nids = lua_istable(L, -1) ? pb_rawlen(L, -1) : 0;
		ids = pb_newuserdata(L, nids ? nids * sizeof *ids : 1);
		for (size_t k = 0; k < nids; k++) {
			lua_rawgeti(L, -2, (int)k + 1);
			ids[k] = pb_check_u64(L, lua_gettop(L), UINT64_MAX);
			lua_pop(L, 1);
		}
		events[i] = (struct pf_writer_event){&attrs[i], ids, (uint32_t)nids};
		lua_insert(L, -4); /* the ids stay on the stack */
		lua_pop(L, 3);
	}
	*out = events;
	return (uint32_t)n;
}

static int add_layouts(struct pb_writer *p, const struct pf_writer_event *events, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct pf_layout l;
		int index;

		pf_layout_init(&l, events[i].attr, pf_arch_native());
		index = pf_layouts_add(&p->layouts, &l);
		if (index < 0)
			return index;
		for (uint32_t k = 0; k < events[i].nids; k++)
			if (pf_layouts_bind(&p->layouts, events[i].ids[k], (uint32_t)index) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* core.data_create(path, events, mode): DataWriter, or nil, message, code. */
static int l_create(lua_State *L)
{
	static const char *const modes[] = {"replace", "exclusive", "overwrite", NULL};
	const char *path = pb_check_path(L, 1);
	enum pf_writer_mode mode = (enum pf_writer_mode)luaL_checkoption(L, 3, "replace", modes);
	struct pf_writer_event *events;
	struct pb_writer *p;
	uint32_t n;
	int r;

	lua_settop(L, 3);
	p = pb_new(L, sizeof *p, PB_WRITER);
	lua_newtable(L);
	lua_newtable(L);
	lua_setfield(L, -2, "mapped");
	lua_newtable(L);
	lua_setfield(L, -2, "auxtrace");
	pb_setuservalue(L, -2);
	lua_replace(L, 3);
	n = check_events(L, &events);
	p->open = 1;
	r = pf_writer_open(&p->w, path, mode);
	if (r == 0)
		r = add_layouts(p, events, n);
	if (r == 0)
		r = pf_writer_begin(&p->w, events, n);
	if (r < 0) {
		release(p);
		return pb_fail(L, r, "%s", path);
	}
	lua_settop(L, 3);
	return 1;
}

/* Notes a file that was mapped as code. The writer is at 1. */
static void note_map(lua_State *L, const struct pf_record *rec, const unsigned char *bytes)
{
	pb_getuservalue(L, 1);
	lua_getfield(L, -1, "mapped");
	lua_pushlstring(L, (const char *)bytes + rec->text.at, rec->text.n);
	lua_pushvalue(L, -1);
	lua_rawget(L, -3);
	if (!lua_istable(L, -1)) {
		lua_pop(L, 1);
		lua_createtable(L, 0, 3);
		pb_set_u64(L, "misc", rec->misc & 7);
		lua_pushvalue(L, -2);
		lua_pushvalue(L, -2);
		lua_rawset(L, -5);
	}
	if (rec->has & PF_HAS_BUILD_ID)
		pb_set_hex(L, "build_id", bytes + rec->build_id.at, rec->build_id.n);
	lua_pop(L, 4);
}

/* The record that was just written. */
static void note_auxtrace(lua_State *L, const struct pb_writer *p, size_t size)
{
	pb_getuservalue(L, 1);
	lua_getfield(L, -1, "auxtrace");
	lua_createtable(L, 0, 2);
	pb_set_u64(L, "offset", p->w.offset - size);
	pb_set_u64(L, "size", size);
	lua_rawseti(L, -2, (int)pb_rawlen(L, -2) + 1);
	lua_pop(L, 2);
}

static void note(lua_State *L, struct pb_writer *p, const struct pf_record *rec, const unsigned char *bytes)
{
	switch (rec->type) {
	case PF_RECORD_SAMPLE:
		p->samples++;
		if (rec->has & PF_SAMPLE(TIME)) {
			if (p->first == 0 || rec->time < p->first)
				p->first = rec->time;
			if (rec->time > p->last)
				p->last = rec->time;
		}
		break;
	case PF_RECORD_LOST:
		p->lost += rec->lost;
		break;
	case PF_RECORD_LOST_SAMPLES:
		p->lost_samples += rec->lost;
		break;
	case PF_RECORD_MMAP:
		if (!(rec->misc & PF_MISC_MMAP_DATA))
			note_map(L, rec, bytes);
		break;
	case PF_RECORD_MMAP2:
		if (rec->prot & 4)
			note_map(L, rec, bytes);
		break;
	case PF_USER_AUXTRACE:
		note_auxtrace(L, p, rec->size);
		break;
	default:
		break;
	}
}

/* A header_build_id record of a pipe: in a file it belongs to the feature build_id. */
static void note_build_id(lua_State *L, const struct pf_record *rec, const unsigned char *bytes)
{
	pb_getuservalue(L, 1);
	lua_getfield(L, -1, "mapped");
	lua_newtable(L);
	pb_user_fields(L, bytes, rec->size);
	pb_set_u64(L, "misc", rec->misc);
	lua_getfield(L, -1, "filename");
	if (!lua_isnil(L, -1)) {
		lua_pushvalue(L, -2);
		lua_rawset(L, -4);
		lua_pop(L, 3);
	} else {
		lua_pop(L, 4);
	}
}

/* Whether records of that type are not copied: a file has their content in its features, and compressed records have no meaning
 * outside of their stream. */
static int not_copied(uint32_t type)
{
	return pb_data_describes_file(type) ? type != PF_USER_EVENT_UPDATE
				   : type == PF_USER_HEADER_TRACING_DATA || type == PF_USER_COMPRESSED ||
					     type == PF_USER_COMPRESSED2;
}

static int put(lua_State *L, struct pb_writer *p, const struct pf_record *rec, const unsigned char *bytes)
{
	int r;

	if (rec->type == PF_USER_HEADER_BUILD_ID)
		note_build_id(L, rec, bytes);
	if (not_copied(rec->type))
		return 0;
	r = pf_writer_record(&p->w, bytes, rec->size);
	if (r == -EINVAL)
		luaL_error(L, p->w.owed ? "first write the data that the auxtrace record announced"
					: "the size of a record is not a multiple of 8");
	if (r == 0)
		note(L, p, rec, bytes);
	return r;
}

/* Writes the records in n bytes; all must be complete. */
static int put_bytes(lua_State *L, struct pb_writer *p, const char *text, size_t n)
{
	uint64_t aligned[PF_RECORD_MAX / 8];
	unsigned char *bytes = (unsigned char *)aligned;
	struct pf_record rec;
	struct pf_header h;

	for (size_t at = 0; at < n; at += h.size) {
		int r = -EBADMSG;

		h.size = 0;
		if (n - at >= sizeof h)
			memcpy(&h, text + at, sizeof h);
		if (h.size >= sizeof h && h.size <= n - at) {
			memcpy(bytes, text + at, h.size);
			r = pf_record_parse(pf_layouts_find(&p->layouts, bytes, h.size), bytes, h.size, &rec);
		}
		if (r < 0)
			luaL_argerror(L, 2, lua_pushfstring(L, "no whole record at byte %d", (int)at + 1));
		r = put(L, p, &rec, bytes);
		if (r < 0)
			return r;
	}
	return 0;
}

/* writer:write(record or bytes), or for a packed Record writer:write(record, layout): true, or nil, message, code. */
static int l_write(lua_State *L)
{
	struct pb_writer *p = check_writer(L, 1);
	const struct pb_record *rec = pb_test(L, 2, PB_RECORD);
	struct pb_record packed;
	const char *text;
	size_t n;
	int r;

	if (rec) {
		r = put(L, p, &rec->rec, rec->bytes);
	} else if (lua_gettop(L) == 3 && pb_unpack(L, 2, 0, &packed)) {
		r = put(L, p, &packed.rec, packed.bytes);
	} else if (lua_type(L, 2) == LUA_TSTRING) {
		text = lua_tolstring(L, 2, &n);
		r = put_bytes(L, p, text, n);
	} else {
		return luaL_argerror(L, 2, lua_pushfstring(L, "Record or string expected, got %s", luaL_typename(L, 2)));
	}
	return pb_result(L, r, "write");
}

/* writer:payload(bytes): writes the data that follows an auxtrace record. */
static int l_payload(lua_State *L)
{
	struct pb_writer *p = check_writer(L, 1);
	size_t n;
	const char *bytes = luaL_checklstring(L, 2, &n);
	int r = pf_writer_payload(&p->w, bytes, n);

	if (r == -EINVAL)
		return luaL_argerror(L, 2, "more than the record before it announced");
	return pb_result(L, r, "write");
}

/* writer:finish(features): true, or nil, message, code. Raises an error for values that do not fit. */
static int l_finish(lua_State *L)
{
	struct pb_writer *p = check_writer(L, 1);
	struct pf_writer_feature list[PF_FEATURE_LAST + 1];
	unsigned n = 0;

	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_argcheck(L, !p->finished, 1, "the perf.data file is finished already");
	lua_settop(L, 2);
	luaL_checkstack(L, PF_FEATURE_LAST + 20, "features");
	for (const struct pf_feature *f = pf_features; f->name; f++) {
		struct pf_writer_feature *out = &list[n];

		lua_getfield(L, 2, f->name);
		if (lua_isnil(L, -1) || (lua_isboolean(L, -1) && !lua_toboolean(L, -1))) {
			lua_pop(L, 1);
			continue;
		}
		pb_encode_feature(L, f);
		out->bit = f->bit;
		out->bytes = lua_tolstring(L, -1, &out->n); /* stays on the stack */
		n++;
	}
	p->finished = 1;
	return pb_result(L, pf_writer_finish(&p->w, list, n), "write");
}

/* writer:state(): {samples, records, lost, lost_samples, bytes, first, last, mapped, auxtrace, regular}. */
static int l_state(lua_State *L)
{
	const struct pb_writer *p = to_writer(L, 1);

	lua_createtable(L, 0, 9);
	pb_set_bool(L, "regular", p->w.regular);
	pb_set_u64(L, "samples", p->samples);
	pb_set_u64(L, "records", p->w.records);
	pb_set_u64(L, "lost", p->lost);
	pb_set_u64(L, "lost_samples", p->lost_samples);
	pb_set_u64(L, "bytes", p->w.offset);
	pb_set_u64(L, "first", p->first);
	pb_set_u64(L, "last", p->last);
	pb_getuservalue(L, 1);
	lua_getfield(L, -1, "mapped");
	lua_setfield(L, -3, "mapped");
	lua_getfield(L, -1, "auxtrace");
	lua_setfield(L, -3, "auxtrace");
	lua_pop(L, 1);
	return 1;
}

/* core.build_id(path): lower-case hexadecimal; without a path the running kernel's. Or nil, message, code. */
static int l_build_id(lua_State *L)
{
	const char *path = lua_isnoneornil(L, 1) ? NULL : pb_check_path(L, 1);
	struct pf_build_id id;
	int r = path ? pf_build_id_of_file(path, &id) : pf_build_id_of_kernel(&id);

	if (r == -ENODATA || r == -ENOEXEC)
		return pb_refuse(L, r, r == -ENODATA ? "%s: no build id" : "%s: not an ELF file", path ? path : "the kernel");
	if (r < 0)
		return pb_fail(L, r, "build id of %s", path ? path : "the kernel");
	return pb_hex(L, id.bytes, id.size);
}

void pb_open_data_write(lua_State *L)
{
	static const luaL_Reg functions[] = {{"data_create", l_create}, {"build_id", l_build_id}, {NULL, NULL}};
	static const struct pf_header finished_round = {PF_USER_FINISHED_ROUND, 0, sizeof finished_round};
	static const luaL_Reg methods[] = {{"write", l_write}, {"payload", l_payload}, {"finish", l_finish},
					   {"state", l_state}, {"close", l_close}, {"is_inherited", l_is_inherited}, {NULL, NULL}};

	pb_register(L, functions);
	/* a whole record: all earlier records are older than all later ones */
	pb_set_bytes(L, "finished_round", &finished_round, sizeof finished_round);
	pb_new_class(L, PB_WRITER, methods, l_gc);
}

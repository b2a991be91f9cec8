/* See learn.h: LuaJIT's global state, the arrays that belong to it, and the FFI. */
#include "binding/heap/learn.h"

#if PB_LUAJIT
#include "binding/stack/learn_luajit.h"
#include "core/heap/memory.h"
#include "core/stack/unwind_luajit_internal.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u16 pf_heap_u16
#define u8 pf_heap_u8

/* The fields of the global state lie before those of the compiler. */
enum { GLOBAL = PB_LUAJIT_GLOBAL };

static uint64_t object(const struct pb_heap_learner *w, int i)
{
	return pb_address(lua_topointer(w->L, i));
}

/* --- places that are narrowed down ------------------------------------------------------------------------------------ */

struct places {
	uint8_t out[GLOBAL / 4];
};

#define NARROW(places, holds)                         \
	for (unsigned o = 0; o < GLOBAL; o += 4)      \
		if (!(places)->out[o / 4] && !(holds)) \
			(places)->out[o / 4] = 1

static uint16_t only(struct pb_heap_learner *w, const struct places *p, const char *what)
{
	uint16_t place;

	PB_HEAP_FIND(place, 0, GLOBAL, 4, !p->out[o / 4], what);
	return place;
}

static uint64_t at(const struct pb_heap_learner *w, unsigned o)
{
	return word(w->global + o);
}

/* --- lists ------------------------------------------------------------------------------------------------------------ */

static void learn_total(struct pb_heap_learner *w)
{
	struct places p = {{0}};

	for (int i = 0; i < 3; i++) {
		const uint64_t total = (uint64_t)lua_gc(w->L, LUA_GCCOUNT, 0) * 1024 + (uint64_t)lua_gc(w->L, LUA_GCCOUNTB, 0);

		NARROW(&p, o % 8 == 0 && at(w, o) == total);
		lua_newuserdata(w->L, 1000);
		lua_pop(w->L, 1);
	}
	w->l->global_total = only(w, &p, "the collector's count");
}

static void learn_objects(struct pb_heap_learner *w)
{
	struct places p = {{0}};

	for (int i = 0; i < 3; i++) {
		lua_newtable(w->L);
		NARROW(&p, o % 8 == 0 && at(w, o) == object(w, -1));
		lua_pop(w->L, 1);
	}
	w->l->global_objects = only(w, &p, "the list of objects");
}

/* Is this an array of lists, one of which has the string? */
static int has_string(const struct pb_heap_learner *w, uint64_t array, uint64_t string)
{
	for (uint64_t i = 0; i < pb_heap_block(w, array) / 8; i++)
		for (uint64_t s = word(array + 8 * i) & ~UINT64_C(7); pb_heap_block(w, s); s = word(s))
			if (s == string)
				return 1;
	return 0;
}

static void learn_strings(struct pb_heap_learner *w)
{
	enum { MOST = 4096 };
	struct places table = {{0}}, mask = {{0}};
	uint64_t size = 0;
	int sizes = 0;

	lua_createtable(w->L, MOST, 0);
	for (int i = 1; i <= MOST && sizes < 3; i++) {
		lua_pushfstring(w->L, "perf: the string %d", i);
		if (size == 0 || pb_heap_block(w, at(w, w->l->global_strings)) != size) {
			NARROW(&table, o % 8 == 0 && has_string(w, at(w, o), object(w, -1)));
			w->l->global_strings = only(w, &table, "the table of strings");
			size = pb_heap_block(w, at(w, w->l->global_strings));
			NARROW(&mask, u32(w->global + o) == size / 8 - 1);
			sizes++;
		}
		lua_rawseti(w->L, -2, i);
	}
	w->l->global_strings_mask = only(w, &mask, "the size of the table of strings");
	lua_pop(w->L, 1);
}

/* --- roots ------------------------------------------------------------------------------------------------------------ */

void pb_heap_learn_roots(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	uint64_t registry, name;
	unsigned end;

	lua_pushvalue(w->L, LUA_REGISTRYINDEX);
	registry = object(w, -1);
	lua_pop(w->L, 1);
	PB_HEAP_FIND(l->global_registry, 0, GLOBAL, 8, at(w, o) != registry && pf_luajit_address(at(w, o)) == registry, "the registry");
	lua_pushliteral(w->L, "__index");
	name = object(w, -1);
	lua_pop(w->L, 1);
	/* The names of metamethods begin with this one; metatables of types and default files follow. */
	PB_HEAP_FIND(l->global_roots, 0, GLOBAL, 8, at(w, o) == name, "the names of metamethods");
	for (end = l->global_roots; end < GLOBAL && (at(w, end) == 0 || pb_heap_block(w, at(w, end))); end += 8)
		if (at(w, end))
			l->global_roots_end = (uint16_t)(end + 8);
}

/* --- finalizers ------------------------------------------------------------------------------------------------------- */

/* Keep the places that have an object which is not finalized yet: the list no longer has the one that is being finalized. */
static void narrow_finalizing(struct pb_heap_learner *w, struct pb_heap_finalizing *f)
{
	NARROW((struct places *)f->places, o % 8 == 0 && pb_heap_is_waiting(f, at(w, o)));
}

static void learn_finalizing(struct pb_heap_learner *w)
{
	struct places finalizing = {{0}};
	struct pb_heap_finalizing f = {.narrow = narrow_finalizing, .places = &finalizing};

	pb_heap_finalize(w, &f);
	w->l->global_finalizing = only(w, &finalizing, "the list of objects to finalize");
}

void pb_heap_learn_global(struct pb_heap_learner *w)
{
	uint64_t empty;

	lua_pushliteral(w->L, "");
	empty = object(w, -1) - w->global;
	lua_pop(w->L, 1);
	w->l->global_empty = empty < GLOBAL ? (uint16_t)empty : 0;
	learn_total(w);
	learn_objects(w);
	learn_strings(w);
	learn_finalizing(w);
	w->l->state_bytes = (uint32_t)pb_heap_block_of(w, w->global)->size;
}

/* --- the FFI ---------------------------------------------------------------------------------------------------------- */

enum { CDATA = 4, CTYPE_MOST = 64 };

/* Is there a table of types in the FFI's state at `ffi`, in which each number has its size? */
static int find_types(struct pb_heap_learner *w, uint64_t ffi, const unsigned ids[CDATA], const unsigned sizes[CDATA])
{
	struct pb_heap_layout *l = w->l;
	unsigned n = 0;

	for (uint64_t o = 0; o + 8 <= pb_heap_block(w, ffi); o += 8)
		for (unsigned bytes = 8; bytes <= CTYPE_MOST && pb_heap_block(w, word(ffi + o)); bytes += 4)
			for (unsigned place = 0; place < bytes; place += 4) {
				int same = 1;

				for (int i = 0; i < CDATA; i++)
					same = same && (ids[i] + 1) * (uint64_t)bytes <= pb_heap_block(w, word(ffi + o)) &&
					       u32(word(ffi + o) + (uint64_t)ids[i] * bytes + place) == sizes[i];
				if (!same)
					continue;
				n++;
				l->ffi_types = (uint16_t)o;
				l->ctype_bytes = (uint16_t)bytes;
				l->ctype_size = (uint16_t)place;
			}
	return n == 1;
}

static void learn_types(struct pb_heap_learner *w, const unsigned ids[CDATA], const unsigned sizes[CDATA], unsigned attribute, unsigned number)
{
	struct pb_heap_layout *l = w->l;
	uint32_t info;
	uint64_t types;

	PB_HEAP_FIND(l->global_ffi, 0, GLOBAL, 8, pb_heap_block(w, at(w, o)) > 64 && find_types(w, at(w, o), ids, sizes), "the FFI's types");
	l->ffi_bytes = (uint16_t)pb_heap_block(w, at(w, l->global_ffi));
	types = word(at(w, l->global_ffi) + l->ffi_types);
	info = u32(types + attribute * l->ctype_bytes);
	l->ctype_attribute = (uint8_t)(info >> 28);
	l->ctype_sized = (uint8_t)(u32(types + number * l->ctype_bytes) >> 28);
	if ((info & 0xffff) != ids[3] || l->ctype_attribute <= l->ctype_sized)
		pb_heap_fail(w, "an attribute of a C type");
}

static void learn_variable(struct pb_heap_learner *w, uint64_t fixed, uint64_t one, uint64_t two)
{
	enum { HEADER = 16, ONE = 53, TWO = 1001 };
	struct pb_heap_layout *l = w->l;
	const unsigned type = l->l.object_type;
	const uint64_t a = pb_heap_block_of(w, one)->at, b = pb_heap_block_of(w, two)->at;
	const unsigned flag = u8(one + type - 1) & u8(two + type - 1) & ~(unsigned)u8(fixed + type - 1) & 0xffu;

	if (flag == 0 || (flag & (flag - 1)))
		pb_heap_fail(w, "the mark of cdata of variable size");
	l->flag_variable = (uint8_t)flag;
	PB_HEAP_FIND(l->cdata_n, 4, HEADER + 4, 4, o <= one - a && u32(one - o) == ONE && u32(two - o) == TWO, "the length of a cdata");
	PB_HEAP_FIND(l->cdata_offset, 2, HEADER + 2, 2, o <= one - a && u16(one - o) == one - a && u16(two - o) == two - b, "the place of a cdata");
	PB_HEAP_FIND(l->cdata_extra, 2, HEADER + 2, 2,
		     o <= one - a && u16(one - o) == pb_heap_block(w, a) - ONE && u16(two - o) == pb_heap_block(w, b) - TWO, "the header of a cdata");
}

void pb_heap_learn_ffi(struct pb_heap_learner *w)
{
	static const unsigned sizes[CDATA] = {37, 83, 137, 41};
	struct pb_heap_layout *l = w->l;
	uint64_t payload[CDATA], header = 0;
	unsigned ids[CDATA];
	const int top = lua_gettop(w->L);

	pb_heap_run(w,
		    "local ok, ffi = pcall(require, 'ffi')\n"
		    "if not ok then return end\n"
		    "ffi.cdef 'struct perf_41 { char c[41]; }; enum perf_enum { PERF_ENUM };'\n"
		    "local function id(name) return tonumber(ffi.typeof(name)) end\n"
		    "local function new(name, ...) return ffi.new(name, ...), id(name) end\n"
		    "local a, ia = new 'char[37]'\n"
		    "local b, ib = new 'char[83]'\n"
		    "local c, ic = new 'char[137]'\n"
		    "local d, id_ = new 'struct perf_41'\n"
		    "return a, b, c, d, ia, ib, ic, id_, id 'const struct perf_41', id 'enum perf_enum', new('char[?]', 53), new('char[?]', 1001)\n",
		    12);
	if (!lua_isnil(w->L, top + 1)) {
		for (int i = 0; i < CDATA; i++) {
			payload[i] = pb_address(lua_topointer(w->L, top + 1 + i));
			ids[i] = (unsigned)lua_tointeger(w->L, top + 1 + CDATA + i);
		}
		for (unsigned o = 16; o <= 32; o += 8)
			if (pb_heap_block(w, payload[0] - o) == o + sizes[0] && pb_heap_block(w, payload[3] - o) == o + sizes[3])
				header = o;
		if (!header)
			pb_heap_fail(w, "the size of a cdata");
		l->cdata_bytes = (uint16_t)header;
		l->type_cdata = u8(payload[0] - header + l->l.object_type);
		PB_HEAP_FIND(l->cdata_type, 8, header, 2,
			     u16(payload[0] - header + o) == ids[0] && u16(payload[1] - header + o) == ids[1] && u16(payload[3] - header + o) == ids[3],
			     "the type of a cdata");
		learn_types(w, ids, sizes, (unsigned)lua_tointeger(w->L, top + 9), (unsigned)lua_tointeger(w->L, top + 10));
		learn_variable(w, payload[0] - header, pb_address(lua_topointer(w->L, top + 11)) - header,
			       pb_address(lua_topointer(w->L, top + 12)) - header);
	}
	lua_settop(w->L, top);
}
#endif

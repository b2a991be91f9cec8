/* Snapshots of all objects of a Lua state: perf.core.heap_take and heap_learn, and the class Snapshot, from which lua/perf/heap makes
 * perf.heap. An object is known by its number. */
#include "binding/heap/heap.h"

#include <errno.h>
#include <string.h>

#define SNAPSHOT "perf.Snapshot"

/* --- taking ---------------------------------------------------------------------------------------------------------- */

struct snapshot {
	struct pf_heap h; /* empty while the child runs */
	struct pf_heap_child child;
};

static void drop(struct snapshot *s)
{
	pf_heap_abandon(&s->child);
	pf_heap_free(&s->h);
}

/* Makes the userdata of a snapshot. Upvalue 1 of l_take, since a new closure would be memory of the state. */
static int l_keep(lua_State *L)
{
	const struct snapshot *s = lua_touserdata(L, 1);
	struct snapshot *to = pb_new(L, sizeof *to, SNAPSHOT);

	*to = *s;
	return 1;
}

static int refuse(lua_State *L, int r)
{
	if (r == -EBADMSG)
		return pb_refuse(L, r, "heap: an object has an unknown type");
	if (r == -E2BIG)
		return pb_refuse(L, r, "heap: the state has more than %d objects", PF_HEAP_MOST);
	if (r == -ECHILD)
		return pb_refuse(L, r, "heap: the process that took the snapshot was ended before it was done");
	if (r == -ETIMEDOUT)
		return pb_refuse(L, r, "heap: the snapshot is not ready yet");
	return pb_fail(L, r, "heap");
}

static int refuse_to_take(lua_State *L, int r, const char *why)
{
	if (why)
		return pb_refuse(L, r, "heap: the structures of this interpreter were not recognized (%s)", why);
	return refuse(L, r);
}

/* core.heap_take(fork) -> Snapshot */
static int l_take(lua_State *L)
{
	struct snapshot s = {0};
	const char *why = NULL;
	const int r = pb_heap_take(L, &s.h, lua_toboolean(L, 1) ? &s.child : NULL, &why);

	lua_settop(L, 0);
	if (r == 0) {
		lua_pushvalue(L, lua_upvalueindex(1));
		lua_pushlightuserdata(L, &s);
		if (lua_pcall(L, 1, 1, 0) == 0)
			return 1;
		drop(&s);
		return lua_error(L);
	}
	drop(&s);
	return refuse_to_take(L, r, why);
}

/* core.heap_learn() -> true, whether the structures were known already; or nil, message, code. The first heap_take does it too. */
static int l_learn(lua_State *L)
{
	const char *why = NULL;
	int known;
	const int r = pb_heap_find_layout(&known, &why);

	if (r < 0)
		return refuse_to_take(L, r, why);
	lua_pushboolean(L, 1);
	lua_pushboolean(L, known);
	return 2;
}

/* --- the class ------------------------------------------------------------------------------------------------------- */

struct pf_heap *pb_heap_check(lua_State *L)
{
	struct snapshot *s = pb_check(L, 1, SNAPSHOT, "Snapshot");

	return &s->h;
}

static int l_free(lua_State *L)
{
	struct snapshot *s = pb_test(L, 1, SNAPSHOT);

	if (s)
		drop(s);
	return 0;
}

/* s:wait(milliseconds, or -1) -> true once it is ready; nil, message, code */
static int l_wait(lua_State *L)
{
	struct snapshot *s = pb_check(L, 1, SNAPSHOT, "Snapshot");
	int r = 0;

	if (s->child.pid)
		r = pf_heap_receive(&s->child, &s->h, (int)luaL_checkinteger(L, 2));
	if (r < 0)
		return refuse(L, r);
	return pb_bool(L, 1);
}

uint32_t pb_heap_check_object(lua_State *L, const struct pf_heap *h)
{
	const lua_Integer i = luaL_checkinteger(L, 2);

	luaL_argcheck(L, i >= 0 && i <= (lua_Integer)h->n && pf_heap_types(h), 2, "no such object"); /* also if it is closed */
	return (uint32_t)i;
}

static const char *const type_names[PF_HEAP_TYPES] = {"root",    "string",  "table",    "function", "C function", "prototype",
						      "upvalue", "thread",  "userdata", "cdata",    "trace"};
static const char *const part_names[PF_HEAP_PARTS] = {"state", "strings", "buffer", "compiler", "ctypes", "pointers", "unknown"};
static const char *const label_names[PF_HEAP_LABELS] = {"root",      "index",   "key",     "key",       "key",      "value",
							"metatable", "environment", "uservalue", "upvalue", "content",  "prototype",
							"constant",  "slot",    "local",   "code"};
static const char *const root_names[PF_HEAP_ROOTS] = {"globals", "loaded", "registry", "main", "running", "internal", "finalizer", "fixed"};

/* s:sums() -> {total=, counted=, dead=, objects=, peak=, parts={name=bytes}, types={name={count, bytes}}}; types: of live objects */
static int l_sums(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);

	lua_createtable(L, 0, 8);
	pb_set_u64(L, "total", h->total);
	pb_set_u64(L, "counted", h->counted);
	pb_set_u64(L, "dead", h->dead);
	pb_set_u64(L, "dead_objects", h->dead_objects);
	pb_set_u64(L, "objects", h->n);
	pb_set_u64(L, "memory", h->used);
	pb_set_u64(L, "peak", h->peak);
	lua_createtable(L, 0, PF_HEAP_PARTS);
	for (int i = 0; i < PF_HEAP_PARTS; i++)
		if (h->parts[i])
			pb_set_i64(L, part_names[i], h->parts[i]);
	lua_setfield(L, -2, "parts");
	lua_createtable(L, 0, PF_HEAP_TYPES);
	for (int i = 1; i < PF_HEAP_TYPES; i++) {
		if (!h->live[i].objects)
			continue;
		lua_createtable(L, 2, 0);
		pb_push_u64(L, h->live[i].objects);
		lua_rawseti(L, -2, 1);
		pb_push_u64(L, h->live[i].bytes);
		lua_rawseti(L, -2, 2);
		lua_setfield(L, -2, type_names[i]);
	}
	lua_setfield(L, -2, "types");
	return 1;
}

/* s:object(i) -> type, size, retained, shared, owner, edge by which it is reached or nil if it is dead; 0 is the root */
static int l_object(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t i = pb_heap_check_object(L, h);

	lua_pushstring(L, type_names[pf_heap_types(h)[i]]);
	pb_push_u64(L, pf_heap_sizes(h)[i]);
	pb_push_u64(L, pf_heap_retained(h)[i]);
	pb_push_u64(L, pf_heap_shared(h)[i]);
	lua_pushinteger(L, (lua_Integer)pf_heap_owners(h)[i]);
	if (!pf_heap_vias(h)[i])
		return 5;
	lua_pushinteger(L, (lua_Integer)pf_heap_vias(h)[i] - 1);
	return 6;
}

/* s:text(i) -> the text of a string or a prototype, or nil */
static int l_text(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t at = pf_heap_texts_at(h)[pb_heap_check_object(L, h)];
	size_t n;
	const char *text = pf_heap_text_at(h, at, &n);

	if (!at)
		return pb_nil(L);
	lua_pushlstring(L, text, n);
	return 1;
}

static void push_value(lua_State *L, const struct pf_heap_value *v)
{
	lua_Number number;

	memcpy(&number, &v->bits, sizeof number);
	if (v->type == PF_HEAP_NUMBER_KEY)
		lua_pushnumber(L, number);
	else if (v->type == PF_HEAP_INTEGER_KEY)
		pb_push_i64(L, (int64_t)v->bits);
	else if (v->type == PF_HEAP_BOOLEAN_KEY)
		lua_pushboolean(L, v->bits != 0);
	else
		lua_pushliteral(L, "light userdata");
}

/* Pushes what describes an edge: holder, label, and its number: of the slot, the key's object ...; a root's name; a key that is no
 * object. Returns 3. */
static int push_edge(lua_State *L, const struct pf_heap *h, uint32_t edge)
{
	const struct pf_heap_edge *e = pf_heap_edges(h) + edge;
	const enum pf_heap_label label = pf_heap_label(e);
	const uint32_t n = pf_heap_number(e);
	size_t size;
	const char *text;

	lua_pushinteger(L, (lua_Integer)pf_heap_holder(h, edge));
	lua_pushstring(L, label_names[label]);
	if (label == PF_HEAP_BY_ROOT) {
		lua_pushstring(L, n < PF_HEAP_ROOTS ? root_names[n] : "?");
	} else if (label == PF_HEAP_BY_VALUE) {
		push_value(L, pf_heap_values(h) + n);
	} else if (label == PF_HEAP_BY_LOCAL) {
		text = pf_heap_text_at(h, n, &size);
		lua_pushlstring(L, text, size);
	} else {
		lua_pushinteger(L, (lua_Integer)n);
	}
	return 3;
}

/* s:edge(e) -> holder, label, number; s:edge_to(e) -> the object, by its number */
static int l_edge(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const lua_Integer e = luaL_checkinteger(L, 2);

	luaL_argcheck(L, e >= 0 && (uint64_t)e < h->a[PF_HEAP_EDGES].bytes / sizeof(struct pf_heap_edge), 2, "no such edge");
	push_edge(L, h, (uint32_t)e);
	lua_pushinteger(L, (lua_Integer)pf_heap_edges(h)[e].to);
	return 4;
}

/* The distance from a userdata object's address to the address that programs see: its uservalues are between them. */
static uint64_t payload(lua_State *L, int i, const struct pf_heap *h, enum pf_heap_type type)
{
#if LUA_VERSION_NUM >= 504
	enum { VALUE = 16 };
	int n = 0, is;

	for (; type == PF_HEAP_USERDATA; n++) {
		is = lua_getiuservalue(L, i, n + 1) != LUA_TNONE;
		lua_pop(L, 1);
		if (!is)
			break;
	}
	if (n)
		return h->payload_more + (uint64_t)n * VALUE;
#else
	(void)L;
	(void)i;
#endif
	return h->payload[type];
}

uint32_t pb_heap_object(lua_State *L, int i, const struct pf_heap *h)
{
	enum { CDATA = 10 }; /* LuaJIT's type, which has no name in its headers */
	const int type = lua_type(L, i);
	const enum pf_heap_type of = type == LUA_TSTRING     ? PF_HEAP_STRING
				     : type == LUA_TTABLE    ? PF_HEAP_TABLE
				     : type == LUA_TFUNCTION ? (lua_iscfunction(L, i) ? PF_HEAP_C_FUNCTION : PF_HEAP_FUNCTION)
				     : type == LUA_TUSERDATA ? PF_HEAP_USERDATA
				     : type == LUA_TTHREAD   ? PF_HEAP_THREAD
				     : type == CDATA         ? PF_HEAP_CDATA
							     : PF_HEAP_ROOT;
	const void *p = of == PF_HEAP_STRING ? lua_tostring(L, i) : of != PF_HEAP_ROOT ? lua_topointer(L, i) : NULL;
	const uint32_t found = p ? pf_heap_find(h, (uintptr_t)p - payload(L, i, h, of)) : 0;

	return found && pf_heap_types(h)[found] == of ? found : 0;
}

/* s:find(value) -> the object's number, or nil. An object that was garbage is not found: its address may belong to a later object now. */
static int l_find(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t i = pb_heap_object(L, 2, h);

	if (!i || !pf_heap_vias(h)[i])
		return pb_nil(L);
	lua_pushinteger(L, (lua_Integer)i);
	return 1;
}

/* s:same(i, other) -> the number of the object of the same type at the same address in another snapshot, or nil. It may be another
 * object: one of them may have been freed before the other was made. */
static int l_same(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L), *other = &((struct snapshot *)pb_check(L, 3, SNAPSHOT, "Snapshot"))->h;
	const uint32_t i = pb_heap_check_object(L, h), there = i ? pf_heap_find(other, pf_heap_address(h, i)) : 0;

	if (!there || pf_heap_types(other)[there] != pf_heap_types(h)[i] || !pf_heap_vias(other)[there])
		return pb_nil(L);
	lua_pushinteger(L, (lua_Integer)there);
	return 1;
}

/* s:holders(i, most) -> {edge ...}, by which objects that are alive refer to it */
static int l_holders(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t i = pb_heap_check_object(L, h), *first = pf_heap_firsts(h);
	const struct pf_heap_edge *e = pf_heap_edges(h);
	const lua_Integer most = luaL_checkinteger(L, 3);
	int n = 0;

	lua_newtable(L);
	for (uint32_t from = 0; from <= h->n && n < most; from++) {
		if (from && !pf_heap_vias(h)[from])
			continue;
		for (uint32_t k = first[from]; k < first[from + 1] && n < most; k++)
			if (e[k].to == i || (pf_heap_holds_key(e + k) && pf_heap_number(e + k) == i)) {
				lua_pushinteger(L, (lua_Integer)k);
				lua_rawseti(L, -2, ++n);
			}
	}
	return 1;
}

/* Does the edge have this label, and this number, key or name at index 4? */
static int is_edge(lua_State *L, const struct pf_heap *h, uint32_t edge, const char *label, size_t label_size, const char *text, size_t size)
{
	const struct pf_heap_edge *e = pf_heap_edges(h) + edge;
	const char *name = label_names[pf_heap_label(e)], *own;
	size_t n;
	int same;

	if (strlen(name) != label_size || memcmp(name, label, label_size) != 0)
		return 0;
	switch (pf_heap_label(e)) {
	case PF_HEAP_BY_KEY:
	case PF_HEAP_BY_WEAK_KEY:
	case PF_HEAP_BY_EPHEMERON:
		own = pf_heap_text_at(h, pf_heap_texts_at(h)[pf_heap_number(e)], &n);
		return text && n == size && pf_heap_types(h)[pf_heap_number(e)] == PF_HEAP_STRING && memcmp(own, text, n) == 0;
	case PF_HEAP_BY_LOCAL:
		own = pf_heap_text_at(h, pf_heap_number(e), &n);
		return text && n >= size && memcmp(own, text, size) == 0; /* the line may be another */
	case PF_HEAP_BY_ROOT:
		own = root_names[pf_heap_number(e)];
		return text && strlen(own) == size && memcmp(own, text, size) == 0;
	case PF_HEAP_BY_VALUE:
		push_value(L, pf_heap_values(h) + pf_heap_number(e));
		same = lua_rawequal(L, -1, 4);
		lua_pop(L, 1);
		return same;
	default:
		return !text && lua_tonumber(L, 4) == (lua_Number)pf_heap_number(e);
	}
}

/* s:step(i, label, number) -> the object to which an edge of object i with this label leads, or nil. A key is given by its text. */
static int l_step(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t i = pb_heap_check_object(L, h);
	size_t label_size, size = 0;
	const char *label = luaL_checklstring(L, 3, &label_size);
	const char *text = lua_type(L, 4) == LUA_TSTRING ? lua_tolstring(L, 4, &size) : NULL;

	for (uint32_t e = pf_heap_firsts(h)[i]; e < pf_heap_firsts(h)[i + 1]; e++)
		if (pf_heap_edges(h)[e].to && is_edge(L, h, e, label, label_size, text, size)) {
			lua_pushinteger(L, (lua_Integer)pf_heap_edges(h)[e].to);
			return 1;
		}
	return pb_nil(L);
}

static const luaL_Reg methods[] = {{"sums", l_sums}, {"object", l_object},   {"text", l_text},       {"edge", l_edge},
				   {"find", l_find}, {"holders", l_holders}, {"choose", pb_heap_choose}, {"step", l_step}, {"same", l_same},
				   {"go_on", pb_heap_go_on}, {"references", pb_heap_references}, {"wait", l_wait}, {"close", l_free}, {NULL, NULL}};

void pb_open_heap(lua_State *L)
{
	pb_new_class(L, SNAPSHOT, methods, l_free);
	lua_pushcfunction(L, l_keep);
	lua_pushcclosure(L, l_take, 1);
	lua_setfield(L, -2, "heap_take");
	pb_set_function(L, "heap_learn", l_learn);
}

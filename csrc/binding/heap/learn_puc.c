/* See learn.h: the values, strings, tables and userdata of PUC Lua. */
#include "binding/heap/learn.h"

#if PB_HEAP_IS_KNOWN && !PB_LUAJIT
#include "core/heap/memory.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u16 pf_heap_u16
#define u8 pf_heap_u8

enum { HEADER = 16 }; /* all objects begin with a pointer, their type and their marks */

uint64_t pb_heap_at(const struct pb_heap_learner *w, int i)
{
	if (lua_type(w->L, i) == LUA_TSTRING)
		return pb_address(lua_tostring(w->L, i)) - w->l->string_text;
	return pb_address(lua_topointer(w->L, i));
}

static uint8_t type(const struct pb_heap_learner *w, uint64_t at)
{
	return u8(at + w->l->object_type);
}

/* --- values ---------------------------------------------------------------------------------------------------------- */

static int nothing(lua_State *L)
{
	(void)L;
	return 0;
}

/* Values, as upvalues of a C function. */
enum { V_NIL, V_FALSE, V_TRUE, V_POINTER, V_FLOAT, V_INTEGER, V_STRING, V_LONG, V_TABLE, V_OTHER, V_LUA, V_C, V_PLAIN, V_USERDATA, V_THREAD, VALUES };

static uint64_t push_values(struct pb_heap_learner *w)
{
	lua_State *L = w->L;

	lua_pushnil(L);
	lua_pushboolean(L, 0);
	lua_pushboolean(L, 1);
	lua_pushlightuserdata(L, w);
	lua_pushnumber(L, 1.5);
	lua_pushinteger(L, 4711);
	lua_pushliteral(L, "perf");
	lua_pushliteral(L, "perf: a string that is longer than all that are kept in the table of strings");
	lua_newtable(L);
	lua_newtable(L);
	pb_heap_run(w, "return function() end", 1);
	lua_pushnil(L);
	lua_pushcclosure(L, nothing, 1);
	lua_pushcfunction(L, nothing);
	pb_newplain(L, 8);
	lua_newthread(L);
	lua_pushcclosure(L, nothing, VALUES);
	return pb_heap_at(w, -1);
}

static void learn_tags(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t f = push_values(w);
	uint64_t v;

#define TAG(i) u8(v + (uint64_t)(V_##i) * l->value_bytes + o)
	lua_pushnil(w->L);
	lua_pushcclosure(w->L, nothing, 1);
	v = pb_heap_block(w, pb_heap_at(w, -1));
	l->value_bytes = (uint16_t)((pb_heap_block(w, f) - v) / (VALUES - 1));
	l->function_c_upvalues = (uint16_t)(v - l->value_bytes);
	if (pb_heap_block(w, f) != l->function_c_upvalues + (uint64_t)VALUES * l->value_bytes || l->value_bytes < 16)
		pb_heap_fail(w, "the upvalues of a C function");
	v = f + l->function_c_upvalues;
	PB_HEAP_FIND(l->value_tag, 8, l->value_bytes, 1,
		     TAG(TABLE) == TAG(OTHER) && TAG(TABLE) != TAG(STRING) && TAG(TABLE) != TAG(NIL) && TAG(STRING) != TAG(POINTER) &&
			     TAG(FLOAT) != TAG(TABLE) && TAG(THREAD) != TAG(USERDATA),
		     "the type of a value");
	for (int i = 0; i < VALUES; i++) {
		const uint64_t at = v + (uint64_t)i * l->value_bytes;

		if (i >= V_STRING && (i < V_PLAIN || i > V_PLAIN || pb_heap_block(w, word(at))))
			l->values[u8(at + l->value_tag)] = PF_HEAP_OBJECT;
	}
	for (unsigned o = l->value_tag, nil = 0; nil < 256; nil += 16) /* variants of nil are empty places of a table */
		if (l->values[nil | TAG(NIL)] == PF_HEAP_NO_OBJECT)
			l->values[nil | TAG(NIL)] = PF_HEAP_NIL;
	for (unsigned o = l->value_tag, once = 1; once; once = 0) {
		l->values[TAG(POINTER)] = PF_HEAP_POINTER;
		l->values[TAG(INTEGER)] = PF_HEAP_INTEGER;
		l->values[TAG(FLOAT)] = PF_HEAP_FLOAT; /* the same one before 5.3 */
		l->values[TAG(TRUE)] = PF_HEAP_TRUE;
		l->values[TAG(FALSE)] = TAG(FALSE) == TAG(TRUE) ? PF_HEAP_BOOLEAN : PF_HEAP_FALSE;
		if (l->values[TAG(NIL)] != PF_HEAP_NIL || l->values[TAG(TABLE)] != PF_HEAP_OBJECT)
			pb_heap_fail(w, "the types of values");
	}
#undef TAG
	v = word(v + (uint64_t)V_TABLE * l->value_bytes);
	PB_HEAP_FIND(l->object_type, 8, HEADER, 1,
		     u8(v + o) == LUA_TTABLE && (u8(f + o) & 15) == LUA_TFUNCTION &&
			     u8(word(f + l->function_c_upvalues + (uint64_t)V_THREAD * l->value_bytes) + o) == LUA_TTHREAD,
		     "the type of an object");
	l->object_marks = (uint16_t)(l->object_type + 1);
	l->types[type(w, v)] = PF_HEAP_TABLE;
	l->types[type(w, f)] = PF_HEAP_FUNCTION;
	l->types[LUA_TTHREAD] = PF_HEAP_THREAD;
	lua_pop(w->L, 2);
}

/* --- strings --------------------------------------------------------------------------------------------------------- */

enum { SHORT = 17, SHORT_END = 38, LONG = 60, LONG_END = 90 };
static const char characters[] = "perf: a text that is not there yet, of 90 bytes, which is longer than those that are interned";

/* Pushes two strings of different lengths, and removes them; no collection runs meanwhile. */
static void two_strings(struct pb_heap_learner *w, size_t a, size_t b, uint64_t at[2])
{
	lua_pushlstring(w->L, characters, a);
	lua_pushlstring(w->L, characters, b);
	at[0] = pb_heap_at(w, -2);
	at[1] = pb_heap_at(w, -1);
	lua_pop(w->L, 2);
}

static void learn_strings(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	uint64_t few[2], many[2];

	two_strings(w, SHORT, SHORT_END, few); /* the places of the text: string_text is not known yet */
	two_strings(w, LONG, LONG_END, many);
	PB_HEAP_FIND(l->string_text, HEADER, 64, 8,
		     pb_heap_block(w, few[0] - o) == o + SHORT + 1 && pb_heap_block(w, few[1] - o) == o + SHORT_END + 1 &&
			     pb_heap_block(w, many[0] - o) == o + LONG + 1 && pb_heap_block(w, many[1] - o) == o + LONG_END + 1,
		     "the size of a string");
	for (int i = 0; i < 2; i++) {
		few[i] -= l->string_text;
		many[i] -= l->string_text;
	}
	l->types[type(w, few[0])] = l->types[type(w, many[0])] = PF_HEAP_STRING;
	PB_HEAP_FIND(l->string_size, 8, l->string_text, 8, word(many[0] + o) == LONG && word(many[1] + o) == LONG_END, "the length of a string");
	l->string_short = type(w, few[0]);
	l->string_short_size = PF_HEAP_NOWHERE;
	if (word(few[0] + l->string_size) == SHORT && word(few[1] + l->string_size) == SHORT_END)
		return;
	if (l->string_short == type(w, many[0]))
		pb_heap_fail(w, "the type of a string");
	PB_HEAP_FIND(l->string_short_size, l->object_type + 1u, l->string_text, 1, u8(few[0] + o) == SHORT && u8(few[1] + o) == SHORT_END,
		     "the length of a short string");
}

/* --- tables ---------------------------------------------------------------------------------------------------------- */

enum { ARRAY = 100, FEWER = 37, NODES = 32, FEWER_NODES = 4, ROUNDED = 8 };

static uint64_t new_table(struct pb_heap_learner *w, int array, int hash)
{
	lua_createtable(w->L, array, hash);
	return pb_heap_at(w, -1);
}

/* The length of an array may be remembered in place of its size, which is then the next power of two. */
static void learn_rounding(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t t = new_table(w, ROUNDED, 0);
	uint8_t before[HEADER], bits;

	for (int i = 1; i < ROUNDED - 2; i++) {
		lua_pushboolean(w->L, 1);
		lua_rawseti(w->L, -2, i);
	}
	memcpy(before, (const void *)(uintptr_t)t, HEADER);
	if (pb_rawlen(w->L, -1) != ROUNDED - 3)
		pb_heap_fail(w, "the length of a table");
	if (u32(t + l->table_array_n) != ROUNDED) {
		PB_HEAP_FIND(l->table_flags, l->object_type + 1u, HEADER, 1, u8(t + o) != before[o] && o < l->table_array_n, "the flags of a table");
		bits = u8(t + l->table_flags) & (uint8_t)~before[l->table_flags];
		if (bits == 0 || (bits & (bits - 1)))
			pb_heap_fail(w, "the flags of a table");
		l->table_rounded = bits;
	}
	lua_pop(w->L, 1);
}

/* A table with two nodes, of which the one with the key on top of the stack is in use: that node. */
static uint64_t new_node(struct pb_heap_learner *w, double value)
{
	const uint64_t t = new_table(w, 0, 2);
	uint64_t n = word(t + w->l->table_node), bits;

	memcpy(&bits, &value, sizeof bits);
	lua_insert(w->L, -2);
	lua_pushnumber(w->L, value);
	lua_rawset(w->L, -3);
	for (int i = 0; i < 2; i++, n += w->l->node_bytes)
		for (unsigned o = 0; o < w->l->node_bytes; o += 8)
			if (word(n + o) == bits)
				return n;
	pb_heap_fail(w, "a table's node");
}

static void learn_nodes(struct pb_heap_learner *w)
{
	enum { KEYS = 3 };
	static const double values[KEYS] = {1234567.890625, 2345678.90625, 3456789.0625};
	struct pb_heap_layout *l = w->l;
	uint64_t n[KEYS], bits[KEYS], key, pointer;

	memcpy(bits, values, sizeof bits);
	lua_pushliteral(w->L, "perf: a key");
	key = pb_heap_at(w, -1);
	n[0] = new_node(w, values[0]);
	lua_pushlightuserdata(w->L, w);
	pointer = pb_address(w);
	n[1] = new_node(w, values[1]);
	lua_pushvalue(w->L, -1);
	n[2] = new_node(w, values[2]);
	PB_HEAP_FIND(l->node_key, 0, l->node_bytes, 8, word(n[0] + o) == key && word(n[1] + o) == pointer && word(n[2] + o) == pb_heap_at(w, -2),
		     "a table's key");
	PB_HEAP_FIND(l->node_value, 0, l->node_bytes, 8, word(n[0] + o) == bits[0] && word(n[1] + o) == bits[1] && word(n[2] + o) == bits[2],
		     "a table's value");
	PB_HEAP_FIND(l->node_key_tag, 0, l->node_bytes, 1,
		     (o < l->node_key || o >= l->node_key + 8u) && (o < l->node_value || o >= l->node_value + 8u) &&
			     l->values[u8(n[0] + o)] == PF_HEAP_OBJECT && l->values[u8(n[1] + o)] == PF_HEAP_POINTER &&
			     (u8(n[2] + o) & 15) == LUA_TTABLE && l->values[u8(n[2] + o)] == PF_HEAP_OBJECT,
		     "the type of a table's key");
	lua_pop(w->L, KEYS);
}

static void learn_tables(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t empty = new_table(w, 0, 0), array = new_table(w, ARRAY, 0), fewer = new_table(w, FEWER, 0),
		       nodes = new_table(w, 0, NODES - 4), few = new_table(w, 0, FEWER_NODES - 1), meta = new_table(w, 0, 0);
	const uint64_t size = pb_heap_block(w, empty);

	if (size < HEADER || size > 96)
		pb_heap_fail(w, "the size of a table");
	l->table_bytes = (uint16_t)size;
	PB_HEAP_FIND(l->table_array, 8, size, 8,
		     pb_heap_block(w, word(array + o)) == (uint64_t)ARRAY * l->value_bytes && pb_heap_block(w, word(fewer + o)) == (uint64_t)FEWER * l->value_bytes,
		     "a table's array");
	PB_HEAP_FIND(l->table_array_n, 8, size, 4, u32(array + o) == ARRAY && u32(fewer + o) == FEWER && !u32(empty + o), "the size of a table's array");
	PB_HEAP_FIND(l->table_node, 8, size, 8,
		     pb_heap_block(w, word(nodes + o)) && pb_heap_block(w, word(few + o)) && !pb_heap_block(w, word(empty + o)) &&
			     word(empty + o) == word(array + o) && word(empty + o),
		     "a table's nodes");
	l->no_node = word(empty + l->table_node);
	l->node_bytes = (uint16_t)(pb_heap_block(w, word(nodes + l->table_node)) / NODES);
	if (pb_heap_block(w, word(few + l->table_node)) != FEWER_NODES * (uint64_t)l->node_bytes || l->node_bytes < 2 * HEADER - 8)
		pb_heap_fail(w, "the size of a table's nodes");
	PB_HEAP_FIND(l->table_node_power, 9, size, 1, u8(nodes + o) == 5 && u8(few + o) == 2 && !u8(empty + o), "the number of a table's nodes");
	lua_setmetatable(w->L, -6);
	PB_HEAP_FIND(l->table_metatable, 8, size, 8, word(empty + o) == meta, "a table's metatable");
	lua_pop(w->L, 5);
	learn_rounding(w);
	learn_nodes(w);
}

/* Does a table with weak keys hold a value that alone refers to its key? */
static void learn_ephemerons(struct pb_heap_learner *w)
{
	pb_heap_run(w, "keys = setmetatable({}, {__mode = 'k'}) local key = {} keys[key] = {key}", 0);
	lua_gc(w->L, LUA_GCCOLLECT, 0);
	lua_gc(w->L, LUA_GCSTOP, 0);
	pb_heap_run(w, "local key = next(keys) keys = nil return key", 1);
	w->l->has_ephemerons = lua_isnil(w->L, -1);
	lua_pop(w->L, 1);
}

/* --- userdata -------------------------------------------------------------------------------------------------------- */

enum { ONE = 40, TWO = 72 };

static uint16_t payload_header(struct pb_heap_learner *w, uint64_t payload, unsigned size)
{
	for (unsigned o = 16; o <= 96; o += 8)
		if (pb_heap_block(w, payload - o) == o + size)
			return (uint16_t)o;
	pb_heap_fail(w, "the size of a userdata");
}

#if LUA_VERSION_NUM >= 504
static void learn_uservalues(struct pb_heap_learner *w, uint64_t none)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t one = pb_address(lua_newuserdatauv(w->L, ONE, 1)), three = pb_address(lua_newuserdatauv(w->L, TWO, 3));
	const unsigned n = payload_header(w, one, ONE), more = payload_header(w, three, TWO);
	const uint64_t a = one - n, b = three - more, value = new_table(w, 0, 0);

	if (more - n != 2u * l->value_bytes)
		pb_heap_fail(w, "the size of uservalues");
	l->userdata_bytes_more = (uint16_t)(n - l->value_bytes);
	lua_setiuservalue(w->L, -3, 1);
	PB_HEAP_FIND(l->userdata_values_n, 8, HEADER, 2, u16(none + o) == 0 && u16(a + o) == 1 && u16(b + o) == 3, "the number of uservalues");
	PB_HEAP_FIND(l->userdata_value, 8, n, 8, word(a + o) == value && o == l->userdata_bytes_more, "the uservalues");
	l->userdata_value_tag = (uint16_t)(l->userdata_value + l->value_tag);
	lua_pop(w->L, 2);
}
#elif LUA_VERSION_NUM >= 502
static void learn_uservalues(struct pb_heap_learner *w, uint64_t at)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t value = new_table(w, 0, 0);
	uint8_t with[64];

	lua_setuservalue(w->L, -2);
	PB_HEAP_FIND(l->userdata_value, 8, l->userdata_bytes, 8, word(at + o) == value, "the uservalue");
	memcpy(with, (const void *)(uintptr_t)at, l->userdata_bytes);
#if LUA_VERSION_NUM >= 503 /* any value; before, a table */
	lua_pushnumber(w->L, 1.5);
	lua_setuservalue(w->L, -2);
	PB_HEAP_FIND(l->userdata_value_tag, 8, HEADER, 1,
		     l->values[with[o]] == PF_HEAP_OBJECT && (with[o] & 15) == LUA_TTABLE && l->values[u8(at + o)] == PF_HEAP_FLOAT, "the type of a uservalue");
#endif
}
#else
static void learn_uservalues(struct pb_heap_learner *w, uint64_t at)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t env = new_table(w, 0, 0);

	lua_setfenv(w->L, -2);
	PB_HEAP_FIND(l->userdata_env, 8, l->userdata_bytes, 8, word(at + o) == env, "the environment of a userdata");
}
#endif

static void learn_userdata(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t one = pb_address(pb_newplain(w->L, ONE)), two = pb_address(pb_newplain(w->L, TWO));
	const unsigned header = payload_header(w, one, ONE);
	const uint64_t at = one - header, meta = new_table(w, 0, 0);

	lua_setmetatable(w->L, -3);
	l->types[type(w, at)] = PF_HEAP_USERDATA;
	l->userdata_bytes = l->userdata_bytes_more = (uint16_t)header;
	PB_HEAP_FIND(l->userdata_n, 8, header, 8, word(at + o) == ONE && word(two - header + o) == TWO, "the length of a userdata");
	PB_HEAP_FIND(l->userdata_metatable, 8, header, 8, word(at + o) == meta, "the metatable of a userdata");
	lua_pop(w->L, 1);
	learn_uservalues(w, at);
	lua_pop(w->L, 1);
}

void pb_heap_learn_values(struct pb_heap_learner *w)
{
	learn_tags(w);
	learn_strings(w);
	learn_tables(w);
	learn_ephemerons(w);
	learn_userdata(w);
}
#endif

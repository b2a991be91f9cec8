/* See learn.h: the objects of LuaJIT. */
#include "binding/heap/learn.h"

#if PB_LUAJIT
#include <lualib.h>

#include "core/heap/memory.h"
#include "core/stack/unwind_luajit_internal.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u16 pf_heap_u16
#define u8 pf_heap_u8

static uint64_t object(const struct pb_heap_learner *w, int i)
{
	return pb_address(lua_topointer(w->L, i));
}

/* Is this a value that has the object? */
static int is_value(uint64_t at, uint64_t to)
{
	return pf_luajit_address(word(at)) == to && word(at) != to;
}

static uint8_t type(const struct pb_heap_learner *w, uint64_t at)
{
	return u8(at + w->l->l.object_type);
}

static uint8_t flags(const struct pb_heap_learner *w, uint64_t at)
{
	return u8(at + w->l->l.object_type - 1u);
}

/* The one bit of `set` that is not in `clear`. */
static uint8_t only_bit(struct pb_heap_learner *w, unsigned set, unsigned clear, const char *what)
{
	set &= ~clear & 0xff;
	if (set == 0 || (set & (set - 1)))
		pb_heap_fail(w, what);
	return (uint8_t)set;
}

/* --- strings --------------------------------------------------------------------------------------------------------- */

static void learn_strings(struct pb_heap_learner *w)
{
	static const char *const fixed[] = {"while", "function", "and", "nil", "end"};
	unsigned set = 0xff, clear = 0, rounds = 0;
	uint64_t at;

	for (unsigned i = 0; i < sizeof fixed / sizeof *fixed; i++) {
		lua_pushstring(w->L, fixed[i]);
		set &= flags(w, object(w, -1));
		lua_pop(w->L, 1);
	}
	for (unsigned round = 0; round < 16; round = 2 * round + 1) {
		int fits = 1;

		for (unsigned n = 17; n < 40; n++) {
			lua_pushlstring(w->L, "perf: a text that is not there yet, of 40 bytes", n);
			at = object(w, -1);
			clear |= flags(w, at);
			fits = fits && pb_heap_block(w, at) == w->l->l.string_text + ((n + 1 + round) & ~(uint64_t)round);
			w->l->type_string = type(w, at);
			lua_pop(w->L, 1);
		}
		rounds += (unsigned)fits;
		if (fits)
			w->l->string_round = (uint8_t)round;
	}
	if (rounds != 1)
		pb_heap_fail(w, "the size of a string");
	w->l->flag_fixed = only_bit(w, set, clear, "the mark of strings that are never freed");
}

/* --- tables ---------------------------------------------------------------------------------------------------------- */

enum { TABLE = 96, NODES = 32, ARRAY = 100, ONE_KEY = 2 };

static uint64_t new_table(struct pb_heap_learner *w, int array, int hash)
{
	lua_createtable(w->L, array, hash);
	return object(w, -1);
}

static void learn_nodes(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const double value = 1234567.890625;
	const uint64_t t = new_table(w, 0, ONE_KEY);
	uint64_t node = 0, bits, key;

	memcpy(&bits, &value, sizeof bits);
	lua_pushliteral(w->L, "perf: a key");
	key = object(w, -1);
	lua_pushnumber(w->L, value);
	lua_settable(w->L, -3);
	for (uint64_t n = word(t + l->table_node), i = 0; i < ONE_KEY; i++)
		for (unsigned o = 0; o < l->node_bytes; o += 8)
			if (word(n + i * l->node_bytes + o) == bits)
				node = n + i * l->node_bytes;
	if (!node)
		pb_heap_fail(w, "a table's key");
	PB_HEAP_FIND(l->node_key, 0, l->node_bytes, 8, is_value(node + o, key), "a table's key");
	PB_HEAP_FIND(l->node_value, 0, l->node_bytes, 8, word(node + o) == bits, "a table's value");
	lua_pop(w->L, 1);
}

static void learn_tables(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t empty = new_table(w, 0, 0), small = new_table(w, 3, 0), more = new_table(w, 6, 0), array = new_table(w, ARRAY, 0),
		       nodes = new_table(w, 0, NODES - 4);
	const uint64_t size = pb_heap_block(w, empty), n = (pb_heap_block(w, small) - size) / 8, m = (pb_heap_block(w, more) - size) / 8;

	if (!size || size > TABLE || n < 3 || m < 6)
		pb_heap_fail(w, "the size of a table");
	l->type_table = type(w, empty);
	l->table_bytes = (uint16_t)size;
	PB_HEAP_FIND(l->table_colocated, 8, size, 1, u8(small + o) == n && u8(more + o) == m && !u8(empty + o) && !u8(array + o) && o < 16,
		     "a table's values beside it");
	PB_HEAP_FIND(l->table_array, 8, size, 8, pb_heap_block(w, word(array + o)) >= 8 * ARRAY && word(small + o) == small + size,
		     "a table's array");
	PB_HEAP_FIND(l->table_array_n, 8, size, 4,
		     (uint64_t)u32(array + o) * 8 == pb_heap_block(w, word(array + l->table_array)) && u32(small + o) == n && u32(more + o) == m &&
			     !u32(nodes + o),
		     "the size of a table's array");
	PB_HEAP_FIND(l->table_node, 8, size, 8, pb_heap_block(w, word(nodes + o)) && !pb_heap_block(w, word(empty + o)), "a table's nodes");
	PB_HEAP_FIND(l->table_node_mask, 8, size, 4, u32(nodes + o) == NODES - 1 && !u32(empty + o) && !u32(array + o),
		     "the number of a table's nodes");
	l->node_bytes = (uint16_t)(pb_heap_block(w, word(nodes + l->table_node)) / NODES);
	lua_pushvalue(w->L, -4);
	lua_setmetatable(w->L, -6);
	PB_HEAP_FIND(l->table_metatable, 8, size, 8, word(empty + o) == small, "a table's metatable");
	learn_nodes(w);
	lua_pop(w->L, 5);
}

/* --- userdata -------------------------------------------------------------------------------------------------------- */

static uint64_t payload_header(struct pb_heap_learner *w, uint64_t payload, const char *what)
{
	for (uint64_t o = 16; o <= 96; o += 8)
		if (pb_heap_block(w, payload - o) > o)
			return o;
	pb_heap_fail(w, what);
}

static void learn_buffers(struct pb_heap_learner *w, uint64_t plain)
{
	enum { KINDS = 16 };
	struct pb_heap_layout *l = w->l;
	uint64_t full, shared, string;
	unsigned n;

	pb_heap_run(w,
		    "local ok, buffer = pcall(require, 'string.buffer')\n"
		    "if not ok then return end\n"
		    "local text = ('a text'):rep(20)\n"
		    "local full = buffer.new():put(text, text, text)\n"
		    "full:get(3)\n"
		    "return full, buffer.new():set(text), text\n",
		    3);
	full = object(w, -3) - l->userdata_bytes;
	shared = object(w, -2) - l->userdata_bytes;
	string = object(w, -1);
	if (string) {
		n = u32(full + l->userdata_n);
		/* The byte behind it has any value. */
		PB_HEAP_FIND(l->userdata_kind, l->l.object_type + 1u, l->l.object_type + 3u, 1,
			     u8(full + o) && u8(full + o) < KINDS && u8(full + o) == u8(shared + o) && !u8(plain + o), "the kind of a userdata");
		l->buffer_kind = u8(full + l->userdata_kind);
		full += l->userdata_bytes;
		shared += l->userdata_bytes;
		PB_HEAP_FIND(l->buffer_string, 0, n, 8, word(shared + o) == string, "the string of a buffer");
		PB_HEAP_FIND(l->buffer_end, 0, n, 8, pb_heap_block_of(w, word(full + o) - 1) && !pb_heap_block_of(w, word(full + o)),
			     "the end of a buffer");
		PB_HEAP_FIND(l->buffer_begin, 0, n, 8,
			     pb_heap_block(w, word(full + o)) && word(full + o) + pb_heap_block(w, word(full + o)) == word(full + l->buffer_end),
			     "the begin of a buffer");
		PB_HEAP_FIND(l->buffer_flags, 0, n, 8,
			     word(full + o) != word(shared + o) && word(full + o) > 7 && word(full + o) >> 3 == word(shared + o) >> 3,
			     "the flags of a buffer");
		l->buffer_shared =
			only_bit(w, (unsigned)word(shared + l->buffer_flags) & 7, (unsigned)word(full + l->buffer_flags), "a buffer's flags");
	}
	lua_pop(w->L, 3);
}

static void learn_userdata(struct pb_heap_learner *w)
{
	enum { ONE = 40, TWO = 72 };
	struct pb_heap_layout *l = w->l;
	const uint64_t one = pb_address(lua_newuserdata(w->L, ONE)), two = pb_address(lua_newuserdata(w->L, TWO));
	const uint64_t header = payload_header(w, one, "a userdata"), at = one - header, meta = new_table(w, 0, 0), env = new_table(w, 0, 0);

	if (pb_heap_block(w, at) != header + ONE || pb_heap_block(w, two - header) != header + TWO)
		pb_heap_fail(w, "the size of a userdata");
	lua_setfenv(w->L, -4);
	lua_setmetatable(w->L, -3);
	l->type_userdata = type(w, at);
	l->userdata_bytes = (uint16_t)header;
	PB_HEAP_FIND(l->userdata_n, 8, header, 4, u32(at + o) == ONE && u32(two - header + o) == TWO, "the length of a userdata");
	PB_HEAP_FIND(l->userdata_metatable, 8, header, 8, word(at + o) == meta, "the metatable of a userdata");
	PB_HEAP_FIND(l->userdata_env, 8, header, 8, word(at + o) == env, "the environment of a userdata");
	learn_buffers(w, at);
	lua_pop(w->L, 2);
}

/* --- functions ------------------------------------------------------------------------------------------------------- */

static int nothing(lua_State *L)
{
	(void)L;
	return 0;
}

enum { FUNCTION = 64, PROTOTYPE = 160, PROTOTYPES = 4 };

/* The prototypes of functions with 1, 2, 0 and 3 upvalues, which have 0, 1, 3 and 2 strings as constants. The second one has a number
 * too, which separates the pointers to its constants and to its upvalues. */
static void learn_prototypes(struct pb_heap_learner *w, const uint64_t functions[PROTOTYPES])
{
	static const unsigned strings[] = {0, 1, 3, 2}, upvalues[] = {1, 2, 0, 3};
	struct pb_heap_layout *l = w->l;
	const unsigned end = l->l.prototype_end;
	uint64_t p[PROTOTYPES], key;

	for (int i = 0; i < PROTOTYPES; i++) {
		p[i] = word(functions[i] + l->l.function_code) - end;
		if (type(w, p[i]) != l->l.type_prototype || !pb_heap_block(w, p[i]))
			pb_heap_fail(w, "a prototype");
	}
#define ALL(holds) ({ int all_ = 1; for (int i = 0; i < PROTOTYPES; i++) all_ = all_ && (holds); all_; })
	PB_HEAP_FIND(l->prototype_bytes, 8, end, 4, ALL(u32(p[i] + o) == pb_heap_block(w, p[i])), "the size of a prototype");
	PB_HEAP_FIND(l->prototype_constants_n, 8, end, 4, ALL(u32(p[i] + o) == strings[i]), "the number of a prototype's constants");
	lua_pushliteral(w->L, "perf: a constant");
	key = object(w, -1);
	lua_pop(w->L, 1);
	PB_HEAP_FIND(l->prototype_constants, 8, end, 8,
		     word(p[1] + o) > p[1] && word(p[1] + o) < p[1] + pb_heap_block(w, p[1]) && word(word(p[1] + o) - 8) == key,
		     "the constants of a prototype");
	PB_HEAP_FIND(l->prototype_upvalues_n, 8, end, 1, ALL(u8(p[i] + o) == upvalues[i]), "the number of a prototype's upvalues");
	PB_HEAP_FIND(l->prototype_upvalues, 8, end, 8,
		     word(p[1] + o) > p[1] && word(p[1] + o) < p[1] + pb_heap_block(w, p[1]) &&
			     memcmp((const void *)(uintptr_t)word(p[1] + o), "first\0second", sizeof "first\0second") == 0,
		     "the names of a prototype's upvalues");
#undef ALL
}

static void learn_c_functions(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	uint64_t one, three;

	lua_pushvalue(w->L, -1);
	lua_pushcclosure(w->L, nothing, 1);
	one = object(w, -1);
	for (int i = 0; i < 3; i++)
		lua_pushvalue(w->L, -2);
	lua_pushcclosure(w->L, nothing, 3);
	three = object(w, -1);
	l->function_c_upvalues = (uint16_t)(pb_heap_block(w, one) - 8);
	if (l->function_c_upvalues > FUNCTION || pb_heap_block(w, three) != l->function_c_upvalues + 24u || u8(one + l->function_n) != 1 ||
	    u8(three + l->function_n) != 3 || !is_value(three + l->function_c_upvalues + 16, object(w, -3)))
		pb_heap_fail(w, "the upvalues of a C function");
	lua_pop(w->L, 2);
}

static void learn_functions(struct pb_heap_learner *w)
{
	enum { FIRST_TABLE = -6, OPEN = -1 };
	struct pb_heap_layout *l = w->l;
	uint64_t f[PROTOTYPES], env, closed, open, table;

	pb_heap_run(w,
		    "local first, second, third = {}, {}, {}\n"
		    "local function one(a, b, c, d, e) return first end\n"
		    "local function two(a, b, c, d, e) first = 'perf: a constant' return first, second, 1234567.5 end\n"
		    "local function none(a, b, c, d, e) return 'perf: the second', 'perf: the third', 'perf: the last' end\n"
		    "local function three(a, b, c, d, e) return first, second, third, 'perf: the fourth', 'perf: the fifth' end\n"
		    "local keep\n"
		    "local thread = coroutine.create(function() local x = first keep = function() return x end coroutine.yield() end)\n"
		    "coroutine.resume(thread)\n"
		    "return first, one, two, none, three, thread, keep\n",
		    7);
	table = object(w, -7);
	for (int i = 0; i < PROTOTYPES; i++)
		f[i] = object(w, FIRST_TABLE + i);
	PB_HEAP_FIND(l->function_n, l->l.object_type + 1u, FUNCTION, 1,
		     u8(f[0] + o) == 1 && u8(f[1] + o) == 2 && u8(f[2] + o) == 0 && u8(f[3] + o) == 3 && o < 16, "the number of upvalues");
	l->function_upvalues = (uint16_t)pb_heap_block(w, f[2]);
	if (l->function_upvalues > FUNCTION || pb_heap_block(w, f[3]) != l->function_upvalues + 24u)
		pb_heap_fail(w, "the upvalues of a function");
	env = new_table(w, 0, 0);
	lua_setfenv(w->L, FIRST_TABLE - 1);
	PB_HEAP_FIND(l->function_env, 8, l->function_upvalues, 8, word(f[0] + o) == env, "the environment of a function");

	closed = word(f[0] + l->function_upvalues);
	l->upvalue_bytes = (uint16_t)pb_heap_block(w, closed);
	l->type_upvalue = type(w, closed);
	PB_HEAP_FIND(l->upvalue_value, 8, l->upvalue_bytes, 8, word(closed + o) > closed && word(closed + o) < closed + l->upvalue_bytes &&
		     is_value(word(closed + o), table), "the value of an upvalue");
	open = word(object(w, OPEN) + l->function_upvalues);
	if (pb_heap_block(w, open) != l->upvalue_bytes || type(w, open) != l->type_upvalue || !is_value(word(open + l->upvalue_value), table))
		pb_heap_fail(w, "the value of an open upvalue");

	table = object(w, -2);
	l->thread_bytes = (uint16_t)pb_heap_block(w, table);
	PB_HEAP_FIND(l->thread_open, 8, l->thread_bytes, 8, word(table + o) == open, "the open upvalues of a thread");
	learn_prototypes(w, f);
	learn_c_functions(w);
	lua_pop(w->L, 7);
}

static void learn_threads(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	lua_State *one = lua_newthread(w->L), *two = lua_newthread(w->L);
	const uint64_t a = pb_address(one), b = pb_address(two), env = new_table(w, 0, 0);

	lua_setfenv(w->L, -2);
	for (int i = 0; i < 5; i++)
		lua_pushboolean(two, 1);
	lua_pushboolean(one, 1);
	PB_HEAP_FIND(l->thread_top, 8, l->thread_bytes, 8,
		     word(a + o) == word(a + l->l.thread_base) + 8 && word(b + o) == word(b + l->l.thread_base) + 40, "the top of a stack");
	PB_HEAP_FIND(l->thread_env, 8, l->thread_bytes, 8, word(b + o) == env, "the environment of a thread");
	lua_pop(w->L, 2);
}

void pb_heap_learn_objects(struct pb_heap_learner *w)
{
	learn_strings(w);
	learn_tables(w);
	learn_userdata(w);
	learn_functions(w);
	learn_threads(w);
}

/* --- all of it ------------------------------------------------------------------------------------------------------- */

uint64_t pb_heap_start(const struct pb_heap_learner *w, uint64_t at)
{
	uint64_t start;

	pf_heap_luajit_size(w->l, w->global, at, &start);
	return start;
}

uint64_t pb_heap_global(lua_State *L, const struct pb_heap_layout *l)
{
	return pb_global(L, &l->l);
}

uint64_t pb_heap_globals(lua_State *L)
{
	return pb_address(lua_topointer(L, LUA_GLOBALSINDEX));
}

void pb_heap_learn_layout(struct pb_heap_learner *w, const struct pf_memory *m)
{
	const char *why;

	if (pb_learn(w->L, m, &w->l->l, &why) < 0)
		pb_heap_fail(w, why);
	w->global = pb_heap_global(w->L, w->l);
	lua_gc(w->L, LUA_GCSTOP, 0);
	pb_heap_learn_objects(w);
	pb_heap_learn_ffi(w);
	pb_heap_learn_global(w);
	pb_heap_learn_vectors(w);
	pb_heap_learn_roots(w);
}
#endif

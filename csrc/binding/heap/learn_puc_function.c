/* See learn.h: the functions, upvalues, prototypes and threads of PUC Lua. */
#include "binding/heap/learn.h"

#if PB_HEAP_IS_KNOWN && !PB_LUAJIT
#include "core/heap/memory.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u8 pf_heap_u8

enum { HEADER = 16, FUNCTION = 64 };

int pb_heap_find_items(const struct pb_heap_learner *w, const uint64_t s[], unsigned n, unsigned bytes, unsigned pointer, struct pf_heap_items *v)
{
	static const uint8_t sizes[] = {1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64};
	unsigned blocks = 0;

	for (unsigned i = 0; i < n; i++)
		blocks += pb_heap_block(w, word(s[i] + pointer)) != 0;
	if (blocks < 2)
		return 0;
	for (unsigned o = 8; o + 4 <= bytes; o += 4)
		for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
			int fits = 1;

			*v = (struct pf_heap_items){.pointer = (uint16_t)pointer, .count = (uint16_t)o, .size = sizes[k]};
			for (unsigned i = 0; i < n; i++)
				fits = fits && pb_heap_block(w, word(s[i] + pointer)) == pf_heap_puc_items(v, s[i]) &&
				       (word(s[i] + pointer) == 0 || pb_heap_block(w, word(s[i] + pointer)));
			if (fits)
				return 1;
		}
	return 0;
}

/* --- prototypes ------------------------------------------------------------------------------------------------------ */

/* The functions differ in all their numbers: instructions, constants, functions inside, upvalues, local variables, and gaps of more
 * lines than fit in a byte. */
#define TEN_LINES "\n\n\n\n\n\n\n\n\n\n"
#define BLANK_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES TEN_LINES
static const char functions[] =
	"local first, second, third = {}, {}, {}\n"
	"local function one(a) return first end\n"
	"local function two(a, b, c) first = 'perf: a constant' local d = 'perf: another' return function() return a end, second end\n"
	"local function none()\n"
	"  local a = 'perf: the second'\n" BLANK_LINES "a = 'perf: the third'\n" BLANK_LINES
	"  return a, 'perf: the last'\n"
	"end\n"
	"local function three(a, b, c, d, e) local f = 'perf: the fourth' local g, h = function() return a, first end, function() return b, 1 end\n"
	"  local i = function() return c, d, 'perf: the fifth' end\n" BLANK_LINES "return second, third, g, h, i, a + b + c + d + e end\n"
	"local function make() return function() return first end end\n"
	"local keep, more\n"
	"local thread = coroutine.create(function()\n"
	"  local x, y = first, second\n"
	"  keep = function() return x end\n"
	"  more = function() return y end\n"
	"  coroutine.yield()\n"
	"end)\n"
	"coroutine.resume(thread)\n"
	"return first, one, two, none, three, make(), make(), thread, keep, more\n";
enum { F_TABLE = 1, F_ONE, F_TWO, F_NONE, F_THREE, F_MADE, F_MADE_TOO, F_THREAD, F_KEEP, F_MORE, F_RESULTS = F_MORE };
enum { PROTOTYPES = 5 };

/* Does an item begin with this address? */
static int begins(const struct pf_heap_items *v, uint64_t at, uint64_t with)
{
	const uint64_t from = word(at + v->pointer), end = from + pf_heap_puc_items(v, at);

	for (uint64_t item = from; v->size >= 8 && item < end; item += v->size)
		if (word(item) == with)
			return 1;
	return 0;
}

static uint64_t interned(struct pb_heap_learner *w, const char *text)
{
	uint64_t at;

	lua_pushstring(w->L, text);
	at = pb_heap_at(w, -1);
	lua_pop(w->L, 1);
	return at;
}

static lua_Debug information(struct pb_heap_learner *w, int function)
{
	lua_Debug ar;

	lua_pushvalue(w->L, function);
	lua_getinfo(w->L, ">S", &ar);
	return ar;
}

static void learn_roles(struct pb_heap_learner *w, const uint64_t p[PROTOTYPES], uint64_t inner)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t constant = interned(w, "perf: a constant"), upvalue = interned(w, "second"), local = interned(w, "b");
	unsigned constants = 0, nested = 0, names = 0, locals = 0;

	for (unsigned i = 0; i < l->prototype_items_n; i++) {
		struct pf_heap_items *v = &l->prototype_items[i];

		if (begins(v, p[1], constant)) {
			v->role = PF_HEAP_ITEMS_VALUES;
			constants++;
			if (v->size != l->value_bytes)
				pb_heap_fail(w, "the constants of a prototype");
		} else if (begins(v, p[1], upvalue) || begins(v, p[1], local) || begins(v, p[1], inner)) {
			nested += (unsigned)begins(v, p[1], inner);
			locals += (unsigned)begins(v, p[1], local);
			v->role = PF_HEAP_ITEMS_OBJECTS;
			if (begins(v, p[1], upvalue)) {
				l->prototype_names = v->pointer;
				names++;
			}
		}
	}
	if (constants != 1 || nested != 1 || names != 1 || locals != 1)
		pb_heap_fail(w, "the arrays of a prototype");
}

static void learn_prototypes(struct pb_heap_learner *w, int base)
{
	struct pb_heap_layout *l = w->l;
	lua_Debug ar[PROTOTYPES];
	uint64_t p[PROTOTYPES], inner;
	unsigned size;

	for (int i = 0; i < PROTOTYPES; i++) {
		p[i] = word(pb_heap_at(w, base + F_ONE + i) + l->function_prototype);
		ar[i] = information(w, base + F_ONE + i);
	}
	size = (unsigned)pb_heap_block(w, p[0]);
	if (size < 64 || size > 256)
		pb_heap_fail(w, "the size of a prototype");
	l->prototype_bytes = (uint16_t)size;
	l->types[u8(p[0] + l->object_type)] = PF_HEAP_PROTOTYPE;
#define ALL(holds) ({ int all_ = 1; for (int i = 0; i < PROTOTYPES; i++) all_ = all_ && (holds); all_; })
	PB_HEAP_FIND(l->prototype_source, 8, size, 8, ALL(word(p[i] + o) == pb_address(ar[i].source) - l->string_text), "the source of a prototype");
	PB_HEAP_FIND(l->prototype_line, 8, size, 4, ALL(u32(p[i] + o) == (uint32_t)ar[i].linedefined), "the line of a prototype");
#undef ALL
	for (unsigned o = 8; o + 8 <= size && l->prototype_items_n < PF_HEAP_ITEMS_MOST; o += 8)
		if (o != l->prototype_source && pb_heap_find_items(w, p, PROTOTYPES, size, o, &l->prototype_items[l->prototype_items_n]))
			l->prototype_items_n++;
	lua_pushvalue(w->L, base + F_TWO);
	if (lua_pcall(w->L, 0, 1, 0) != 0)
		pb_heap_fail(w, "a probe");
	inner = word(pb_heap_at(w, -1) + l->function_prototype);
	lua_pop(w->L, 1);
	learn_roles(w, p, inner);
}

/* --- functions ------------------------------------------------------------------------------------------------------- */

static int nothing(lua_State *L)
{
	(void)L;
	return 0;
}

static void learn_closures(struct pb_heap_learner *w, int base)
{
	struct pb_heap_layout *l = w->l;
	uint64_t f[7], c;

	for (int i = F_ONE; i <= F_MADE_TOO; i++)
		f[i - F_ONE] = pb_heap_at(w, base + i);
	lua_pushnil(w->L);
	lua_pushcclosure(w->L, nothing, 1);
	c = pb_heap_at(w, -1);
	lua_pop(w->L, 1);
	l->function_upvalues = (uint16_t)pb_heap_block(w, f[2]);
	if (l->function_upvalues < HEADER || l->function_upvalues > FUNCTION || pb_heap_block(w, f[0]) != l->function_upvalues + 8u ||
	    pb_heap_block(w, f[3]) != l->function_upvalues + 24u)
		pb_heap_fail(w, "the upvalues of a function");
	PB_HEAP_FIND(l->function_n, l->object_type + 1u, HEADER, 1, u8(f[0] + o) == 1 && u8(f[1] + o) == 2 && u8(f[2] + o) == 0 && u8(f[3] + o) == 3,
		     "the number of upvalues");
	PB_HEAP_FIND(l->function_kind, 8, HEADER, 1, u8(f[0] + o) == u8(f[1] + o) && u8(f[1] + o) == u8(f[2] + o) && u8(f[2] + o) == u8(f[3] + o) &&
		     u8(c + o) != u8(f[0] + o) && o != l->function_n, "the kind of a function");
	l->function_c = u8(c + l->function_kind);
	l->types[u8(f[0] + l->object_type)] = PF_HEAP_FUNCTION;
	PB_HEAP_FIND(l->function_prototype, 8, l->function_upvalues, 8,
		     pb_heap_block(w, word(f[0] + o)) && word(f[4] + o) == word(f[5] + o) && word(f[0] + o) != word(f[1] + o) &&
			     word(f[1] + o) != word(f[2] + o),
		     "the prototype of a function");
#if LUA_VERSION_NUM == 501
	lua_newtable(w->L);
	c = pb_heap_at(w, -1);
	lua_setfenv(w->L, base + F_ONE);
	PB_HEAP_FIND(l->function_env, 8, l->function_upvalues, 8, word(f[0] + o) == c, "the environment of a function");
#endif
}

static void learn_upvalues(struct pb_heap_learner *w, int base)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t closed = word(pb_heap_at(w, base + F_ONE) + l->function_upvalues), table = pb_heap_at(w, base + F_TABLE),
		       thread = pb_heap_at(w, base + F_THREAD), x = word(pb_heap_at(w, base + F_KEEP) + l->function_upvalues),
		       y = word(pb_heap_at(w, base + F_MORE) + l->function_upvalues);
	const unsigned size = (unsigned)pb_heap_block(w, closed);

	if (size < 16 || size > 64 || pb_heap_block(w, x) != size || pb_heap_block(w, y) != size)
		pb_heap_fail(w, "the size of an upvalue");
	l->upvalue_bytes = (uint16_t)size;
	PB_HEAP_FIND(l->upvalue_value, 0, size, 8, word(closed + o) - closed < size && word(word(closed + o)) == table, "the value of an upvalue");
	if (word(word(x + l->upvalue_value)) != table)
		pb_heap_fail(w, "the value of an open upvalue");
	l->upvalue_is_counted = (uint8_t)!pb_heap_is_listed(w, closed);
	l->upvalue_open_is_listed = (uint8_t)pb_heap_is_listed(w, x);
	if (!l->upvalue_is_counted)
		l->types[u8(closed + l->object_type)] = PF_HEAP_UPVALUE;
	PB_HEAP_FIND_FIRST(l->upvalue_next, 0, size, 8, word(y + o) == x, "the next open upvalue");
	PB_HEAP_FIND(l->thread_open, 8, (unsigned)(l->thread_bytes - l->thread_before), 8, word(thread + o) == y, "the open upvalues of a thread");
}

/* Is an open upvalue that no function refers to alive as long as the thread? */
static void learn_open(struct pb_heap_learner *w)
{
	uint64_t up;

	pb_heap_run(w,
		    "local thread = coroutine.create(function() local x = 1 coroutine.yield(function() return x end) end)\n"
		    "return thread, select(2, coroutine.resume(thread))\n",
		    2);
	up = word(pb_heap_at(w, -1) + w->l->function_upvalues);
	lua_pop(w->L, 1);
	/* Its stack may have the function too. */
	lua_settop(lua_tothread(w->L, -1), 0);
	lua_gc(w->L, LUA_GCCOLLECT, 0);
	lua_gc(w->L, LUA_GCSTOP, 0);
	w->l->thread_holds_open = pb_heap_block(w, up) != 0;
	lua_pop(w->L, 1);
}

void pb_heap_learn_functions(struct pb_heap_learner *w)
{
	const int base = lua_gettop(w->L);

	pb_heap_run(w, functions, F_RESULTS);
	learn_closures(w, base);
	learn_upvalues(w, base);
	learn_prototypes(w, base);
	lua_settop(w->L, base);
	learn_open(w);
}

/* --- threads --------------------------------------------------------------------------------------------------------- */

enum { DEEP = 20, CALL = 128 };

/* The number of blocks in a list, whose next is at a place. */
static unsigned count_list(const struct pb_heap_learner *w, uint64_t at, unsigned next)
{
	const uint64_t size = pb_heap_block(w, at);
	unsigned n = 0;

	for (; pb_heap_block(w, at) == size && size && n < 4 * DEEP; at = word(at + next))
		n++;
	return at ? 0 : n;
}

/* Calls are an array that grows, or a list of blocks. */
static void learn_calls(struct pb_heap_learner *w, uint64_t fresh, uint64_t deep, unsigned size)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t both[] = {fresh, deep};

	for (unsigned o = 8; o + 8 <= size; o += 8)
		for (unsigned next = 0; next < CALL && next + 8 <= pb_heap_block(w, word(deep + o)); next += 8)
			if (word(fresh + o) == 0 && count_list(w, word(deep + o), next) >= DEEP) {
				if (l->thread_calls != PF_HEAP_NOWHERE)
					pb_heap_fail(w, "the calls of a thread");
				l->thread_calls = (uint16_t)o;
				l->call_next = (uint16_t)next;
				l->call_bytes = (uint16_t)pb_heap_block(w, word(deep + o));
			}
	if (l->thread_calls != PF_HEAP_NOWHERE)
		return;
	for (unsigned o = 8; o + 8 <= size; o += 8)
		if (o != l->thread_stack && pb_heap_block(w, word(deep + o)) > pb_heap_block(w, word(fresh + o)) &&
		    pb_heap_find_items(w, both, 2, size, o, &l->call_items))
			return;
	pb_heap_fail(w, "the calls of a thread");
}

void pb_heap_learn_threads(struct pb_heap_learner *w)
{
	enum { SLOTS = 500 };
	struct pb_heap_layout *l = w->l;
	lua_State *one = lua_newthread(w->L), *two = lua_newthread(w->L);
	const uint64_t a = pb_address(one), b = pb_address(two);
	const unsigned size = (unsigned)(l->thread_bytes - l->thread_before);
	uint64_t deep, closing = b;

#if LUA_VERSION_NUM >= 504 /* it has a list of the variables to close, which begins with the stack */
	pb_heap_run(w,
		    "local closing = coroutine.create(function() local a <close> = setmetatable({}, {__close = print}) coroutine.yield() end)\n"
		    "coroutine.resume(closing)\n"
		    "return closing\n",
		    1);
	closing = pb_heap_at(w, -1);
#else
	lua_pushnil(w->L);
#endif
	luaL_checkstack(two, SLOTS, NULL);
	lua_pushnil(one);
	for (int i = 0; i < 5; i++)
		lua_pushnil(two);
	/* The outermost call begins with the stack too, always. */
	PB_HEAP_FIND_FIRST(l->thread_stack, 8, size, 8,
		     pb_heap_block(w, word(a + o)) >= 20u * l->value_bytes && pb_heap_block(w, word(closing + o)) &&
			     pb_heap_block(w, word(b + o)) >= (uint64_t)SLOTS * l->value_bytes,
		     "the stack of a thread");
#define FROM_STACK(t) (word((t) + o) - word((t) + l->thread_stack))
#define TO_END(t) (pb_heap_block(w, word((t) + l->thread_stack)) - FROM_STACK(t))
	PB_HEAP_FIND(l->thread_stack_end, 8, size, 8, o != l->thread_stack && TO_END(a) == TO_END(b) && TO_END(a) < 20u * l->value_bytes,
		     "the end of a stack");
	l->thread_stack_extra = (uint16_t)(pb_heap_block(w, word(a + l->thread_stack)) - (word(a + l->thread_stack_end) - word(a + l->thread_stack)));
	PB_HEAP_FIND(l->thread_top, 8, size, 8, FROM_STACK(a) == 2u * l->value_bytes && FROM_STACK(b) == 6u * l->value_bytes, "the top of a stack");
#undef FROM_STACK
#undef TO_END
#if LUA_VERSION_NUM == 501
	lua_newtable(w->L);
	deep = pb_heap_at(w, -1);
	lua_setfenv(w->L, -3);
	PB_HEAP_FIND(l->thread_env, 8, size, 8, word(b + o) == deep, "the environment of a thread");
#endif
	pb_heap_run(w,
		    "local function call(n) if n == 0 then coroutine.yield() else call(n - 1) end return n end\n"
		    "local thread = coroutine.create(call)\n"
		    "coroutine.resume(thread, 30)\n"
		    "return thread\n",
		    1);
	deep = pb_heap_at(w, -1);
	learn_calls(w, a, deep, size);
	lua_pop(w->L, 4);
}
#endif

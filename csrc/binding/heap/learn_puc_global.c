/* See learn.h: PUC Lua's global state, and the collector's lists. */
#include "binding/heap/learn.h"

#if PB_HEAP_IS_KNOWN && !PB_LUAJIT
#include <errno.h>

#include "core/heap/memory.h"

#define word pf_heap_word
#define u32 pf_heap_u32
#define u8 pf_heap_u8

/* --- the state ------------------------------------------------------------------------------------------------------- */

uint64_t pb_heap_start(const struct pb_heap_learner *w, uint64_t at)
{
	return u8(at + w->l->object_type) == LUA_TTHREAD && !pb_heap_block(w, at) ? at - w->l->thread_before : at;
}

uint64_t pb_heap_global(lua_State *L, const struct pb_heap_layout *l)
{
	return word(pb_address(L) + l->thread_global);
}

uint64_t pb_heap_globals(lua_State *L)
{
	uint64_t at;

#if LUA_VERSION_NUM == 501
	lua_pushvalue(L, LUA_GLOBALSINDEX);
#else
	lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
#endif
	at = pb_address(lua_topointer(L, -1));
	lua_pop(L, 1);
	return at;
}

/* The main thread and the global state lie in one block. */
void pb_heap_learn_state(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	const uint64_t main = pb_address(w->L), other = pb_address(lua_newthread(w->L));
	const struct pb_block *state = pb_heap_block_of(w, main), *thread = pb_heap_block_of(w, other);
	const unsigned size = (unsigned)(thread->at + thread->size - other);

	l->state_bytes = (uint32_t)state->size;
	l->thread_before = (uint16_t)(other - thread->at);
	l->thread_bytes = (uint16_t)thread->size;
	PB_HEAP_FIND(l->thread_global, 8, size, 8,
		     word(main + o) == word(other + o) && word(main + o) > main && word(main + o) < state->at + state->size, "the global state");
	w->global = pb_heap_global(w->L, l);
	l->main_below = (uint16_t)(w->global - main);
	lua_pop(w->L, 1);
}

/* --- places that are narrowed down ----------------------------------------------------------------------------------- */

enum { MOST = 4096 };
struct places {
	uint8_t out[MOST / 4];
};

static unsigned end(const struct pb_heap_learner *w)
{
	const uint64_t n = w->l->state_bytes - w->l->main_below - w->l->thread_before;

	return n < MOST ? (unsigned)n & ~7u : MOST;
}

#define NARROW(places, holds)                              \
	for (unsigned o = 0; o + 8 <= end(w); o += 4)      \
		if (!(places)->out[o / 4] && !(holds))     \
			(places)->out[o / 4] = 1

static uint16_t only(struct pb_heap_learner *w, const struct places *p, const char *what)
{
	uint16_t place;

	PB_HEAP_FIND(place, 0, end(w) - 4, 4, !p->out[o / 4], what);
	return place;
}

static uint64_t at(const struct pb_heap_learner *w, unsigned o)
{
	return o % 8 ? 0 : word(w->global + o);
}

/* --- lists ----------------------------------------------------------------------------------------------------------- */

static uint64_t count(const struct pb_heap_learner *w)
{
	return (uint64_t)lua_gc(w->L, LUA_GCCOUNT, 0) * 1024 + (uint64_t)lua_gc(w->L, LUA_GCCOUNTB, 0);
}

/* A number, or a number followed by the debt. */
static void learn_total(struct pb_heap_learner *w)
{
	struct places one = {{0}}, two = {{0}};
	unsigned n = 0;

	for (int i = 0; i < 3; i++) {
		const uint64_t total = count(w);

		NARROW(&one, o % 8 == 0 && at(w, o) == total);
		NARROW(&two, o % 8 == 0 && o + 16 <= end(w) && at(w, o) && at(w, o + 8) && at(w, o) + at(w, o + 8) == total);
		lua_newtable(w->L);
		lua_pop(w->L, 1);
	}
	for (unsigned o = 0; o + 8 <= end(w); o += 8)
		n += (unsigned)!one.out[o / 4];
	w->l->global_total = only(w, n ? &one : &two, "the collector's count");
	if (!n)
		w->l->global_debt = (uint16_t)(w->l->global_total + 8);
}

static void learn_list(struct pb_heap_learner *w)
{
	struct places p = {{0}};

	for (int i = 0; i < 3; i++) {
		lua_newtable(w->L);
		NARROW(&p, at(w, o) == pb_heap_at(w, -1));
		lua_pop(w->L, 1);
	}
	w->l->global_objects = only(w, &p, "the list of objects");
}

int pb_heap_is_listed(const struct pb_heap_learner *w, uint64_t object)
{
	for (uint64_t i = at(w, w->l->global_objects); i; i = word(i))
		if (i == object)
			return 1;
	return 0;
}

/* --- strings --------------------------------------------------------------------------------------------------------- */

/* Is this an array of lists, one of which has the string among its first ones? */
static int has_string(const struct pb_heap_learner *w, uint64_t array, uint64_t string)
{
	enum { FIRST = 8 };

	for (uint64_t i = 0; i < pb_heap_block(w, array) / 8; i++) {
		uint64_t s = word(array + 8 * i);

		for (int k = 0; k < FIRST && pb_heap_block(w, s); k++, s = word(s))
			if (s == string)
				return 1;
	}
	return 0;
}

/* One string is not enough to find the table. If the string is in the first list, each word that points to the state's block
 * fits too: the block has the table's address, and the first word of the table is that list. Several strings are in different
 * lists. */
static void learn_strings(struct pb_heap_learner *w)
{
	enum { STRINGS = 2048, SEVERAL = 16 };
	struct places table = {{0}}, n = {{0}};
	struct pb_heap_layout *l = w->l;
	uint64_t size = 0;
	int sizes = 0;

	lua_createtable(w->L, STRINGS, 0);
	for (int i = 1; i <= STRINGS && sizes < 3; i++) {
		lua_pushfstring(w->L, "perf: the string %d", i);
		if (i <= SEVERAL)
			NARROW(&table, o % 8 == 0 && has_string(w, at(w, o), pb_heap_at(w, -1)));
		if (i == SEVERAL)
			l->global_strings = only(w, &table, "the table of strings");
		if (i >= SEVERAL && pb_heap_block(w, at(w, l->global_strings)) != size) {
			size = pb_heap_block(w, at(w, l->global_strings));
			NARROW(&n, u32(w->global + o) == size / 8);
			sizes++;
			l->strings_are_listed = (uint8_t)(at(w, l->global_objects) == pb_heap_at(w, -1));
		}
		lua_rawseti(w->L, -2, i);
	}
	l->global_strings_n = only(w, &n, "the size of the table of strings");
	lua_pop(w->L, 1);
}

static const char *const keywords[] = {"while", "function", "and", "nil", "end"};
enum { KEYWORDS = sizeof keywords / sizeof *keywords };

/* Does the list at a place, all of whose objects are blocks, have all of the keywords? */
static int has_keywords(const struct pb_heap_learner *w, uint64_t list, const uint64_t word_at[KEYWORDS])
{
	unsigned n = 0;

	for (; pb_heap_block(w, list); list = word(list))
		for (int i = 0; i < KEYWORDS; i++)
			n += list == word_at[i];
	return list == 0 && n == KEYWORDS;
}

static void learn_fixed(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	uint64_t keyword[KEYWORDS];
	unsigned set = 0xff, clear = 0, place = 0;

	for (int i = 0; i < KEYWORDS; i++) {
		lua_pushstring(w->L, keywords[i]);
		keyword[i] = pb_heap_at(w, -1);
		set &= u8(keyword[i] + l->object_marks);
		lua_pop(w->L, 1);
	}
	if (l->strings_are_listed) {
		while (place + 8 <= end(w) && !has_keywords(w, at(w, place), keyword))
			place += 8;
		if (place + 8 > end(w))
			pb_heap_fail(w, "the list of objects that are never freed");
		l->global_fixed = (uint16_t)place;
		return;
	}
	for (unsigned i = 0; i < 8; i++) {
		lua_pushfstring(w->L, "perf: freed %d", (int)i);
		clear |= u8(pb_heap_at(w, -1) + l->object_marks);
		lua_pop(w->L, 1);
	}
	set &= ~clear;
	if (set == 0 || (set & (set - 1)))
		pb_heap_fail(w, "the mark of strings that are never freed");
	l->flag_fixed = (uint8_t)set;
}

/* --- finalizers ------------------------------------------------------------------------------------------------------ */

/* Keep the places that have an object which is not finalized yet: the list no longer has the one that is being finalized. */
static void narrow_finalizing(struct pb_heap_learner *w, struct pb_heap_finalizing *f)
{
	NARROW((struct places *)f->places, o % 8 == 0 && pb_heap_is_waiting(f, at(w, o)));
}

/* Keep the places that have the newest userdata: objects with finalizers are in a list of their own. */
static void narrow_finalizers(struct pb_heap_learner *w, struct pb_heap_finalizing *f, uint64_t newest)
{
	NARROW((struct places *)f->new_places, at(w, o) == newest);
}

static void learn_finalizers(struct pb_heap_learner *w)
{
	struct places list = {{0}}, finalizing = {{0}};
	struct pb_heap_finalizing f = {.narrow = narrow_finalizing, .made = narrow_finalizers, .places = &finalizing, .new_places = &list};

	pb_heap_finalize(w, &f);
	if (LUA_VERSION_NUM > 501)
		w->l->global_finalizers = only(w, &list, "the list of objects with finalizers");
	w->l->global_finalizing = only(w, &finalizing, "the list of objects to finalize");
}

/* --- roots ----------------------------------------------------------------------------------------------------------- */

static void learn_roots(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	struct places p = {{0}};
	uint64_t registry;

	lua_pushvalue(w->L, LUA_REGISTRYINDEX);
	registry = pb_heap_at(w, -1);
	lua_pop(w->L, 1);
	PB_HEAP_FIND_FIRST(l->global_registry, 0, end(w), 8,
			   at(w, o) == registry && (u8(w->global + o + l->value_tag) & 15) == LUA_TTABLE &&
				   l->values[u8(w->global + o + l->value_tag)] == PF_HEAP_OBJECT,
			   "the registry");
	/* The metatables of types are an array, by type. */
	for (int i = 0; i < 2; i++) {
		lua_pushnumber(w->L, 1);
		lua_newtable(w->L);
		lua_pushboolean(w->L, 1);
		lua_newtable(w->L);
		const uint64_t number = pb_heap_at(w, -3), boolean = pb_heap_at(w, -1);

		lua_setmetatable(w->L, -2);
		lua_pop(w->L, 1);
		lua_setmetatable(w->L, -2);
		lua_pop(w->L, 1);
		NARROW(&p, o % 8 == 0 && o + 8 * (LUA_TTHREAD + 1) <= end(w) && at(w, o + 8 * LUA_TNUMBER) == number &&
			       at(w, o + 8 * LUA_TBOOLEAN) == boolean);
	}
	l->global_metatables = only(w, &p, "the metatables of types");
	l->global_metatables_n = LUA_TTHREAD + 1;
}

/* --- the buffer ------------------------------------------------------------------------------------------------------ */

static void explain(struct pb_heap_learner *w, uint64_t block)
{
	if (pb_heap_block(w, block))
		pb_heap_block_of(w, block)->is_explained = 1;
}

static void explain_items(struct pb_heap_learner *w, const struct pf_heap_items *v, uint64_t in)
{
	if (v->size)
		explain(w, word(in + v->pointer));
}

static void explain_object(struct pb_heap_learner *w, uint64_t object)
{
	const struct pb_heap_layout *l = w->l;
	const uint8_t type = l->types[u8(object + l->object_type)];

	explain(w, pb_heap_start(w, object));
	if (type == PF_HEAP_TABLE) {
		explain(w, word(object + l->table_array));
		explain(w, word(object + l->table_node));
	} else if (type == PF_HEAP_THREAD) {
		explain(w, word(object + l->thread_stack));
		explain_items(w, &l->call_items, object);
		for (uint64_t c = l->thread_calls == PF_HEAP_NOWHERE ? 0 : word(object + l->thread_calls); c; c = word(c + l->call_next))
			explain(w, c);
	} else if (type == PF_HEAP_PROTOTYPE) {
		for (unsigned i = 0; i < l->prototype_items_n; i++)
			explain_items(w, &l->prototype_items[i], object);
	}
}

void pb_heap_learn_buffer(struct pb_heap_learner *w)
{
	struct pb_heap_layout *l = w->l;
	struct pf_heap_puc_reader r;
	const struct pb_block *left = NULL;

	pb_heap_run(w, "local text = ('a'):rep(1000) local more = text .. text .. 'b'", 0);
	for (struct pb_block *b = w->blocks; b < w->blocks + PB_BLOCKS; b++)
		b->is_explained = 0;
	pf_heap_puc_reader(&r, l, w->global);
	r.r.h = &w->heap;
	r.r.mark(&r.r);
	if (!w->heap.failed)
		pf_heap_count(&w->heap);
	r.r.done(&r.r);
	w->is_refused |= w->heap.failed == -ENOMEM;
	if (w->heap.failed)
		pb_heap_fail(w, "an object of no type");
	for (uint32_t i = 1; i <= w->heap.n; i++)
		explain_object(w, pf_heap_address(&w->heap, i));
	pf_heap_free(&w->heap);
	explain(w, pb_heap_block_of(w, w->global)->at);
	explain(w, at(w, l->global_strings));
	for (const struct pb_block *b = w->blocks; b < w->blocks + PB_BLOCKS; b++) {
		if (!b->size || b->is_explained)
			continue;
		if (left)
			pb_heap_fail(w, "a block that belongs to nothing");
		left = b;
	}
	if (!left)
		return;
	PB_HEAP_FIND(l->buffer.pointer, 0, end(w), 8, at(w, o) == left->at, "a block that belongs to nothing");
	PB_HEAP_FIND(l->buffer.count, 0, end(w), 8, at(w, o) == left->size, "the size of the buffer");
	l->buffer.size = 1;
}

void pb_heap_learn_global(struct pb_heap_learner *w)
{
	learn_strings(w);
	learn_fixed(w);
	learn_finalizers(w);
	learn_roots(w);
}

/* --- all of it ------------------------------------------------------------------------------------------------------- */

void pb_heap_learn_layout(struct pb_heap_learner *w, const struct pf_memory *m)
{
	struct pb_heap_layout *l = w->l;

	(void)m;
	l->global_debt = l->global_finalizers = l->global_fixed = l->userdata_values_n = l->userdata_value = l->userdata_value_tag =
		l->userdata_env = l->function_env = l->thread_env = l->thread_calls = PF_HEAP_NOWHERE;
	lua_gc(w->L, LUA_GCSTOP, 0);
	pb_heap_learn_state(w);
	pb_heap_learn_values(w);
	learn_total(w);
	learn_list(w);
	pb_heap_learn_threads(w);
	pb_heap_learn_functions(w);
	pb_heap_learn_global(w);
	pb_heap_learn_buffer(w);
}
#endif

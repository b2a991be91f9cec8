/* Methods of Snapshot that choose the largest objects, for tables and pages. */
#include "binding/heap/heap.h"

#include <stdlib.h>
#include <string.h>

struct best {
	uint64_t key;
	uint32_t i;
};

/* Keeps the n largest in a heap whose root is the smallest. key: larger than the root's if there are n */
static void offer(struct best *b, uint32_t n, uint32_t *used, uint64_t key, uint32_t i)
{
	uint32_t at;

	if (*used < n) {
		at = (*used)++;
		while (at && b[(at - 1) / 2].key > key) {
			b[at] = b[(at - 1) / 2];
			at = (at - 1) / 2;
		}
	} else {
		at = 0;
		for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
			if (child + 1 < n && b[child + 1].key < b[child].key)
				child++;
			if (key <= b[child].key)
				break;
			b[at] = b[child];
		}
	}
	b[at] = (struct best){key, i};
}

static int compare(const void *a, const void *b)
{
	const struct best *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return x->i < y->i ? -1 : x->i > y->i;
}

/* Does the path to an object end with the same step three times, or with every other step the same, as in a linked list? Each
 * object of a list is hardly smaller than the one before, so that they would leave no room for others. */
static int repeats(const struct pf_heap *h, uint32_t i)
{
	enum { STEPS = 5 };
	uint32_t label[STEPS], n = 0;

	for (uint32_t edge; i && n < STEPS; i = pf_heap_holder(h, edge)) {
		edge = pf_heap_vias(h)[i] - 1;
		label[n++] = pf_heap_edges(h)[edge].label;
	}
	return (n >= 3 && label[0] == label[1] && label[1] == label[2]) || (n == STEPS && label[0] == label[2] && label[2] == label[4]);
}

/* s:largest(n, [owner]) -> {object ...}: the objects that retain and share the most, the largest first, without the inner objects of
 * lists; with `owner`, only objects that it dominates immediately */
int pb_heap_largest(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const lua_Integer n = luaL_checkinteger(L, 2), owner = luaL_optinteger(L, 3, -1);
	struct best *b;
	uint32_t used = 0;

	luaL_argcheck(L, n >= 0 && n <= 1 << 20, 2, "out of range");
	b = lua_newuserdata(L, (size_t)(n + 1) * sizeof *b);
	for (uint32_t i = 1; i <= h->n; i++) {
		const uint64_t key = pf_heap_retained(h)[i] + pf_heap_shared(h)[i];

		if (pf_heap_vias(h)[i] && (owner < 0 || pf_heap_owners(h)[i] == (uint32_t)owner) &&
		    (used < (uint32_t)n || (n && key > b[0].key)) && !repeats(h, i))
			offer(b, (uint32_t)n, &used, key, i);
	}
	qsort(b, used, sizeof *b, compare);
	lua_createtable(L, (int)used, 0);
	for (uint32_t k = 0; k < used; k++) {
		lua_pushinteger(L, (lua_Integer)b[k].i);
		lua_rawseti(L, -2, (int)k + 1);
	}
	return 1;
}

/* --- objects of a page ----------------------------------------------------------------------------------------------- */

/* An object of the snapshot, for a page: its place among those that were picked, from 1, or 0; how many references to it there are,
 * and how many objects it owns. */
struct pick {
	uint32_t place, holders, owned;
};

static void count_references(const struct pf_heap *h, struct pick *of)
{
	const uint32_t *first = pf_heap_firsts(h);
	const struct pf_heap_edge *edges = pf_heap_edges(h);

	for (uint32_t i = 0; i <= h->n; i++) {
		if (i && !pf_heap_vias(h)[i])
			continue;
		if (i)
			of[pf_heap_owners(h)[i]].owned++;
		for (uint32_t e = first[i]; e < first[i + 1]; e++) {
			of[edges[e].to].holders++;
			if (pf_heap_holds_key(edges + e))
				of[pf_heap_number(edges + e)].holders++;
		}
	}
}

/* s:pick(n) -> {object ...}, a userdata for references: those n that retain most, the largest first. An object owns no larger one, so
 * the owner of each is among them. */
int pb_heap_pick(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const lua_Integer n = luaL_checkinteger(L, 2);
	struct best *b;
	struct pick *of;
	uint32_t used = 0;

	luaL_argcheck(L, n >= 0 && n <= 1 << 20 && pf_heap_types(h), 2, "out of range");
	b = lua_newuserdata(L, (size_t)(n + 1) * sizeof *b);
	of = lua_newuserdata(L, ((size_t)h->n + 1) * sizeof *of);
	memset(of, 0, ((size_t)h->n + 1) * sizeof *of);
	count_references(h, of);
	for (uint32_t i = 1; i <= h->n; i++)
		if (pf_heap_vias(h)[i] && (used < (uint32_t)n || (n && pf_heap_retained(h)[i] > b[0].key)))
			offer(b, (uint32_t)n, &used, pf_heap_retained(h)[i], i);
	qsort(b, used, sizeof *b, compare);
	lua_createtable(L, (int)used, 0);
	for (uint32_t k = 0; k < used; k++) {
		of[b[k].i].place = k + 1;
		lua_pushinteger(L, (lua_Integer)b[k].i);
		lua_rawseti(L, -2, (int)k + 1);
	}
	lua_insert(L, -2);
	return 2;
}

/* The places of an edge's object and of its key among those that were picked. */
static unsigned places(const struct pf_heap_edge *e, const struct pick *of, uint32_t to[2])
{
	unsigned n = 0;

	if (e->to && of[e->to].place)
		to[n++] = of[e->to].place;
	if (pf_heap_holds_key(e) && of[pf_heap_number(e)].place)
		to[n++] = of[pf_heap_number(e)].place;
	return n;
}

/* s:references(i, picked, most) -> {edge, place ...}: the edges of object i to picked objects, at most so many, and their places; the
 * number of references that lead to others, the number of references to i, and that of objects that it owns */
int pb_heap_references(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t i = pb_heap_check_object(L, h), *first = pf_heap_firsts(h);
	const struct pick *of = lua_touserdata(L, 3);
	const lua_Integer most = luaL_checkinteger(L, 4);
	lua_Integer others = 0;
	uint32_t to[2];
	int used = 0;

	luaL_argcheck(L, of && pb_rawlen(L, 3) == ((size_t)h->n + 1) * sizeof *of, 3, "what pick returned expected");
	lua_newtable(L);
	for (uint32_t e = first[i]; e < first[i + 1]; e++) {
		const unsigned n = places(pf_heap_edges(h) + e, of, to);

		for (unsigned k = 0; k < n && used / 2 < most; k++) {
			lua_pushinteger(L, (lua_Integer)e);
			lua_rawseti(L, -2, ++used);
			lua_pushinteger(L, (lua_Integer)to[k]);
			lua_rawseti(L, -2, ++used);
		}
		others += n == 0 || used / 2 >= most;
	}
	lua_pushinteger(L, others);
	lua_pushinteger(L, (lua_Integer)of[i].holders);
	lua_pushinteger(L, (lua_Integer)of[i].owned);
	return 4;
}

/* Methods of Snapshot that choose the largest objects, for tables and pages. */
#include "binding/heap/heap.h"

struct best {
	uint64_t key;
	uint32_t i;
};

/* An object of the snapshot, for a page: its place among those that were picked, from 1, or 0; the number of references to it, and
 * that of the objects that it owns. */
struct pick {
	uint32_t place, holders, owned;
};

/* A search for the n largest objects, in pieces: a server handles requests between two of them. b is a heap whose root is the
 * least; at the end it is sorted. of: behind b; NULL unless references are counted. */
struct choice {
	const struct pf_heap *h;
	struct pick *of;
	uint32_t objects;
	enum { CLEAR, COUNT, SELECT, SORT } stage;
	uint32_t n, used, i, edge; /* i: the next object, or the number of those that are not sorted yet */
	struct best b[];
};

/* Of two objects of the same size, that with the lower number is the larger one. */
static int is_less(const struct best *x, const struct best *y)
{
	return x->key != y->key ? x->key < y->key : x->i > y->i;
}

/* Puts an element at the root of the heap's first n places. */
static void sink(struct best *b, uint32_t n, struct best it)
{
	uint32_t at = 0;

	for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
		if (child + 1 < n && is_less(b + child + 1, b + child))
			child++;
		if (!is_less(b + child, &it))
			break;
		b[at] = b[child];
	}
	b[at] = it;
}

static int is_wanted(const struct choice *c, const struct best *it)
{
	return c->used < c->n || (c->n && is_less(c->b, it));
}

static void offer(struct choice *c, struct best it)
{
	uint32_t at;

	if (c->used == c->n) {
		sink(c->b, c->n, it);
		return;
	}
	for (at = c->used++; at && is_less(&it, c->b + (at - 1) / 2); at = (at - 1) / 2)
		c->b[at] = c->b[(at - 1) / 2];
	c->b[at] = it;
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

/* s:choose(n, pick) -> a choice of the n largest objects, for go_on, and with `pick` for references too. The objects are those
 * that retain and share the most, without the inner objects of lists. With `pick` they are those that retain the most: an object
 * owns no larger one, so the owner of each is among them. */
int pb_heap_choose(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	const lua_Integer n = luaL_checkinteger(L, 2);
	const int pick = lua_toboolean(L, 3);
	struct choice *c;

	luaL_argcheck(L, n >= 0 && n <= 1 << 20 && pf_heap_types(h), 2, "out of range"); /* no types: it is closed */
	c = lua_newuserdata(L, sizeof *c + (size_t)n * sizeof *c->b + (pick ? ((size_t)h->n + 1) * sizeof *c->of : 0));
	*c = (struct choice){.h = h, .objects = h->n, .n = (uint32_t)n, .stage = pick ? CLEAR : SELECT, .i = pick ? 0 : 1};
	if (pick)
		c->of = (struct pick *)(void *)(c->b + n); /* go_on clears it */
	return 1;
}

/* The choice at an index, which must be of this snapshot. */
static struct choice *check_choice(lua_State *L, int i, const struct pf_heap *h)
{
	struct choice *c = lua_touserdata(L, i);

	luaL_argcheck(L, c && pf_heap_types(h) && c->h == h && c->objects == h->n, i, "what choose returned expected");
	return c;
}

/* Counts the references of object c->i from the edge c->edge on. Returns the work that is left; if none is, edges may be left. */
static int64_t count_references(const struct pf_heap *h, struct choice *c, int64_t work)
{
	const struct pf_heap_edge *edges = pf_heap_edges(h);
	const uint32_t i = c->i, end = pf_heap_firsts(h)[i + 1];

	if (i && !pf_heap_vias(h)[i]) {
		c->edge = end;
		return work - 1;
	}
	for (; c->edge < end && work > 0; c->edge++, work--) {
		c->of[edges[c->edge].to].holders++;
		if (pf_heap_holds_key(edges + c->edge))
			c->of[pf_heap_number(edges + c->edge)].holders++;
	}
	if (i && c->edge == end)
		c->of[pf_heap_owners(h)[i]].owned++;
	return work - 1;
}

static void select_object(const struct pf_heap *h, struct choice *c, uint32_t i)
{
	const struct best it = {pf_heap_retained(h)[i] + (c->of ? 0 : pf_heap_shared(h)[i]), i};

	if (pf_heap_vias(h)[i] && is_wanted(c, &it) && (c->of || !repeats(h, i)))
		offer(c, it);
}

static void next_stage(struct choice *c, uint32_t i)
{
	c->stage++;
	c->i = i;
}

/* Does so much of the search; a unit of work is an object or an edge. Returns whether it is done. */
static int search(const struct pf_heap *h, struct choice *c, int64_t work)
{
	for (; c->stage == CLEAR && work > 0; work--) {
		c->of[c->i] = (struct pick){0};
		if (c->i++ == h->n)
			next_stage(c, 0);
	}
	while (c->stage == COUNT && work > 0) {
		work = count_references(h, c, work);
		if (c->edge == pf_heap_firsts(h)[c->i + 1] && c->i++ == h->n)
			next_stage(c, 1);
	}
	for (; c->stage == SELECT && work > 0; work--) {
		if (c->i > h->n)
			next_stage(c, c->used);
		else
			select_object(h, c, c->i++);
	}
	for (; c->stage == SORT && c->i > 1 && work > 0; work -= 4) {
		const struct best least = c->b[0];

		c->i--;
		sink(c->b, c->i, c->b[c->i]);
		c->b[c->i] = least;
	}
	return c->stage == SORT && c->i <= 1;
}

/* s:go_on(choice, work) -> {object ...}, the largest first; or nil, if there is more to do. A unit of work takes about 10 ns. */
int pb_heap_go_on(lua_State *L)
{
	const struct pf_heap *h = pb_heap_check(L);
	struct choice *c = check_choice(L, 2, h);

	if (!search(h, c, (int64_t)luaL_checknumber(L, 3)))
		return pb_nil(L);
	lua_createtable(L, (int)c->used, 0);
	for (uint32_t k = 0; k < c->used; k++) {
		if (c->of)
			c->of[c->b[k].i].place = k + 1;
		lua_pushinteger(L, (lua_Integer)c->b[k].i);
		lua_rawseti(L, -2, (int)k + 1);
	}
	return 1;
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

/* s:references(i, choice, most, [edge, list]) -> {edge, place ...}: the edges of object i to picked objects, at most so many, and
 * their places; the number of references that lead to others, the number of references to i, and that of objects that it owns. It
 * looks at PIECE edges. If there are more, it also returns the next edge, for a call that adds to the list; the number of references
 * to others is then that of this call. */
int pb_heap_references(lua_State *L)
{
	enum { PIECE = 20000 };
	const struct pf_heap *h = pb_heap_check(L);
	const uint32_t i = pb_heap_check_object(L, h), *first = pf_heap_firsts(h), end = first[i + 1];
	const struct pick *of = check_choice(L, 3, h)->of;
	const lua_Integer most = luaL_checkinteger(L, 4), from = luaL_optinteger(L, 5, (lua_Integer)first[i]);
	lua_Integer others = 0;
	uint32_t to[2], e = (uint32_t)from;
	int used;

	luaL_argcheck(L, of, 3, "it has no references");
	luaL_argcheck(L, from >= (lua_Integer)first[i] && from <= (lua_Integer)end, 5, "no such edge");
	lua_settop(L, 6);
	if (!lua_istable(L, 6)) {
		lua_newtable(L);
		lua_replace(L, 6);
	}
	used = (int)pb_rawlen(L, 6);
	for (; e < end && e - (uint32_t)from < PIECE; e++) {
		const unsigned n = places(pf_heap_edges(h) + e, of, to);

		for (unsigned k = 0; k < n && used / 2 < most; k++) {
			lua_pushinteger(L, (lua_Integer)e);
			lua_rawseti(L, 6, ++used);
			lua_pushinteger(L, (lua_Integer)to[k]);
			lua_rawseti(L, 6, ++used);
		}
		others += n == 0 || used / 2 >= most;
	}
	lua_pushinteger(L, others);
	lua_pushinteger(L, (lua_Integer)of[i].holders);
	lua_pushinteger(L, (lua_Integer)of[i].owned);
	if (e == end)
		return 4;
	lua_pushinteger(L, (lua_Integer)e);
	return 5;
}

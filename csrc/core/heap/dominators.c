/* See heap.h: the immediate dominator of each object that is alive, and what it retains.
 *
 * The algorithm of Lengauer and Tarjan in its simple form, with the last step of Georgiadis ("semi-NCA"): number the objects in the
 * order of a search in depth, find the semidominators from the last to the first, with compressed paths in the forest of those that are
 * done; the immediate dominator is then the nearest common ancestor in the tree of dominators. Its time is O(m log n) for every graph. */
#include "core/heap/heap.h"

#include <errno.h>

/* All but `number` are indexed by the number in the order of the search, from 1 (the root). */
struct tree {
	struct pf_heap *h;
	uint32_t n;
	uint32_t *number; /* of an object; 0: not reached */
	uint32_t *object, *parent, *ancestor, *semi, *best;
	uint32_t *first, *before; /* the predecessors: before[first[v]] to before[first[v + 1] - 1] */
};

enum { NUMBER, OBJECT, PARENT, ANCESTOR, SEMI, BEST, FIRST, BEFORE, ARRAYS };

/* --- the search ------------------------------------------------------------------------------------------------------ */

/* The objects that edge e keeps alive. */
static unsigned targets(const struct pf_heap *h, uint32_t e, uint32_t to[2])
{
	const struct pf_heap_edge *edge = pf_heap_edges(h) + e;
	unsigned n = 0;

	if (pf_heap_holds(h, e))
		to[n++] = edge->to;
	if (pf_heap_holds_key(edge))
		to[n++] = pf_heap_number(edge);
	return n;
}

static void enter(struct tree *t, uint32_t i, uint32_t parent)
{
	t->number[i] = ++t->n;
	t->object[t->n] = i;
	t->parent[t->n] = parent;
}

/* `ancestor` has the next edge of each object on the way, times two, plus which of its targets is next. An edge's number has 32 bits, so
 * the second bit is in `best`. */
static void search(struct tree *t)
{
	const uint32_t *first = pf_heap_firsts(t->h);
	uint32_t v = 1, to[2];

	enter(t, 0, 0);
	t->ancestor[1] = first[0];
	while (v) {
		const uint32_t i = t->object[v], e = t->ancestor[v];
		unsigned n;

		if (e == first[i + 1]) {
			v = t->parent[v];
			continue;
		}
		n = targets(t->h, e, to);
		if (t->best[v] >= n) {
			t->ancestor[v]++;
			t->best[v] = 0;
			continue;
		}
		n = t->best[v]++;
		if (t->number[to[n]])
			continue;
		enter(t, to[n], v);
		v = t->n;
		t->ancestor[v] = first[to[n]];
		t->best[v] = 0;
	}
}

/* Calls f for each edge between two objects that were reached. */
static void each_edge(struct tree *t, void (*f)(struct tree *t, uint32_t from, uint32_t to))
{
	const uint32_t *first = pf_heap_firsts(t->h);
	uint32_t to[2];

	for (uint32_t i = 0; i <= t->h->n; i++)
		if (t->number[i])
			for (uint32_t e = first[i]; e < first[i + 1]; e++)
				for (unsigned n = targets(t->h, e, to), k = 0; k < n; k++)
					f(t, t->number[i], t->number[to[k]]);
}

static void count_edge(struct tree *t, uint32_t from, uint32_t to)
{
	(void)from;
	t->first[to]++;
}

static void add_edge(struct tree *t, uint32_t from, uint32_t to)
{
	t->before[--t->first[to]] = from;
}

static int find_predecessors(struct tree *t, struct pf_heap_array *before)
{
	uint64_t sum = 0;

	each_edge(t, count_edge);
	for (uint32_t v = 1; v <= t->n + 1; v++) {
		sum += t->first[v];
		t->first[v] = (uint32_t)sum; /* the end; add_edge makes it the beginning */
	}
	if (sum > UINT32_MAX)
		return t->h->failed = -E2BIG;
	t->before = pf_heap_room(t->h, before, sum * sizeof *t->before);
	if (!t->before)
		return t->h->failed;
	each_edge(t, add_edge);
	return 0;
}

/* --- dominators ------------------------------------------------------------------------------------------------------ */

/* The one with the least semidominator between v and the root of its tree in the forest; makes the way short for the next time. */
static uint32_t evaluate(struct tree *t, uint32_t v, uint32_t *way)
{
	uint32_t n = 0, at = v;

	if (!t->ancestor[v])
		return v;
	while (t->ancestor[t->ancestor[at]]) {
		way[n++] = at;
		at = t->ancestor[at];
	}
	while (n-- > 0) {
		const uint32_t w = way[n], a = t->ancestor[w];

		if (t->semi[t->best[a]] < t->semi[t->best[w]])
			t->best[w] = t->best[a];
		t->ancestor[w] = t->ancestor[a];
	}
	return t->best[v];
}

/* owner: by the numbers of the search; before that, it remembers ways, which may have all objects. */
static void find(struct tree *t, uint32_t *owner)
{
	for (uint32_t v = 1; v <= t->n; v++) {
		t->semi[v] = t->best[v] = v;
		t->ancestor[v] = 0;
	}
	for (uint32_t v = t->n; v > 1; v--) {
		for (uint32_t k = t->first[v]; k < t->first[v + 1]; k++) {
			const uint32_t u = evaluate(t, t->before[k], owner);

			if (t->semi[u] < t->semi[v])
				t->semi[v] = t->semi[u];
		}
		t->ancestor[v] = t->parent[v];
	}
	owner[1] = 0;
	for (uint32_t v = 2; v <= t->n; v++) {
		uint32_t o = t->parent[v];

		while (o > t->semi[v])
			o = owner[o];
		owner[v] = o;
	}
}

/* Add the bytes that object i retains to the objects that dominate the one by which the path reaches it, up to its own owner. */
static void share(struct pf_heap *h, uint32_t i, uint32_t owner)
{
	const uint32_t edge = pf_heap_vias(h)[i] - 1, *first = pf_heap_firsts(h);

	if (edge >= first[owner] && edge < first[owner + 1])
		return;
	pf_heap_shared(h)[pf_heap_holder(h, edge)] += pf_heap_retained(h)[i];
	pf_heap_shared(h)[owner] -= pf_heap_retained(h)[i];
}

/* An object comes after its owner in the order of the search. */
static void sum(struct tree *t, const uint32_t *owner)
{
	struct pf_heap *h = t->h;
	uint64_t *retained = pf_heap_room(h, &h->a[PF_HEAP_RETAINED], (h->n + 1) * sizeof *retained);
	uint64_t *shared = pf_heap_room(h, &h->a[PF_HEAP_SHARED], (h->n + 1) * sizeof *shared);
	uint32_t *owners = pf_heap_room(h, &h->a[PF_HEAP_OWNER], (h->n + 1) * sizeof *owners);

	if (h->failed)
		return;
	for (uint32_t v = t->n; v > 0; v--) {
		const uint32_t i = t->object[v];

		retained[i] += pf_heap_sizes(h)[i];
		if (v > 1) {
			owners[i] = t->object[owner[v]];
			retained[owners[i]] += retained[i];
			share(h, i, owners[i]);
		}
	}
	for (uint32_t v = t->n; v > 1; v--)
		shared[owners[t->object[v]]] += shared[t->object[v]];
}

int pf_heap_find_owners(struct pf_heap *h)
{
	struct pf_heap_array a[ARRAYS] = {{0}};
	struct tree t = {.h = h};
	uint32_t *p[BEFORE];

	for (int i = 0; i < BEFORE; i++)
		p[i] = pf_heap_room(h, &a[i], ((uint64_t)h->n + 3) * sizeof **p);
	if (!h->failed) {
		t.number = p[NUMBER];
		t.object = p[OBJECT];
		t.parent = p[PARENT];
		t.ancestor = p[ANCESTOR];
		t.semi = p[SEMI];
		t.best = p[BEST];
		t.first = p[FIRST];
		search(&t);
		if (find_predecessors(&t, &a[BEFORE]) == 0) {
			find(&t, t.number); /* the numbers of the objects are not needed any more */
			for (int i = PARENT; i < ARRAYS; i++)
				pf_heap_drop(h, &a[i]);
			sum(&t, t.number);
		}
	}
	for (int i = 0; i < ARRAYS; i++)
		pf_heap_drop(h, &a[i]);
	return h->failed;
}

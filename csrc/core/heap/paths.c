/* See heap.h: which objects are alive, and a shortest path from the root to each of them.
 *
 * A search in breadth. What must not count yet waits until nothing else is left: values of ephemeron tables wait for their keys. The
 * stacks of the main thread and of the one that runs wait for all other places, since they are short ways to objects that do not belong
 * there. What compiled code refers to comes last: the program does not know those references, would take them for leaks,
 * and they would share what is one. */
#include "core/heap/heap.h"

#include <errno.h>

struct search {
	struct pf_heap *h;
	uint32_t *queue;
	uint32_t n;
};

static void reach(struct search *s, uint32_t i, uint32_t edge)
{
	uint32_t *via = pf_heap_vias(s->h);

	if (i && !via[i]) {
		via[i] = edge + 1;
		s->queue[s->n++] = i;
	}
}

/* When an edge is followed. */
enum when { AT_ONCE, WITH_KEY, STACKS, CODE };

static enum when when(const struct pf_heap_edge *e)
{
	switch (pf_heap_label(e)) {
	case PF_HEAP_BY_EPHEMERON:
		return WITH_KEY;
	case PF_HEAP_BY_CODE:
		return CODE;
	case PF_HEAP_BY_ROOT:
		return pf_heap_number(e) == PF_HEAP_MAIN || pf_heap_number(e) == PF_HEAP_RUNNING ? STACKS : AT_ONCE;
	default:
		return AT_ONCE;
	}
}

static void follow(struct search *s, uint32_t i, enum when now)
{
	const struct pf_heap_edge *edges = pf_heap_edges(s->h);
	const uint32_t *first = pf_heap_firsts(s->h);

	for (uint32_t e = first[i]; e < first[i + 1]; e++) {
		if (when(edges + e) != now || (now == WITH_KEY && !pf_heap_vias(s->h)[pf_heap_number(edges + e)]))
			continue;
		reach(s, edges[e].to, e);
		if (pf_heap_holds_key(edges + e))
			reach(s, pf_heap_number(edges + e), e);
	}
}

/* Follow such edges of all objects that were reached. Returns whether there was a new one. */
static int follow_late(struct search *s, enum when now)
{
	const uint32_t before = s->n;

	follow(s, 0, now);
	for (uint32_t i = 1; i <= s->h->n && now != STACKS; i++)
		if (pf_heap_vias(s->h)[i])
			follow(s, i, now);
	return s->n > before;
}

static void add_up(struct pf_heap *h)
{
	for (uint32_t i = 1; i <= h->n; i++) {
		const uint8_t type = pf_heap_types(h)[i];
		const uint64_t bytes = pf_heap_sizes(h)[i];

		if (pf_heap_vias(h)[i]) {
			h->live[type].objects++;
			h->live[type].bytes += bytes;
		} else {
			h->dead_objects++;
			h->dead += bytes;
		}
	}
}

int pf_heap_find_paths(struct pf_heap *h)
{
	struct pf_heap_array queue = {0};
	struct search s = {.h = h};
	const uint32_t *via = pf_heap_room(h, &h->a[PF_HEAP_VIA], (h->n + 1) * sizeof *via);
	uint32_t done = 0;

	s.queue = pf_heap_room(h, &queue, (h->n + 1) * sizeof *s.queue);
	if (h->failed)
		return h->failed;
	s.n = 1; /* the root */
	do {
		while (done < s.n)
			follow(&s, s.queue[done++], AT_ONCE);
	} while ((h->has_ephemerons && follow_late(&s, WITH_KEY)) || follow_late(&s, STACKS) || (h->has_code && follow_late(&s, CODE)));
	add_up(h);
	pf_heap_drop(h, &queue);
	return 0;
}

uint32_t pf_heap_holder(const struct pf_heap *h, uint32_t edge)
{
	const uint32_t *first = pf_heap_firsts(h);
	uint32_t low = 0, high = h->n + 1; /* the last object whose first edge is this one or before */

	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (first[middle] <= edge)
			low = middle + 1;
		else
			high = middle;
	}
	return low - 1;
}

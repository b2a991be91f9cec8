/* See heap.h: the arrays, and the reading of the objects. */
#include "core/heap/heap.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/sys.h"

enum { FIRST_ROOM = 1 << 16 };

/* --- arrays ---------------------------------------------------------------------------------------------------------- */

static void *fail(struct pf_heap *h, int err)
{
	if (!h->failed)
		h->failed = err;
	return NULL;
}

static int enlarge(struct pf_heap *h, struct pf_heap_array *a, uint64_t bytes)
{
	uint64_t room = a->room + a->room / 4;
	int r;

	if (room < bytes)
		room = bytes;
	room = (room + FIRST_ROOM - 1) / FIRST_ROOM * FIRST_ROOM;
	r = a->items ? pf_sys->mremap(&a->items, (size_t)a->room, (size_t)room)
		     : pf_sys->mmap(&a->items, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r < 0) {
		a->items = a->room ? a->items : NULL;
		fail(h, -ENOMEM);
		return -ENOMEM;
	}
	a->room = room;
	return 0;
}

void *pf_heap_room(struct pf_heap *h, struct pf_heap_array *a, uint64_t bytes)
{
	char *at;

	if (h->failed || (a->bytes + bytes > a->room && enlarge(h, a, a->bytes + bytes) < 0))
		return NULL;
	at = (char *)a->items + a->bytes;
	a->bytes += bytes;
	h->used += bytes;
	if (h->used > h->peak)
		h->peak = h->used;
	return at;
}

void pf_heap_drop(struct pf_heap *h, struct pf_heap_array *a)
{
	h->used -= a->bytes;
	if (a->items && !h->map)
		pf_sys->munmap(a->items, (size_t)a->room);
	*a = (struct pf_heap_array){0};
}

void pf_heap_free(struct pf_heap *h)
{
	for (int i = 0; i < PF_HEAP_ARRAYS; i++)
		pf_heap_drop(h, &h->a[i]);
	if (h->map)
		pf_sys->munmap(h->map, h->map_size);
	*h = (struct pf_heap){0};
}

/* --- for readers ----------------------------------------------------------------------------------------------------- */

void pf_heap_part(struct pf_heap *h, enum pf_heap_part part, uint64_t bytes)
{
	h->parts[part] += (int64_t)bytes;
}

static void add_edge(struct pf_heap *h, uint32_t to, enum pf_heap_label label, uint64_t number)
{
	struct pf_heap_edge *e = pf_heap_room(h, &h->a[PF_HEAP_EDGES], sizeof *e);

	if (e)
		*e = (struct pf_heap_edge){to, (uint32_t)label << PF_HEAP_NUMBER | (uint32_t)(number & PF_HEAP_MOST)};
}

void pf_heap_edge_value(struct pf_heap *h, uint64_t to, enum pf_heap_value_type type, uint64_t bits)
{
	const uint32_t i = pf_heap_find(h, to);
	struct pf_heap_array *a = &h->a[PF_HEAP_VALUES];
	struct pf_heap_value *v = i ? pf_heap_room(h, a, sizeof *v) : NULL;

	if (v) {
		*v = (struct pf_heap_value){bits, type};
		add_edge(h, i, PF_HEAP_BY_VALUE, a->bytes / sizeof *v - 1);
	}
}

void pf_heap_edge(struct pf_heap *h, uint64_t to, enum pf_heap_label label, uint64_t number)
{
	const uint32_t i = to ? pf_heap_find(h, to) : 0;

	if (!i)
		return;
	if (label == PF_HEAP_BY_INDEX && number > PF_HEAP_MOST) {
		pf_heap_edge_value(h, to, PF_HEAP_INTEGER_KEY, number);
		return;
	}
	h->has_code |= label == PF_HEAP_BY_CODE;
	add_edge(h, i, label, number);
}

void pf_heap_edge_key(struct pf_heap *h, uint64_t to, enum pf_heap_label label, uint64_t key)
{
	const uint32_t i = to ? pf_heap_find(h, to) : 0, k = pf_heap_find(h, key);

	if (!k || (!i && label != PF_HEAP_BY_KEY))
		return;
	h->has_ephemerons |= label == PF_HEAP_BY_EPHEMERON;
	add_edge(h, i, label, k);
}

uint32_t pf_heap_text(struct pf_heap *h, const char *text, size_t n)
{
	struct pf_heap_array *a = &h->a[PF_HEAP_TEXT];
	const uint64_t first = a->bytes ? 0 : 1; /* offset 0 stands for none */
	unsigned char *to;

	if (a->bytes + n + 3 > UINT32_MAX)
		return 0;
	to = pf_heap_room(h, a, first + 2 + n);
	if (!to)
		return 0;
	to += first;
	to[0] = (unsigned char)(n & 0xff);
	to[1] = (unsigned char)(n >> 8);
	memcpy(to + 2, text, n);
	return (uint32_t)(to - (unsigned char *)a->items);
}

const char *pf_heap_text_at(const struct pf_heap *h, uint32_t offset, size_t *n)
{
	const unsigned char *at = (const unsigned char *)h->a[PF_HEAP_TEXT].items + offset;

	*n = offset ? (size_t)at[0] | (size_t)at[1] << 8 : 0;
	return (const char *)at + 2;
}

/* --- reading --------------------------------------------------------------------------------------------------------- */

/* Calls f for each object, in the order of their addresses. */
static void each_object(struct pf_heap_reader *r, void (*f)(struct pf_heap_reader *r, uint32_t i, uint64_t at))
{
	const struct pf_heap *h = r->h;
	const struct pf_heap_chunk *c = h->a[PF_HEAP_CHUNKS].items;
	const struct pf_heap_pair *order = h->a[PF_HEAP_ORDER].items;
	const uint32_t n = (uint32_t)(h->a[PF_HEAP_ORDER].bytes / sizeof *order);
	uint32_t i = 0;

	for (uint32_t o = 0; o < n; o++)
		for (unsigned k = 0; k < PF_HEAP_WORDS; k++)
			for (uint64_t bits = c[order[o].value].bits[k]; bits; bits &= bits - 1)
				f(r, ++i, order[o].key << PF_HEAP_CHUNK | (uint64_t)(64 * k + (unsigned)__builtin_ctzll(bits)) << 3);
}

static uint32_t n_edges(const struct pf_heap *h)
{
	return (uint32_t)(h->a[PF_HEAP_EDGES].bytes / sizeof(struct pf_heap_edge));
}

static void read_object(struct pf_heap_reader *r, uint32_t i, uint64_t at)
{
	struct pf_heap *h = r->h;

	pf_heap_firsts(h)[i] = n_edges(h);
	if (!h->failed)
		r->read(r, i, at);
	h->total += pf_heap_sizes(h)[i];
	if (h->a[PF_HEAP_EDGES].bytes / sizeof(struct pf_heap_edge) >= UINT32_MAX - 1)
		fail(h, -E2BIG);
}

int pf_heap_take(struct pf_heap *h, struct pf_heap_reader *r)
{
	r->h = h;
	h->used = h->peak = 0;
	r->mark(r);
	if (!h->failed)
		pf_heap_count(h);
	pf_heap_room(h, &h->a[PF_HEAP_TYPE], h->n + 1);
	pf_heap_room(h, &h->a[PF_HEAP_SIZE], (h->n + 1) * sizeof(uint64_t));
	pf_heap_room(h, &h->a[PF_HEAP_FIRST], (h->n + 2) * sizeof(uint32_t));
	if (h->failed)
		return h->failed;
	r->roots(r);
	each_object(r, read_object);
	if (h->failed)
		return h->failed;
	pf_heap_firsts(h)[h->n + 1] = n_edges(h);
	for (int i = 0; i < PF_HEAP_PARTS; i++)
		h->total += (uint64_t)h->parts[i];
	h->parts[PF_HEAP_UNKNOWN] = (int64_t)(h->counted - h->total);
	h->total = h->counted;
	return 0;
}

/* --- texts ----------------------------------------------------------------------------------------------------------- */

/* Strings that are keys get their text; others only the beginning, if they are long enough to be worth it. */
static void add_text(struct pf_heap_reader *r, uint32_t i, uint64_t at)
{
	enum { LONG = 256 };
	struct pf_heap *h = r->h;
	uint32_t *text = pf_heap_texts_at(h) + i;
	char bytes[PF_HEAP_TEXT_MOST];
	size_t most = PF_HEAP_TEXT_MOST;

	if (pf_heap_types(h)[i] == PF_HEAP_STRING && !*text) {
		if (pf_heap_sizes(h)[i] < LONG)
			return;
		most = PF_HEAP_PREVIEW;
	} else if (pf_heap_types(h)[i] != PF_HEAP_STRING && pf_heap_types(h)[i] != PF_HEAP_PROTOTYPE) {
		return;
	}
	*text = pf_heap_text(h, bytes, r->text(r, at, bytes, most));
}

static void find_texts(struct pf_heap_reader *r)
{
	struct pf_heap *h = r->h;
	const struct pf_heap_edge *e = pf_heap_edges(h), *end = e + n_edges(h);
	const uint8_t *types = pf_heap_types(h);
	uint32_t *texts = pf_heap_room(h, &h->a[PF_HEAP_TEXT_AT], (h->n + 1) * sizeof *texts);

	if (!texts)
		return;
	for (; e < end; e++) {
		const enum pf_heap_label label = pf_heap_label(e);

		if ((label == PF_HEAP_BY_KEY || label == PF_HEAP_BY_WEAK_KEY || label == PF_HEAP_BY_EPHEMERON) &&
		    types[pf_heap_number(e)] == PF_HEAP_STRING)
			texts[pf_heap_number(e)] = 1;
	}
	each_object(r, add_text);
}

int pf_heap_analyze(struct pf_heap *h, struct pf_heap_reader *r)
{
	find_texts(r);
	if (!h->failed && pf_heap_find_paths(h) == 0)
		pf_heap_find_owners(h);
	return h->failed;
}

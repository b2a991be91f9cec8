/* See heap.h: which addresses are objects. Each 64 KB of addresses that have objects are a chunk with one bit for 8 bytes. An object's
 * number is the count of the bits up to its own, in the order of the addresses. */
#include "core/heap/heap.h"

#include <errno.h>

enum { FIRST_SLOTS = 1 << 12 };

static struct pf_heap_chunk *chunks(const struct pf_heap *h)
{
	return h->a[PF_HEAP_CHUNKS].items;
}

static uint32_t n_chunks(const struct pf_heap *h)
{
	return (uint32_t)(h->a[PF_HEAP_CHUNKS].bytes / sizeof(struct pf_heap_chunk));
}

static uint32_t *slots(const struct pf_heap *h)
{
	return h->a[PF_HEAP_SLOTS].items;
}

static uint32_t n_slots(const struct pf_heap *h)
{
	return (uint32_t)(h->a[PF_HEAP_SLOTS].bytes / sizeof(uint32_t));
}

/* The slot of the chunk with these upper bits, or the empty one that it would have. */
static uint32_t *slot_of(const struct pf_heap *h, uint64_t upper)
{
	const uint32_t mask = n_slots(h) - 1;
	uint32_t i = (uint32_t)((upper * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & mask, *slot = slots(h);

	while (slot[i] && chunks(h)[slot[i] - 1].at != upper)
		i = (i + 1) & mask;
	return slot + i;
}

static unsigned bit_of(uint64_t at)
{
	return (unsigned)(at >> 3) % (64 * PF_HEAP_WORDS);
}

static int is_marked(const struct pf_heap_chunk *c, unsigned bit)
{
	return (int)(c->bits[bit / 64] >> bit % 64 & 1);
}

/* --- while objects are marked ---------------------------------------------------------------------------------------- */

static int more_slots(struct pf_heap *h)
{
	const uint32_t wanted = n_slots(h) ? 2 * n_slots(h) : FIRST_SLOTS;

	pf_heap_drop(h, &h->a[PF_HEAP_SLOTS]);
	if (!pf_heap_room(h, &h->a[PF_HEAP_SLOTS], (uint64_t)wanted * sizeof(uint32_t)))
		return -ENOMEM;
	for (uint32_t i = 0; i < n_chunks(h); i++)
		*slot_of(h, chunks(h)[i].at) = i + 1;
	return 0;
}

int pf_heap_mark(struct pf_heap *h, uint64_t at)
{
	const unsigned bit = bit_of(at);
	struct pf_heap_chunk *c;
	uint32_t *slot;

	if (h->failed || (n_chunks(h) * 2 >= n_slots(h) && more_slots(h) < 0))
		return 0;
	slot = slot_of(h, at >> PF_HEAP_CHUNK);
	if (!*slot) {
		c = pf_heap_room(h, &h->a[PF_HEAP_CHUNKS], sizeof *c);
		if (!c)
			return 0;
		c->at = at >> PF_HEAP_CHUNK;
		*slot = n_chunks(h);
	}
	c = chunks(h) + *slot - 1;
	if (is_marked(c, bit))
		return 0;
	c->bits[bit / 64] |= UINT64_C(1) << bit % 64;
	if (++h->n == PF_HEAP_MOST)
		h->failed = -E2BIG;
	return 1;
}

/* --- afterwards ------------------------------------------------------------------------------------------------------ */

static void sift(struct pf_heap_pair *p, uint32_t i, uint32_t n)
{
	struct pf_heap_pair moved;

	for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && p[child + 1].key > p[child].key)
			child++;
		if (p[i].key >= p[child].key)
			return;
		moved = p[i];
		p[i] = p[child];
		p[child] = moved;
	}
}

void pf_heap_sort(struct pf_heap_pair *p, uint32_t n)
{
	for (uint32_t i = n / 2; i-- > 0;)
		sift(p, i, n);
	while (n > 1) {
		const struct pf_heap_pair last = p[0];

		p[0] = p[--n];
		p[n] = last;
		sift(p, 0, n);
	}
}

uint32_t pf_heap_count_pairs(const struct pf_heap_pair *p, uint32_t n, uint64_t key)
{
	uint32_t low = 0;

	while (low < n) {
		const uint32_t middle = low + (n - low) / 2;

		if (p[middle].key <= key)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

void pf_heap_count(struct pf_heap *h)
{
	struct pf_heap_chunk *c = chunks(h);
	const uint32_t n = n_chunks(h);
	struct pf_heap_pair *order = pf_heap_room(h, &h->a[PF_HEAP_ORDER], (uint64_t)n * sizeof *order);
	uint32_t count = 0;
	uint16_t here;

	if (!order)
		return;
	for (uint32_t i = 0; i < n; i++)
		order[i] = (struct pf_heap_pair){c[i].at, i};
	pf_heap_sort(order, n);
	for (uint32_t i = 0; i < n; i++, count += here) {
		struct pf_heap_chunk *next = c + order[i].value;

		next->first = count;
		here = 0;
		for (int k = 0; k < PF_HEAP_WORDS; k++) {
			next->before[k] = here;
			here = (uint16_t)(here + __builtin_popcountll(next->bits[k]));
		}
	}
}

/* The number of objects that begin at the place of this bit or before, in the chunk and those before. */
static uint32_t count_to(const struct pf_heap_chunk *c, unsigned bit)
{
	return c->first + c->before[bit / 64] + (uint32_t)__builtin_popcountll(c->bits[bit / 64] << (63 - bit % 64));
}

uint32_t pf_heap_find(const struct pf_heap *h, uint64_t at)
{
	const uint32_t slot = at % 8 || !h->n ? 0 : *slot_of(h, at >> PF_HEAP_CHUNK);
	const struct pf_heap_chunk *c = chunks(h) + slot - 1;

	return slot && is_marked(c, bit_of(at)) ? count_to(c, bit_of(at)) : 0;
}

static const struct pf_heap_pair *order(const struct pf_heap *h)
{
	return h->a[PF_HEAP_ORDER].items;
}

uint64_t pf_heap_address(const struct pf_heap *h, uint32_t i)
{
	const struct pf_heap_chunk *c = chunks(h);
	uint32_t low = 0, high = n_chunks(h), left;
	uint64_t bits;
	unsigned k = PF_HEAP_WORDS;

	while (low < high) { /* the last chunk with fewer objects before it */
		const uint32_t middle = low + (high - low) / 2;

		if (c[order(h)[middle].value].first < i)
			low = middle + 1;
		else
			high = middle;
	}
	c += order(h)[low - 1].value;
	while (c->first + c->before[--k] >= i)
		;
	bits = c->bits[k];
	for (left = i - c->first - c->before[k]; left > 1; left--)
		bits &= bits - 1;
	return c->at << PF_HEAP_CHUNK | (uint64_t)(64 * k + (unsigned)__builtin_ctzll(bits)) << 3;
}

#include "core/record/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"

enum { FIRST_SLOTS = 64 };

int pf_tally_init(struct pf_tally *t, uint32_t nkeys, uint32_t max)
{
	if (nkeys < 1 || nkeys > PF_TALLY_MAX_KEYS || max < 1 || max > UINT32_C(1) << 30)
		return -EINVAL;
	t->nkeys = nkeys;
	t->width = nkeys + 1;
	t->max = max;
	t->mask = FIRST_SLOTS - 1;
	t->slots = calloc(FIRST_SLOTS, t->width * sizeof *t->slots);
	return t->slots ? 0 : -ENOMEM;
}

void pf_tally_free(struct pf_tally *t)
{
	free(t->slots);
	t->slots = NULL;
}

void pf_tally_clear(struct pf_tally *t)
{
	memset(t->slots, 0, ((size_t)t->mask + 1) * t->width * sizeof *t->slots);
	t->n = 0;
	t->total = t->other = 0;
}

/* The slot of a key, or the empty slot where it belongs; the table is never full. n is nkeys, a constant that unrolls the loops. */
PF_INLINE uint64_t *find_of(const struct pf_tally *t, const uint64_t *key, uint32_t n)
{
	uint64_t h = 0;

	for (uint32_t k = 0; k < n; k++)
		h = (h ^ key[k]) * UINT64_C(0x9e3779b97f4a7c15);
	for (uint32_t i = (uint32_t)(h >> 32);; i++) {
		uint64_t *slot = t->slots + (size_t)(i & t->mask) * (n + 1), differ = 0;

		for (uint32_t k = 0; k < n; k++)
			differ |= slot[1 + k] ^ key[k];
		if (slot[0] == 0 || differ == 0)
			return slot;
	}
}

static uint64_t *find(const struct pf_tally *t, const uint64_t *key)
{
	switch (t->nkeys) {
	case 1:
		return find_of(t, key, 1);
	case 2:
		return find_of(t, key, 2);
	case 3:
		return find_of(t, key, 3);
	default:
		return find_of(t, key, PF_TALLY_MAX_KEYS);
	}
}

static int grow(struct pf_tally *t)
{
	struct pf_tally bigger = *t;

	bigger.mask = 2 * t->mask + 1;
	bigger.slots = calloc((size_t)bigger.mask + 1, t->width * sizeof *t->slots);
	if (!bigger.slots)
		return -ENOMEM;
	for (size_t i = 0; i <= t->mask; i++) {
		const uint64_t *slot = t->slots + i * t->width;

		if (slot[0])
			memcpy(find(&bigger, slot + 1), slot, t->width * sizeof *slot);
	}
	free(t->slots);
	*t = bigger;
	return 0;
}

/* Add a new key; slot is the empty slot where it belongs. */
static __attribute__((noinline)) int add_key(struct pf_tally *t, uint64_t *slot, const uint64_t *key, uint64_t count)
{
	if (count == 0)
		return 0;
	if (t->n >= t->max) {
		t->other += count;
		t->total += count;
		return 0;
	}
	if (t->n > t->mask / 2) { /* keep at least half of the slots empty, so that searches stay short */
		if (grow(t) < 0)
			return -ENOMEM;
		slot = find(t, key);
	}
	memcpy(slot + 1, key, t->nkeys * sizeof *key);
	t->n++;
	slot[0] = count;
	t->total += count;
	return 0;
}

int pf_tally_add(struct pf_tally *t, const uint64_t *key, uint64_t count)
{
	uint64_t *slot = find(t, key);

	if (slot[0] == 0)
		return add_key(t, slot, key, count);
	slot[0] += count;
	t->total += count;
	return 0;
}

uint64_t pf_tally_count(const struct pf_tally *t, const uint64_t *key)
{
	return find(t, key)[0];
}

uint64_t pf_tally_next(const struct pf_tally *t, uint32_t *i, const uint64_t **key)
{
	while (*i <= t->mask) {
		const uint64_t *slot = t->slots + (size_t)(*i)++ * t->width;

		*key = slot + 1;
		if (slot[0])
			return slot[0];
	}
	return 0;
}

/* Counts by key: the number of records, or the sum of a field, for each combination of values of some other fields.
 *
 * The keys are in one block of memory, a hash table with open addressing, which doubles until it holds max keys. Records with a
 * new key are then counted as `other`, so that the sum stays right and memory stays bounded. */
#ifndef PF_TALLY_H
#define PF_TALLY_H

#include <stdint.h>

enum { PF_TALLY_MAX_KEYS = 4 };

struct pf_tally {
	uint64_t *slots;       /* width words each: the count, then the key; a count of 0 means an empty slot */
	uint32_t width, nkeys; /* a key has nkeys words */
	uint32_t mask;         /* slots - 1 */
	uint32_t n, max;
	uint64_t total;        /* the sum of all counts, including other */
	uint64_t other;
};

/* t must be zero. Returns 0, -EINVAL or -ENOMEM. */
int pf_tally_init(struct pf_tally *t, uint32_t nkeys, uint32_t max);
void pf_tally_free(struct pf_tally *t);
/* Remove all keys and counts. */
void pf_tally_clear(struct pf_tally *t);

/* Add to a key's count. Returns 0, or -ENOMEM without changing anything. A count of 0 adds no key. */
int pf_tally_add(struct pf_tally *t, const uint64_t *key, uint64_t count);

/* The count of a key; 0 if it is not in the table. */
uint64_t pf_tally_count(const struct pf_tally *t, const uint64_t *key);

/* The first used slot from *i on: returns its count, sets *key, and sets *i to the next slot. 0 if there is none. */
uint64_t pf_tally_next(const struct pf_tally *t, uint32_t *i, const uint64_t **key);

#endif

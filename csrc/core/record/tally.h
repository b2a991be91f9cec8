/* Counts by key: how many records, or how much of a field, for each different value of some other fields.
 *
 * The keys are kept in one block of memory, a table with open addressing, that doubles until it holds max keys; what comes
 * with a new key then is counted as other, so that the sum stays right and memory bounded. */
#ifndef PF_TALLY_H
#define PF_TALLY_H

#include <stdint.h>

enum { PF_TALLY_MAX_KEYS = 4 };

struct pf_tally {
	uint64_t *slots;       /* of width words each: count, then the key; count 0 is an empty slot */
	uint32_t width, nkeys; /* nkeys words in a key */
	uint32_t mask;         /* slots - 1 */
	uint32_t n, max;
	uint64_t total;        /* of all counts, other's too */
	uint64_t other;
};

/* t is all zero. 0, -EINVAL or -ENOMEM. */
int pf_tally_init(struct pf_tally *t, uint32_t nkeys, uint32_t max);
void pf_tally_free(struct pf_tally *t);
/* Forget what was counted. */
void pf_tally_clear(struct pf_tally *t);

/* Add to a key's count. 0, or -ENOMEM, and then nothing is changed. A count of 0 makes no key. */
int pf_tally_add(struct pf_tally *t, const uint64_t *key, uint64_t count);

/* The count of a key, 0 for one that is not there. */
uint64_t pf_tally_count(const struct pf_tally *t, const uint64_t *key);

/* The next slot that is used from slot *i on: its count, its key in *key, and *i behind it; 0 when there is none. */
uint64_t pf_tally_next(const struct pf_tally *t, uint32_t *i, const uint64_t **key);

#endif

/* What is pending: samples that wait for the interpreter's next safe point, summed by what tells them apart. A long call of a C
 * function has as many kinds as it has different call chains, so the table grows, in the signal's handler: by mmap, never by
 * malloc. Where the kernel refuses memory, or at PF_PENDING_MOST kinds, what is new goes to the first kind, `other`, which is there
 * from the start and is shown as a frame of its own: its weight stays right, what ran is not known. */
#ifndef PF_PENDING_H
#define PF_PENDING_H

#include <stddef.h>
#include <stdint.h>

/* What tells kinds apart. */
struct pf_kind {
	uint64_t function; /* the C function that ran, by its code's address; 0: not known, or none */
	uint32_t state, zone, chain; /* chain: a node whose path is the native frames, 0 for none */
};

struct pf_pending {
	struct pf_kind kind;
	uint32_t node; /* of the stacks, when it is flushed */
	uint32_t at;   /* its slot */
	uint64_t weight, count;
};

struct pf_pendings {
	struct pf_pending *items; /* the first one is `other`, whose weight may be 0 */
	uint32_t n, room;
	uint32_t *slot; /* open addressing, at most half full */
	uint32_t slots; /* a power of two */
};

enum { PF_PENDING_MOST = 1 << 20 };

/* 0 or -ENOMEM; free after either. other: the kind of what finds no room. */
int pf_pendings_init(struct pf_pendings *p, const struct pf_kind *other);
void pf_pendings_free(struct pf_pendings *p); /* idempotent */

/* Adds to a kind: its place. */
uint32_t pf_pendings_add(struct pf_pendings *p, const struct pf_kind *kind, uint64_t weight);
/* Is anything pending? */
static inline int pf_pendings_any(const struct pf_pendings *p)
{
	return p->n > 1 || (p->n == 1 && p->items[0].count);
}
/* Forgets all of them. */
void pf_pendings_clear(struct pf_pendings *p);

/* Bytes that are held. */
size_t pf_pendings_memory(const struct pf_pendings *p);

#endif

/* Pending samples wait for the interpreter's next safe point, added up by kind. A long call of a C function has as many kinds as
 * it has different call chains, so the table grows, in the signal handler: by mmap, never by malloc. If the kernel refuses
 * memory, or there are PF_PENDING_MOST kinds, new samples are added to the first kind, `other`, which exists from the start and
 * is shown as a separate frame: the weight stays right, but the code that ran is unknown. */
#ifndef PF_PENDING_H
#define PF_PENDING_H

#include <stddef.h>
#include <stdint.h>

/* Samples with equal values are one kind. */
struct pf_kind {
	uint64_t function; /* the C function that ran, by its code's address; 0: not known, or none */
	uint32_t state, zone, chain; /* chain: a node whose path is the native frames, 0 for none */
};

struct pf_pending {
	struct pf_kind kind;
	uint32_t node; /* its node in the stacks; set when it is flushed */
	uint32_t at;   /* the index of its slot */
	uint64_t weight, count;
};

struct pf_pendings {
	struct pf_pending *items; /* the first one is `other`, whose weight may be 0 */
	uint32_t n, room;
	uint32_t *slot; /* open addressing, at most half full */
	uint32_t slots; /* a power of two */
};

enum { PF_PENDING_MOST = 1 << 20 };

/* 0 or -ENOMEM; call pf_pendings_free after either. other: the kind for samples that do not fit. */
int pf_pendings_init(struct pf_pendings *p, const struct pf_kind *other);
void pf_pendings_free(struct pf_pendings *p); /* idempotent */

/* Adds to a kind; returns its index. */
uint32_t pf_pendings_add(struct pf_pendings *p, const struct pf_kind *kind, uint64_t weight);
/* Whether anything is pending. */
static inline int pf_pendings_any(const struct pf_pendings *p)
{
	return p->n > 1 || (p->n == 1 && p->items[0].count);
}
/* Forgets all of them. */
void pf_pendings_clear(struct pf_pendings *p);

/* The memory it uses, in bytes. */
size_t pf_pendings_memory(const struct pf_pendings *p);

#endif

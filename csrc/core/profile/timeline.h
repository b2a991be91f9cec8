/* The single samples of a profile with their times, which the sums by stack do not keep. Samples that do not fit are only counted.
 * A sample's stack is known at the interpreter's next safe point; until then, `node` is the index of its pending entry. */
#ifndef PF_MOMENTS_H
#define PF_MOMENTS_H

#include <stdint.h>

#include "core/stack/pending.h"

struct pf_moment {
	uint64_t time, addr, weight;
	uint32_t cpu, node;
};

struct pf_moments {
	struct pf_moment *items; /* NULL: the profile has no timeline */
	uint32_t n, room;
	uint32_t settled; /* the first ones, which have their nodes */
	uint64_t beyond;  /* samples that did not fit */
};

/* Make room for that many moments; 0 for no timeline. All memory is populated now: a first access in the signal handler would be a
 * page fault, and page faults may be what is profiled. Returns 0 or -errno. */
int pf_moments_init(struct pf_moments *m, uint32_t room);
void pf_moments_free(struct pf_moments *m); /* idempotent */

static inline void pf_moments_add(struct pf_moments *m, const struct pf_moment *moment)
{
	if (m->n < m->room)
		m->items[m->n++] = *moment;
	else if (m->items)
		m->beyond++;
}

/* The pending samples have their nodes now: copy them into the moments. */
void pf_moments_resolve(struct pf_moments *m, const struct pf_pendings *pending);

#endif

/* The samples of a profile one by one, each with its time: what the sums of the stacks no longer tell. As many as there is
 * room for; those beyond are counted. A sample's stack is known when the interpreter comes to its next safe point: until then
 * `node` is its place among what is pending. */
#ifndef PF_MOMENTS_H
#define PF_MOMENTS_H

#include <stdint.h>

#include "core/profile/pending.h"

struct pf_moment {
	uint64_t time, addr, weight;
	uint32_t cpu, node;
};

struct pf_moments {
	struct pf_moment *items; /* NULL: nobody asked for them */
	uint32_t n, room;
	uint32_t settled; /* so many have their nodes */
	uint64_t beyond;
};

enum { PF_MOMENTS_MOST = 1 << 26 };

/* Room for so many, at most PF_MOMENTS_MOST; 0 for none. All of the memory is there at once: what is touched for the first time
 * by the signal's handler is a page fault, which may be what is profiled. 0 or -errno. */
int pf_moments_init(struct pf_moments *m, uint32_t room);
void pf_moments_free(struct pf_moments *m); /* idempotent */

static inline void pf_moments_add(struct pf_moments *m, const struct pf_moment *moment)
{
	if (m->n < m->room)
		m->items[m->n++] = *moment;
	else if (m->items)
		m->beyond++;
}

/* The pending samples have got their nodes: set them in the moments. */
void pf_moments_settle(struct pf_moments *m, const struct pf_pendings *pending);

#endif

/* See timeline.h. */
#include "core/profile/timeline.h"

#include <stddef.h>
#include <sys/mman.h>

#include "core/base/sys.h"

int pf_moments_init(struct pf_moments *m, uint32_t room)
{
	void *p;
	int r;

	if (room == 0)
		return 0;
	r = pf_sys->mmap(&p, room * sizeof *m->items, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r < 0)
		return r;
	m->items = p;
	m->room = room;
	return 0;
}

void pf_moments_free(struct pf_moments *m)
{
	if (m->items)
		pf_sys->munmap(m->items, m->room * sizeof *m->items);
	*m = (struct pf_moments){.items = NULL};
}

void pf_moments_resolve(struct pf_moments *m, const struct pf_pendings *pending)
{
	for (; m->settled < m->n; m->settled++)
		m->items[m->settled].node = pending->items[m->items[m->settled].node].node;
}

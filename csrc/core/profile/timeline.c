/* See timeline.h. */
#include "core/profile/timeline.h"

#include <errno.h>

#include "core/base/pages.h"

int pf_moments_init(struct pf_moments *m, uint32_t room)
{
	if (room == 0)
		return 0;
	m->items = pf_pages_get(room * sizeof *m->items);
	m->room = m->items ? room : 0;
	return m->items ? 0 : -ENOMEM;
}

void pf_moments_free(struct pf_moments *m)
{
	pf_pages_put(m->items, m->room * sizeof *m->items);
	*m = (struct pf_moments){.items = NULL};
}

void pf_moments_resolve(struct pf_moments *m, const struct pf_pendings *pending)
{
	for (; m->settled < m->n; m->settled++)
		m->items[m->settled].node = pending->items[m->items[m->settled].node].node;
}

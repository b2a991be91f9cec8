/* Memory from the kernel, never from malloc, so that a signal handler and a profiler of malloc can use it. It is zeroed and
 * populated: a first access would be a page fault, which may be the event that is counted. */
#ifndef PF_PAGES_H
#define PF_PAGES_H

#include <sys/mman.h>

#include "core/base/sys.h"

/* Returns NULL if there is no memory. */
static inline void *pf_pages_get(size_t size)
{
	void *p;

	return pf_sys->mmap(&p, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) < 0 ? NULL : p;
}

/* p may be NULL. */
static inline void pf_pages_put(void *p, size_t size)
{
	if (p)
		pf_sys->munmap(p, size);
}

#endif

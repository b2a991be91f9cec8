/* The zone of each thread. See sampler.h. */
#include "core/profile/sampler.h"

#include "core/base/thread.h"

static PF_THREAD_LOCAL volatile uint32_t zone_here;

uint32_t pf_zone_set(uint32_t zone)
{
	const uint32_t before = zone_here;

	zone_here = zone;
	return before;
}

uint32_t pf_zone_new(void)
{
	static uint32_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

const volatile uint32_t *pf_zone_cell(void)
{
	return &zone_here;
}

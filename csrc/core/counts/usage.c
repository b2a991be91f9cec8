#include "core/counts/usage.h"

#include <errno.h>
#include <sys/resource.h>

#include "core/base/clock.h"

int pf_usage_read(uint64_t out[PF_USAGE_COUNT])
{
	struct rusage ru;

	out[PF_USAGE_TASK_CLOCK] = pf_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (getrusage(RUSAGE_THREAD, &ru) < 0)
		return -errno;
	out[PF_USAGE_PAGE_FAULTS] = (uint64_t)ru.ru_minflt + (uint64_t)ru.ru_majflt;
	out[PF_USAGE_CONTEXT_SWITCHES] = (uint64_t)ru.ru_nvcsw + (uint64_t)ru.ru_nivcsw;
	return 0;
}

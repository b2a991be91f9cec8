#include "core/counts/usage.h"

#include <errno.h>
#include <sys/resource.h>
#include <time.h>

static uint64_t ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

int pf_usage_read(uint64_t out[PF_USAGE_COUNT])
{
	struct timespec cpu;
	struct rusage ru;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) < 0 || getrusage(RUSAGE_THREAD, &ru) < 0)
		return -errno;
	out[PF_USAGE_TASK_CLOCK] = ns(&cpu);
	out[PF_USAGE_PAGE_FAULTS] = (uint64_t)ru.ru_minflt + (uint64_t)ru.ru_majflt;
	out[PF_USAGE_CONTEXT_SWITCHES] = (uint64_t)ru.ru_nvcsw + (uint64_t)ru.ru_nivcsw;
	return 0;
}

uint64_t pf_wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return ns(&t);
}

#include "core/base/clock.h"

#include <pthread.h>
#include <time.h>

#include "core/counts/usage.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t base;

static uint64_t zero_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - pf_wall_ns();
}

static void set_base(void)
{
	base = zero_now();
}

uint64_t pf_clock_base(void)
{
	pthread_once(&once, set_base);
	return base;
}

double pf_clock_skew(void)
{
	uint64_t from = pf_clock_base();

	return (double)(int64_t)(zero_now() - from);
}

double pf_clock_wall(void)
{
	return (double)pf_wall_ns();
}

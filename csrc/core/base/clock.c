#include "core/base/clock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t base;

/* The difference of the two clocks. The coarse clocks stand still between two ticks. So the difference is exact, however long this thread
 * waits between the readings, unless a tick came in between: then they are read again. They also take less time than the others. */
static uint64_t zero_now(void)
{
	uint64_t at, day;

	do {
		at = pf_clock_ns(CLOCK_MONOTONIC_COARSE);
		day = pf_clock_ns(CLOCK_REALTIME_COARSE);
	} while (pf_clock_ns(CLOCK_MONOTONIC_COARSE) != at);
	return day - at;
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

void pf_clock_condition(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

double pf_clock_wall(void)
{
	return (double)pf_wall_ns();
}

/* The clocks. The time of day for spans is read now and then, and continued by CLOCK_MONOTONIC, which never jumps. */
#ifndef PF_CLOCK_H
#define PF_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t pf_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Nanoseconds of CLOCK_MONOTONIC. */
static inline uint64_t pf_wall_ns(void)
{
	return pf_clock_ns(CLOCK_MONOTONIC);
}

/* The time of CLOCK_MONOTONIC after this many nanoseconds, for waits that take an absolute time. */
static inline struct timespec pf_clock_after(int64_t ns)
{
	const uint64_t at = pf_wall_ns() + (uint64_t)ns;

	return (struct timespec){.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)};
}

/* A condition whose waits end by CLOCK_MONOTONIC. */
void pf_clock_condition(pthread_cond_t *c);

/* The time of day, in nanoseconds since 1970, at the zero of CLOCK_MONOTONIC, as first determined in this process. It is
 * constant. */
uint64_t pf_clock_base(void);

/* The nanoseconds by which the time of day has been set forward since pf_clock_base() was determined; 0 if it was not set or
 * adjusted. The time of day is pf_clock_base() + pf_clock_skew() + pf_wall_ns(). A double, so that LuaJIT's FFI gives a plain
 * number. */
double pf_clock_skew(void);

/* pf_wall_ns as a double: exact for the first 104 days of a machine, within 2 ns for years after. */
double pf_clock_wall(void);

#endif

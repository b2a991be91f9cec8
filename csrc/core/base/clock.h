/* The time of day for spans: read once in a while, and counted on by CLOCK_MONOTONIC, which never jumps. */
#ifndef PF_CLOCK_H
#define PF_CLOCK_H

#include <stdint.h>

/* Nanoseconds since 1970 that CLOCK_MONOTONIC's zero was at, when this process first asked. Constant from then on. */
uint64_t pf_clock_base(void);

/* How much later, in nanoseconds, that zero seems to be now: 0 until somebody sets the clock, or trims it. The time of day is
 * pf_clock_base() + pf_clock_skew() + pf_wall_ns(). A double, so that LuaJIT's FFI gives a plain number. */
double pf_clock_skew(void);

/* pf_wall_ns as a double: exact for the first 104 days of a machine, within 2 ns for years after. */
double pf_clock_wall(void);

#endif

/* The kernel's accounting of the calling thread, for machines where perf_event_open is refused. */
#ifndef PF_USAGE_H
#define PF_USAGE_H

#include <stdint.h>

enum { PF_USAGE_TASK_CLOCK, PF_USAGE_PAGE_FAULTS, PF_USAGE_CONTEXT_SWITCHES, PF_USAGE_COUNT };

/* task-clock in ns from CLOCK_THREAD_CPUTIME_ID, page faults and context switches from getrusage(RUSAGE_THREAD).
 * Returns 0 or -errno. */
int pf_usage_read(uint64_t out[PF_USAGE_COUNT]);

#endif

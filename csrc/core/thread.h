/* Who is calling: a number that differs between threads and changes in the child of a fork. */
#ifndef PF_THREAD_H
#define PF_THREAD_H

#include <stdint.h>

/* The calling thread's token, never 0. An event opened with pid = 0 counts one thread of one process; whoever keeps
 * such events compares tokens to learn whether they are still its own. Costs a thread-local load. */
uint32_t pf_thread_token(void);

/* The number of forks this process is away from the one that loaded the module. */
uint32_t pf_fork_generation(void);

#define PF_MOST_CPUS 1024

/* The calling thread runs on this CPU alone from now on. Returns 0 or -errno. */
int pf_thread_bind(int cpu);

/* Whether the calling thread may run on a CPU: 1, 0 or -errno. */
int pf_thread_may_run(int cpu);

#endif

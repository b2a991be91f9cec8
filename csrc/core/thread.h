/* Who is calling: a number that differs between threads and changes in the child of a fork. */
#ifndef PF_THREAD_H
#define PF_THREAD_H

#include <stdint.h>

/* The calling thread's token, never 0. An event opened with pid = 0 counts one thread of one process; whoever keeps
 * such events compares tokens to learn whether they are still its own. Costs a thread-local load. */
uint32_t pf_thread_token(void);

/* The number of forks this process is away from the one that loaded the module. */
uint32_t pf_fork_generation(void);

#endif

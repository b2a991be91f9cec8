/* A snapshot that is taken in the child of a fork, so that the program stops only for the fork.
 *
 * The child has no exit signal: the program gets no SIGCHLD for it, and its waits do not see it. It runs no handler that the program
 * has registered for forks or signals, closes all descriptors, calls no function that may allocate by malloc, which another thread
 * may have locked, and ends by itself, without the program's atexit functions. It leaves its arrays in a file in memory. */
#ifndef PF_HEAP_PROCESS_H
#define PF_HEAP_PROCESS_H

#include <sys/types.h>

#include "core/heap/heap.h"

struct pf_heap_child {
	pid_t pid;           /* 0: none */
	int file, end;       /* the file in memory, and a pipe whose other end closes when the child ends */
	uint32_t generation; /* pf_fork_generation of the process that made it */
};

/* Start a child that calls take(data, h). Returns 0 or -errno. */
int pf_heap_fork(struct pf_heap_child *c, int (*take)(void *data, struct pf_heap *h), void *data);
/* Get what the child has left, if it ends within the timeout in milliseconds (-1: however long). Returns 0, what `take` returned if it
 * is negative, -ETIMEDOUT if it is not ready, or -ECHILD if it did not come to its end. */
int pf_heap_receive(struct pf_heap_child *c, struct pf_heap *h, int timeout);
/* End the child if it runs. Idempotent. */
void pf_heap_abandon(struct pf_heap_child *c);

#endif

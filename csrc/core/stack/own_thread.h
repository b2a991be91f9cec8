/* A thread of this process that a signal has interrupted, for an unwinder in the signal's handler. */
#ifndef PF_OWN_THREAD_H
#define PF_OWN_THREAD_H

#include "core/stack/unwind.h"

/* 1 if the library can read the registers of this machine. */
int pf_own_registers_known(void);

/* The registers at the interruption. context: the handler's third argument. */
void pf_own_registers(const void *context, struct pf_registers *r);

/* Returns the quickest way to read this process's memory that works now in this thread. Call it between pf_peek_take and
 * pf_peek_give of core/base/peek.h. context: as above; NULL outside of a signal handler. Makes two system calls, or three without
 * a context. */
const struct pf_memory *pf_own_memory(const void *context);
/* The same without system calls, for a thread that does not block SIGSEGV and SIGBUS. ready: the result of pf_peek_ready at the
 * start; if it is 0, no memory can be read. If the program has replaced our handler of these signals since, its handler gets the
 * faults of our loads. */
const struct pf_memory *pf_own_memory_unchecked(const void *context, int ready);

#endif

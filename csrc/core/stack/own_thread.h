/* A thread of this process that a signal has interrupted, for an unwinder in the signal's handler. */
#ifndef PF_OWN_THREAD_H
#define PF_OWN_THREAD_H

#include "core/stack/unwind.h"

/* Does the library know this machine's registers? */
int pf_own_registers_known(void);

/* The registers at the interruption. context: the handler's third argument. */
void pf_own_registers(const void *context, struct pf_registers *r);

/* The quickest way to read this process's memory that works now in this thread. Between pf_peek_take and pf_peek_give of
 * core/base/peek.h. context: as above; NULL: the caller is no signal handler. Makes two system calls, or three without a context. */
const struct pf_memory *pf_own_memory(const void *context);
/* The same without system calls, for a thread that does not block the signals of faults: else nothing can be read, nor if ready,
 * the result of pf_peek_ready at the start, is 0. A program that has replaced our handler of faults since would get those of our
 * loads. */
const struct pf_memory *pf_own_memory_unchecked(const void *context, int ready);

#endif

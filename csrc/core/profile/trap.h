/* SIGTRAP, by which the events of all running samplers report. A sampler samples one thread, and a thread may have several. */
#ifndef PF_TRAP_H
#define PF_TRAP_H

#include "core/profile/sampler.h"

enum { PF_TRAP_MOST = 64 }; /* samplers that can run at once */

/* From now on the sampler is called (pf_sampler_take) for each signal that its event, or one of another sampler of its thread, sends.
 * Returns 0; -EBUSY if PF_TRAP_MOST run; or the code of pf_signal_take. The calling thread is the one that is sampled. */
int pf_trap_add(struct pf_sampler *s);

/* The opposite. Afterwards no signal handler uses the sampler; called in another thread, it waits for that. Idempotent. */
void pf_trap_remove(struct pf_sampler *s);

#endif

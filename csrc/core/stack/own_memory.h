/* The memory of this process, for an unwinder. */
#ifndef PF_OWN_MEMORY_H
#define PF_OWN_MEMORY_H

#include <signal.h>

#include "core/stack/unwind.h"

/* The quickest way to read that works now, in this thread. May be called in a signal handler, where `blocked` are the signals that
 * the interrupted code blocked; NULL: ask. Between pf_peek_take and pf_peek_give of core/base/peek.h. */
const struct pf_memory *pf_own_memory(const sigset_t *blocked);

#endif

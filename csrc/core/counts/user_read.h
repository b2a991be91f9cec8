/* Reading this thread's hardware counters without a system call, if CPU and kernel allow it: rdpmc on x86-64, the counters'
 * registers on arm64 (kernel.perf_user_access). user_page.h has the arithmetic.
 *
 * An event may be read in this way if it counts the calling thread alone, on every CPU, with no children and no ring. The function
 * that opens the event sets `may`; enabling it maps its page, which counts against perf_event_mlock_kb. Afterwards each reading
 * tries the page first. It uses read(2), and is as exact as that, if the event is disabled or waits for a counter, in another
 * thread, and in the child of a fork. */
#ifndef PF_USER_READ_H
#define PF_USER_READ_H

#include "core/counts/user_page.h"

/* The value for config1 of an event that should be read without a system call; -1 if this CPU cannot do that. */
extern const int pf_user_config1;

/* Map the event's page, if that is allowed. Idempotent, and tried once. Returns 0; -ENOTSUP if it is not allowed; -ESRCH if the
 * event is another thread's; -EOPNOTSUPP if the kernel does not let counters or clock be read; -EBUSY if the event runs already,
 * so that its page may be wrong by 2^pmc_width without a sign of it; or -errno of ioctl or mmap. */
int pf_user_map(struct pf_user *u);

/* Unmap; it is not mapped again. Call it before the event is mapped, redirected or closed. */
void pf_user_drop(struct pf_user *u);

/* Read a group of 1 to PF_USER_MOST, the leader first, into {n enabled running {value id} x n}. 0, or -EAGAIN: ask the kernel. */
int pf_user_read(struct pf_user *const *users, uint32_t n, uint64_t *words);

#endif

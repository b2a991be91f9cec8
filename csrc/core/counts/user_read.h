/* Reading this thread's hardware counters without a system call, where CPU and kernel allow it: rdpmc on x86-64, the counters'
 * registers on arm64 (kernel.perf_user_access). user_page.h has the arithmetic.
 *
 * An event may be read so when nobody else has to do with it: it counts the calling thread alone, on every CPU, with no children
 * and no ring. Who opens it says so (`may`), and enabling it maps its page; a page is one against perf_event_mlock_kb.
 * From then on every reading tries this first and goes to the kernel for whatever it says no to, so nothing is ever less exact than
 * read(2): event disabled or waiting for a counter, another thread, the child of a fork. */
#ifndef PF_USER_READ_H
#define PF_USER_READ_H

#include "core/counts/user_page.h"

/* The value for config1 of an event that is to be read without a system call; -1 if this CPU cannot do that. */
extern const int pf_user_config1;

/* Map the event's page, if it may be. Idempotent, and tried once. 0, or why not: -ENOTSUP it may not, -ESRCH another thread's,
 * -EOPNOTSUPP the kernel does not let counters or clock be read, -EBUSY it runs already, so that its page may be wrong by
 * 2^pmc_width and nothing would show it, -errno of ioctl or mmap. */
int pf_user_map(struct pf_user *u);

/* Unmap; it is not mapped again. Before anybody else maps, redirects or closes the event. */
void pf_user_drop(struct pf_user *u);

/* Read a group of 1 to PF_USER_MOST, the leader first, into {n enabled running {value id} x n}. 0, or -EAGAIN: ask the kernel. */
int pf_user_read(struct pf_user *const *users, uint32_t n, uint64_t *words);

#endif

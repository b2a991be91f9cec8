/* Opening and closing perf events. counts/counter.h has the operations on an open one. */
#ifndef PF_EVENT_H
#define PF_EVENT_H

#include "core/counts/counter.h"

/* The arguments of perf_event_open(2), and its result. */
struct pf_opening {
	struct pf_attr *attr; /* attr->size is set by pf_event_open */
	pid_t pid;
	int cpu;
	struct pf_counter *leader; /* the leader of its group, or NULL */
	unsigned long flags;       /* PF_FLAG_FD_CLOEXEC is added */
	uint64_t hidden;           /* the bits of attr->read_format that the caller did not request */
	int may_user;              /* the calling thread may read it without a system call, if that is possible */
	uint32_t kernel_size;      /* after -E2BIG the size of attr that the kernel knows, or 0 if it did not report it */
};

/* Returns 0 or -errno, and then c is closed. */
int pf_event_open(struct pf_counter *c, struct pf_opening *o);

/* Idempotent. Closing a disabled leader would start its members, so they are disabled first; but not in the child of a fork,
 * where the event stays open for its parent. */
void pf_event_close(struct pf_counter *c);

/* The number of records of this event, and of children that inherited it, that were lost: the kernel's own count. Returns 1; or 0
 * if it is unknown: the event was opened without PF_FORMAT(LOST), is closed, or is pinned and has no counter. */
int pf_event_lost(const struct pf_counter *c, uint64_t *out);

#endif

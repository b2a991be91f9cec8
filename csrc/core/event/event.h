/* One perf event: opening, control, reading. */
#ifndef PF_EVENT_H
#define PF_EVENT_H

#include <errno.h>
#include <sys/types.h>

#include "core/counts/own_calls.h"
#include "core/base/thread.h"
#include "core/kernel/uapi.h"
#include "core/counts/user_read.h"

/* fd is -1 when closed. format is the read_format the event was opened with, hidden the part of it that the caller did not ask
 * for. awake: it was enabled, and no other code disables it, since it is not shared. reset_at: how long it had been enabled when
 * it was last reset. off: it was opened disabled or was disabled, and nothing has enabled it since. leads: it has group members.
 * held: it is disabled while counts/own_calls.h makes a call. leader: the leader of its group if that is another event, which outlives it.
 * generation: pf_fork_generation at the opening; in the child of a fork every function but pf_event_close returns -ECHILD. */
struct pf_event {
	int fd;
	uint32_t generation;
	uint64_t format, hidden;
	uint64_t reset_at;
	uint8_t awake, shared, off, leads, held;
	struct pf_event *leader;
	struct pf_own own;
	struct pf_user user; /* for reading the counter without a system call, where that is possible */
};

/* The read_format of pf_event_begin and pf_event_end, with or without PF_FORMAT(LOST). */
#define PF_EVENT_FORMAT (PF_FORMAT(TOTAL_TIME_ENABLED) | PF_FORMAT(TOTAL_TIME_RUNNING) | PF_FORMAT(ID))
enum {
	PF_EVENT_VALUES = 4, /* value enabled running id */
	PF_EVENT_WORDS       /* and lost: the size of the callers' arrays */
};

/* What a read(2) of an event or group means: filled by pf_read_decode. Fields that the format lacks are 0 and
 * their bit in format is clear. values points into the caller's words: value i is at values[i * stride]. */
struct pf_reading {
	uint64_t format, nr, enabled, running;
	const uint64_t *values;
	unsigned stride, id_at, lost_at; /* offsets of id and lost within a value's words; 0 = absent */
};

/* Open. attr->size is set here; on E2BIG *kernel_size gets the size the kernel knows (0 if it did not say).
 * Every descriptor is close-on-exec. Returns 0 or -errno; ev is closed on failure. */
int pf_event_open(struct pf_event *ev, struct pf_attr *attr, pid_t pid, int cpu, int group_fd, unsigned long flags,
		  uint32_t *kernel_size);

/* Call it after pf_event_open to let the calling thread read the counter without a system call, where that is possible. */
void pf_event_may_user(struct pf_event *ev);

/* Idempotent. Closing a disabled leader would start its members, so they are disabled first; not in the child of a fork, where
 * the event stays open for its parent. */
void pf_event_close(struct pf_event *ev);

/* 0; -EBADF when closed; -ECHILD when it was opened before a fork, by the parent. */
static inline int pf_event_usable(const struct pf_event *ev)
{
	return ev->fd < 0 ? -EBADF : pf_inherited(ev->generation) ? -ECHILD : 0;
}

/* Any ioctl that takes a number or a pointer as its argument; -EBADF when closed. */
int pf_event_ioctl(const struct pf_event *ev, unsigned long request, unsigned long arg);
int pf_event_ioctl_ptr(const struct pf_event *ev, unsigned long request, void *arg);

/* PF_IOC_ENABLE. Maps the user page first, so that later readings need no system call. */
int pf_event_enable(struct pf_event *ev);

/* PF_IOC_RESET. A measurement that is under way then has no count. */
int pf_event_reset(struct pf_event *ev);

/* PF_IOC_DISABLE. */
int pf_event_disable(struct pf_event *ev);

/* Measure one event by difference: begin enables it, unless it is awake, and reads the start into words; end turns that into the
 * difference, PF_COUNT_FELL for a value that fell. Returns 0; -EBADF closed; -ECHILD opened by the parent before a fork; -ENOTSUP
 * another format; -ENODATA a pinned event that lost its counter; -errno. */
int pf_event_begin(struct pf_event *ev, uint64_t *words);
int pf_event_end(struct pf_event *ev, uint64_t *words);

/* Read the same words as pf_event_begin, without a system call. Returns 0; -EAGAIN if that is not possible now, or never because
 * the event samples; -ENOTSUP for another format. */
int pf_event_user(struct pf_event *ev, uint64_t *words);

/* read(2) into words; returns the number of words, 0 when a pinned event lost its counter (the kernel's end of
 * file), or -errno. */
ssize_t pf_event_read(const struct pf_event *ev, uint64_t *words, size_t nwords);

/* The same, for a measurement. *own: how many system calls of measurements the event has counted; its value includes them. */
ssize_t pf_event_read_own(const struct pf_event *ev, uint64_t *words, size_t nwords, uint64_t *own);

/* How many records of this event, and of children that inherited it, were lost: the kernel's own count. Returns 1; or 0 if it is
 * unknown: the event was opened without PF_FORMAT(LOST), is closed, or is pinned and has no counter. */
int pf_event_lost(const struct pf_event *ev, uint64_t *out);

/* Remove the fields that the caller did not ask for from a reading. */
static inline void pf_reading_hide(struct pf_reading *rd, uint64_t hidden)
{
	rd->format &= ~hidden;
	if (hidden & PF_FORMAT(ID))
		rd->id_at = 0;
	if (hidden & PF_FORMAT(LOST))
		rd->lost_at = 0;
}

/* Understand n words of the given format. Returns the words used, or -EBADMSG when there are too few. */
ssize_t pf_read_decode(uint64_t format, const uint64_t *words, size_t n, struct pf_reading *out);

#endif

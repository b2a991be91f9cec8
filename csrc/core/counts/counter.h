/* A counter: the descriptor of one perf event, with which it is enabled, disabled, read, and measured by difference. */
#ifndef PF_COUNTER_H
#define PF_COUNTER_H

#include <errno.h>
#include <sys/types.h>

#include "core/base/thread.h"
#include "core/counts/own_calls.h"
#include "core/counts/user_read.h"
#include "core/kernel/uapi.h"

/* The state of a counter is a sum of these. It is changed by pf_counter_set and pf_counter_share, and read by pf_counter_state. */
enum pf_counter_state {
	PF_COUNTER_OFF = 0,
	PF_COUNTER_ON = 1,    /* it was opened enabled or was enabled, and not disabled since */
	PF_COUNTER_SHARED = 2 /* others may enable and disable it too: the kernel, or code that has the descriptor */
};

struct pf_counter {
	int fd;              /* -1: closed */
	uint32_t generation; /* pf_fork_generation at the opening; in the child of a fork the functions return -ECHILD */
	uint64_t format, hidden; /* the read_format; and the part of it that the caller did not request */
	uint64_t reset_at;   /* the time for which it had been enabled when it was last reset */
	uint8_t state;
	uint8_t leads;       /* it has group members */
	uint8_t held;        /* it is disabled while counts/own_calls.h makes a call */
	struct pf_counter *leader; /* its group's, if that is another counter and open; its memory outlives this one's */
	struct pf_own own;
	struct pf_user user; /* for reading the counter without a system call, if that is possible */
};

/* The read_format of pf_counter_begin and pf_counter_end, with or without PF_FORMAT(LOST). */
#define PF_COUNTER_FORMAT (PF_FORMAT(TOTAL_TIME_ENABLED) | PF_FORMAT(TOTAL_TIME_RUNNING) | PF_FORMAT(ID))
enum {
	PF_COUNTER_ID = 3,
	PF_COUNTER_VALUES, /* value enabled running id */
	PF_COUNTER_WORDS   /* with lost, the size of the callers' arrays */
};

/* The decoded result of read(2) on an event or group, filled by pf_read_decode. Fields that the format lacks are 0 and
 * their bit in format is clear. values points into the caller's words: value i is at values[i * stride]. */
struct pf_reading {
	uint64_t format, nr, enabled, running;
	const uint64_t *values;
	unsigned stride, id_at, lost_at; /* offsets of id and lost within a value's words; 0 = absent */
};

/* 0; -EBADF when closed; -ECHILD when it was opened before a fork, by the parent. */
static inline int pf_counter_usable(const struct pf_counter *c)
{
	return c->fd < 0 ? -EBADF : pf_inherited(c->generation) ? -ECHILD : 0;
}

/* A leader that is closed while it is off leaves its members disabled: see pf_event_close. */
static inline int pf_counter_state(struct pf_counter *c)
{
	if (c->leader && c->leader->fd < 0) {
		c->state &= (uint8_t)(c->leader->state | PF_COUNTER_SHARED);
		c->leader = NULL;
	}
	return c->state;
}

static inline void pf_counter_set(struct pf_counter *c, int on)
{
	c->state = (uint8_t)((pf_counter_state(c) & PF_COUNTER_SHARED) | (on ? PF_COUNTER_ON : PF_COUNTER_OFF));
	c->held = 0;
}

static inline void pf_counter_share(struct pf_counter *c)
{
	c->state |= PF_COUNTER_SHARED;
}

/* Any ioctl that takes a number or a pointer as its argument; -EBADF when closed. */
int pf_counter_ioctl(const struct pf_counter *c, unsigned long request, unsigned long arg);
int pf_counter_ioctl_ptr(const struct pf_counter *c, unsigned long request, void *arg);

/* PF_IOC_ENABLE. Maps the user page first, so that later readings need no system call. */
int pf_counter_enable(struct pf_counter *c);

/* PF_IOC_RESET. A measurement that is under way then has no count. */
int pf_counter_reset(struct pf_counter *c);

/* PF_IOC_DISABLE. */
int pf_counter_disable(struct pf_counter *c);

/* Measure one event by difference: begin enables it, unless its state is PF_COUNTER_ON, and reads the start into words; end turns
 * that into the difference, PF_COUNT_FELL for a value that fell. Returns 0; -EBADF closed; -ECHILD opened by the parent before a
 * fork; -ENOTSUP another format; -ENODATA a pinned event that lost its counter; -errno. */
int pf_counter_begin(struct pf_counter *c, uint64_t *words);
int pf_counter_end(struct pf_counter *c, uint64_t *words);

/* The same words, read for the program: its own read(2), which an event of read(2) counts. Returns 0 or what pf_counter_begin
 * returns; -ENOTSUP also if the caller requested the number of lost records. */
int pf_counter_take(struct pf_counter *c, uint64_t *words);

/* Read the same words as pf_counter_begin, without a system call. Returns 0; -EAGAIN if that is not possible now, or never because
 * the event samples; -ENOTSUP for another format. */
int pf_counter_user(struct pf_counter *c, uint64_t *words);

/* read(2) into words; returns the number of words, 0 when a pinned event lost its counter (the kernel's end of
 * file), or -errno. */
ssize_t pf_counter_read(const struct pf_counter *c, uint64_t *words, size_t nwords);

/* The same, for a measurement. *own: how many system calls of measurements the event has counted; its value includes them. */
ssize_t pf_counter_read_own(const struct pf_counter *c, uint64_t *words, size_t nwords, uint64_t *own);

/* Remove the fields that the caller did not request from a reading. */
static inline void pf_reading_strip(struct pf_reading *rd, uint64_t hidden)
{
	rd->format &= ~hidden;
	if (hidden & PF_FORMAT(ID))
		rd->id_at = 0;
	if (hidden & PF_FORMAT(LOST))
		rd->lost_at = 0;
}

/* Decode n words of the given format. Returns the number of words used, or -EBADMSG if there are too few. */
ssize_t pf_read_decode(uint64_t format, const uint64_t *words, size_t n, struct pf_reading *out);

#endif

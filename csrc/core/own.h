/* The system calls that measuring makes, kept out of what it counts.
 *
 * A tracepoint of read(2) also counts the reads by which this library reads the counter. Such an event is watched: every
 * system call of a measurement (its two reads, the ioctl that enables a list, the mapping of a counter's page) is added to
 * `count` of each watched event of the calling thread that counts it, whichever measurement makes the call. What a measurement
 * reads is the kernel's value less `count`. So the difference of two readings is what the program did between them, however
 * many other measurements began or ended there.
 *
 *   value of sys_enter_read    1    2    3 4 5  6 7 8       at the k-th read of our own it is k and what the program did,
 *   the program's calls                  x x      x         at sys_exit_read k - 1: the read has not yet returned
 *   reads of a measurement     B    B           E   E
 *   count                      1    2           3   4
 *   value - count              0    0           2   3       (B, E: begin and end) 3 = 3 - 0 outside, 2 = 2 - 0 within
 *
 * This needs to know which calls an event counts. With a filter, a BPF program or exclude_user (which kernels heed for some
 * tracepoints and not for others) only the kernel knows that, so such an event is
 * stopped, with its group, while a call of ours is made. An event that counts reads does not see the two ioctls for that. One that counts
 * ioctls, or every call, is stopped once more to see whether its filter lets them pass: they are alike in all that a filter of
 * raw_syscalls or sys_exit_ioctl can ask for. A filter of sys_enter_ioctl can tell descriptors apart: it sees the ioctls of its own
 * alone, and only two such events that count at once are not exact.
 *
 * Watched are events of the thread that opened them, on every CPU. A read(2) that the program asks for (ev:read) is the program's. */
#ifndef PF_OWN_H
#define PF_OWN_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys.h"

struct pf_event;

/* The calls that measuring makes. */
enum pf_own_call { PF_OWN_READ, PF_OWN_IOCTL, PF_OWN_MMAP, PF_OWN_MUNMAP };

/* Whether an event with a filter counts the ioctls that stop it. */
enum pf_own_filter { PF_OWN_UNFILTERED, PF_OWN_UNKNOWN, PF_OWN_REFUSES, PF_OWN_ACCEPTS };

/* What is known of a watched event. */
struct pf_own {
	struct pf_own *next, **link; /* of all that are watched; link is NULL for one that is not */
	struct pf_event *event;
	uint64_t id;     /* the kernel's, which its values are found by */
	uint64_t count;  /* how many calls of our own it has counted */
	uint64_t before; /* its value before it was stopped for the second time */
	uint64_t kept;   /* its value less its count, at the begin of a section */
	uint32_t seen;   /* ioctls that it may have counted, until its filter is known */
	uint32_t owner;  /* pf_thread_token of the thread that it counts */
	uint32_t sections; /* that have begun */
	uint8_t calls;   /* which it counts: 1 << pf_own_call */
	uint8_t at_exit; /* it counts a call when it returns */
	uint8_t filter;  /* a pf_own_filter */
};

/* How many events of the process are watched. */
extern atomic_uint pf_own_watched;

/* An event that the calling thread has opened for itself counts these calls. Returns 0 or -errno. */
int pf_own_watch(struct pf_event *ev, unsigned calls, int at_exit);
void pf_own_forget(struct pf_event *ev); /* idempotent; before it is closed */

/* From now on it counts what a filter lets pass, or a BPF program, or what leaves out the kernel or the user. */
void pf_own_filter(struct pf_event *ev);

/* The value of an event, or of all events of a group by its leader's descriptor, was set to 0. */
void pf_own_reset_event(struct pf_event *ev);
void pf_own_reset_group(int fd);

/* A call of our own begins and has returned. Between them belongs what the call changes in pf_event.off. */
void pf_own_enter_watched(enum pf_own_call call);
void pf_own_exit_watched(enum pf_own_call call);

static inline int pf_own_any(void)
{
	return __builtin_expect(atomic_load_explicit(&pf_own_watched, memory_order_relaxed), 0) != 0;
}

static inline void pf_own_enter(enum pf_own_call call)
{
	if (pf_own_any())
		pf_own_enter_watched(call);
}

static inline void pf_own_exit(enum pf_own_call call)
{
	if (pf_own_any())
		pf_own_exit_watched(call);
}

/* All that happens between its begin and its end is the library's: the opening of a list. Sections nest. At its begin 1 when an event
 * of the calling thread is watched and on, else 0: then it needs no end. */
int pf_own_section(int begin);

/* Where values and their ids stand in what a read gives: the first of each, and the words from one to the next. */
struct pf_own_words {
	uint8_t value, id, stride;
};

ssize_t pf_own_read_watched(int fd, uint64_t *words, size_t size, struct pf_own_words at);

/* read(2) of a measurement: values less the calls of our own. */
static inline __attribute__((always_inline)) ssize_t pf_own_read(int fd, uint64_t *words, size_t size, struct pf_own_words at)
{
	return pf_own_any() ? pf_own_read_watched(fd, words, size, at) : pf_sys->read(fd, words, size);
}

#endif

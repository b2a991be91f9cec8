/* Leaves the system calls of measurements out of their counts.
 *
 * A tracepoint of read(2) also counts the reads by which this library reads the counter. Such an event is watched: every system
 * call of a measurement (its two reads, the ioctl that enables a list, the mapping of a counter's page) is added to `count` of
 * each watched event of the calling thread that counts it, even if the call belongs to another event's measurement. A measurement
 * reads the kernel's value less `count`. So the difference of two readings is what the program did between them, however many
 * other measurements began or ended there.
 *
 *   value of sys_enter_read    1    2    3 4 5  6 7 8       at our k-th read it is k plus the program's reads,
 *   the program's calls                  x x      x         at sys_exit_read k - 1: the read has not yet returned
 *   reads of a measurement     B    B           E   E
 *   count                      1    2           3   4
 *   value - count              0    0           2   3       (B, E: begin and end) 3 = 3 - 0 outside, 2 = 2 - 0 within
 *
 * For this the library must know which calls an event counts. With a filter, a BPF program or exclude_user (which the kernel
 * applies to some tracepoints and not to others) only the kernel knows. So such an event is disabled, with its group, during a
 * call of the library. An event that counts reads does not count the two ioctls for that. An event that counts ioctls, or every
 * call, is disabled once more to see whether its filter accepts them: for a filter of raw_syscalls or sys_exit_ioctl all ioctls
 * are equal. A filter of sys_enter_ioctl can distinguish descriptors: it counts only the ioctls of its own descriptor, and two
 * such events that count at once are not exact.
 *
 * Only events that count the thread that opened them, on every CPU, are watched. A read(2) that the program requests (ev:read) is
 * counted as the program's. */
#ifndef PF_OWN_H
#define PF_OWN_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/sys.h"

struct pf_counter;

/* The system calls that measurements make. */
enum pf_own_call { PF_OWN_READ, PF_OWN_IOCTL, PF_OWN_MMAP, PF_OWN_MUNMAP };

/* Whether an event with a filter counts the ioctls that disable and enable it. */
enum pf_own_filter { PF_OWN_UNFILTERED, PF_OWN_UNKNOWN, PF_OWN_REFUSES, PF_OWN_ACCEPTS };

/* The state of a watched event. */
struct pf_own {
	struct pf_own *next, **link; /* of all that are watched; link is NULL for one that is not */
	struct pf_counter *counter;
	uint64_t id;     /* the kernel's id, by which its value is found in a reading */
	uint64_t count;  /* the number of the library's calls that it has counted */
	uint64_t before; /* its value before it was disabled for the second time */
	uint64_t kept;   /* its value less its count, at the begin of a section */
	uint32_t seen;   /* ioctls that it may have counted, until its filter is known */
	uint32_t owner;  /* pf_thread_token of the thread that it counts */
	uint32_t sections; /* the number of sections that have begun and not ended */
	uint8_t calls;   /* the calls that it counts: 1 << pf_own_call */
	uint8_t at_exit; /* it counts a call when it returns */
	uint8_t filter;  /* a pf_own_filter */
};

/* How many events of the process are watched. */
extern atomic_uint pf_own_watched;

/* Watch an event that the calling thread has opened for itself and that counts these calls. Returns 0 or -errno. */
int pf_own_watch(struct pf_counter *c, unsigned calls, int at_exit);
void pf_own_forget(struct pf_counter *c); /* idempotent; before it is closed */

/* From now on it counts only some calls: it has a filter or a BPF program, or excludes the kernel or the user. */
void pf_own_filter(struct pf_counter *c);

/* The value of an event, or of all events of a group by its leader, was set to 0. */
void pf_own_reset_event(struct pf_counter *c);
void pf_own_reset_group(const struct pf_counter *leader);

/* Call them before and after a system call of a measurement. If the call changes the state of a counter, record the change
 * between the two. */
void pf_own_enter_watched(enum pf_own_call call);
void pf_own_exit_watched(enum pf_own_call call);

static inline int pf_own_any(void)
{
	return __builtin_expect(atomic_load_explicit(&pf_own_watched, memory_order_relaxed) != 0, 0) != 0;
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

/* Nothing between the begin and the end of a section is counted: used for the opening of a list. Sections nest. The begin returns
 * 1 if an enabled event of the calling thread is watched, else 0: then the section needs no end. */
int pf_own_section(int begin);

/* The positions of values and ids in a reading: the first of each, and the number of words from one to the next. */
struct pf_own_words {
	uint8_t value, id, stride;
};

ssize_t pf_own_read_watched(int fd, uint64_t *words, size_t size, struct pf_own_words at);

/* read(2) of a measurement: the values less the library's own calls. */
static inline __attribute__((always_inline)) ssize_t pf_own_read(int fd, uint64_t *words, size_t size, struct pf_own_words at)
{
	return pf_own_any() ? pf_own_read_watched(fd, words, size, at) : pf_sys->read(fd, words, size);
}

#endif

/* Counters read without a system call: the arithmetic for the pages that the kernel provides for it (struct pf_user_page).
 *
 *     value   = offset + counter[index - 1], which has pmc_width bits and a sign
 *     enabled = time_enabled + delta          running = time_running + delta
 *     delta   = time_offset + clock * time_mult / 2^time_shift: the time since the page was written
 *
 * A count is never negative. A negative result is 2^pmc_width too small: the kernel starts a counter below zero, and when a
 * running event is reset or mapped, it takes its last reading for positive until the counter is started anew. (This happens
 * before the counter passes zero, so 2^(pmc_width - 1) events after a reset at the latest.)
 *
 * The kernel writes a page on the CPU that its event runs on, so the counted thread never sees a page half written; but between
 * two reads of the page it may be interrupted, moved or lose the counter. So lock is read before and after, in every page of a
 * group: if none of them changed, the reading is from one stay on one CPU. If an exact reading is impossible (the event has no
 * counter now, the clock is not usable, a page changes all the time), the result is -EAGAIN, and the caller asks the kernel.
 *
 * No other thread may read in this way: it would see other events' counters. The page is volatile and needs no barriers, since an
 * interrupt is one. The instructions are in a table, which tests replace. */
#ifndef PF_USER_PAGE_H
#define PF_USER_PAGE_H

#include <errno.h>

#include "core/kernel/uapi.h"

/* An event's page. */
struct pf_user {
	const volatile struct pf_user_page *page; /* NULL: read(2) is used */
	uint64_t id;
	int fd;
	uint32_t owner;      /* pf_thread_token of the thread that it counts */
	uint32_t generation; /* pf_fork_generation at the mapping */
	uint8_t may;         /* it may be mapped, and has not been yet */
};

struct pf_counters {
	uint32_t n; /* the number of counters that can be read; 0 = none on this machine */
	uint64_t (*counter)(uint32_t number);
	uint64_t (*clock)(void); /* waits until earlier instructions have ended and are counted */
};

enum { PF_USER_MOST = 32 /* events of a group */, PF_USER_TRIES = 16 };

#define PF_USER_INLINE static inline __attribute__((always_inline))

/* One attempt to read a group, whose leader's page is first: {n enabled running {value id} x n}, the words of read(2). */
PF_USER_INLINE int pf_user_try_read(struct pf_user *const *users, uint32_t n, const struct pf_counters *by, uint64_t *words)
{
	const uint64_t need = PF_CAP_IS_SPLIT | PF_CAP_USER_RDPMC | PF_CAP_USER_TIME;
	const volatile struct pf_user_page *p = users[0]->page;
	const unsigned shift = p->time_shift & 63;
	const uint64_t mult = p->time_mult;
	uint64_t clock = by->clock(), delta;

	if (p->capabilities & PF_CAP_USER_TIME_SHORT)
		clock = p->time_cycles + ((clock - p->time_cycles) & p->time_mask);
	delta = p->time_offset + (clock >> shift) * mult + (((clock & (PF_BIT(shift) - 1)) * mult) >> shift);
	words[0] = n;
	words[1] = p->time_enabled + delta;
	words[2] = p->time_running + delta;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t index, width;
		uint64_t value;

		p = users[i]->page;
		index = p->index;
		width = p->pmc_width;
		if (index == 0 || index > by->n || width == 0 || width > 64 || (p->capabilities & need) != need)
			return -EAGAIN;
		value = by->counter(index - 1) << (64 - width);
		value = (uint64_t)p->offset + (uint64_t)((int64_t)value >> (64 - width));
		if ((int64_t)value < 0 && width < 64)
			value += PF_BIT(width);
		words[3 + 2 * i] = value;
		words[4 + 2 * i] = users[i]->id;
	}
	return 0;
}

/* Read a group, which the calling thread owns and whose pages are all mapped. Returns 0, or -EAGAIN. */
PF_USER_INLINE int pf_user_read_by(struct pf_user *const *users, uint32_t n, const struct pf_counters *by, uint64_t *words)
{
	uint32_t locks[PF_USER_MOST];

	for (int i = 0; i < PF_USER_TRIES; i++) {
		uint32_t changed = 0;
		int r;

		for (uint32_t k = 0; k < n; k++) {
			locks[k] = users[k]->page->lock;
			changed |= locks[k] & 1;
		}
		r = pf_user_try_read(users, n, by, words);
		for (uint32_t k = 0; k < n; k++)
			changed |= locks[k] ^ users[k]->page->lock;
		if (!changed)
			return r;
	}
	return -EAGAIN;
}

#endif

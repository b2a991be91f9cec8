#include "core/counts/user_read.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/counts/own_calls.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

/* lfence, isb: otherwise the CPU would read these clocks ahead of earlier instructions. */
#if defined(__x86_64__)

const int pf_user_config1 = 0;

static inline uint64_t counter(uint32_t number)
{
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(number));
	return low | (uint64_t)high << 32;
}

static inline uint64_t clock_now(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence\n\trdtsc" : "=a"(low), "=d"(high) : : "memory");
	return low | (uint64_t)high << 32;
}

enum { COUNTERS = INT32_MAX }; /* fixed counters are numbered from 2^30 */

#elif defined(__aarch64__) && defined(__AARCH64EL__)

const int pf_user_config1 = 2; /* "rdpmc"; "long" is not set: the kernel keeps track of the wraps of 32 bits */

/* The number is part of the instruction. Counter 31 is the cycle counter. */
static inline uint64_t counter(uint32_t number)
{
	uint64_t v = 0;

	switch (number) {
#define X(n)                                                              \
	case n:                                                           \
		__asm__ volatile("mrs %0, pmevcntr" #n "_el0" : "=r"(v)); \
		break;
#define X10(d) X(d##0) X(d##1) X(d##2) X(d##3) X(d##4) X(d##5) X(d##6) X(d##7) X(d##8) X(d##9)
		X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X10(1) X10(2) X(30)
#undef X10
#undef X
	default:
		__asm__ volatile("mrs %0, pmccntr_el0" : "=r"(v));
	}
	return v;
}

static inline uint64_t clock_now(void)
{
	uint64_t v;

	__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(v) : : "memory");
	return v;
}

enum { COUNTERS = 32 };

#else

const int pf_user_config1 = -1;

static inline uint64_t counter(uint32_t number)
{
	return number;
}

static inline uint64_t clock_now(void)
{
	return 0;
}

enum { COUNTERS = 0 };

#endif

/* Constant, so that the calls are inlined. */
static const struct pf_counters here = {COUNTERS, counter, clock_now};

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int pf_user_map(struct pf_user *u)
{
	const uint64_t need = PF_CAP_USER_RDPMC | PF_CAP_USER_TIME;
	void *p;
	int r;

	if (u->page)
		return 0;
	if (!u->may || here.n == 0)
		return -ENOTSUP;
	if (u->owner != pf_thread_token())
		return -ESRCH;
	u->may = 0;
	pf_own_enter(PF_OWN_IOCTL);
	r = pf_sys->ioctl(u->fd, PF_IOC_ID, &u->id);
	pf_own_exit(PF_OWN_IOCTL);
	if (r >= 0) {
		pf_own_enter(PF_OWN_MMAP);
		r = pf_sys->mmap(&p, page_size(), PROT_READ, MAP_SHARED, u->fd, 0);
		pf_own_exit(PF_OWN_MMAP);
	}
	if (r < 0)
		return r;
	u->generation = pf_fork_generation();
	u->page = p;
	r = (u->page->capabilities & need) != need ? -EOPNOTSUPP : u->page->index != 0 ? -EBUSY : 0;
	if (r < 0) {
		pf_own_enter(PF_OWN_MUNMAP);
		pf_user_drop(u);
		pf_own_exit(PF_OWN_MUNMAP);
	}
	return r;
}

void pf_user_drop(struct pf_user *u)
{
	void *p = (void *)(uintptr_t)u->page;

	u->may = 0;
	u->page = NULL;
	if (p && !pf_inherited(u->generation)) /* the mapping is not inherited by a fork */
		pf_sys->munmap(p, page_size());
}

int pf_user_read(struct pf_user *const *users, uint32_t n, uint64_t *words)
{
	for (uint32_t i = 0; i < n; i++)
		if (!users[i]->page)
			return -EAGAIN;
	if (users[0]->owner != pf_thread_token())
		return -EAGAIN;
	return pf_user_read_by(users, n, &here, words);
}

/* The number of a process is in a separate page, which the kernel clears in every child that gets a copy of the memory: by
 * fork(2), and by a clone(2) that runs no pthread_atfork handlers. The first caller in a new process finds 0 there and gives the
 * process a new number. A child that shares the memory (vfork, posix_spawn) leaves the page unchanged.
 *
 * Kernels before 4.14 cannot clear a page: a handler of pthread_atfork does it there. */
#include "core/base/thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

/* Room for a whole page of any size. It is static, so that it exists as long as this code. */
enum { LARGEST_PAGE = 65536 };
static unsigned char room[2 * LARGEST_PAGE];

static uint32_t unnumbered; /* always 0 */
uint32_t *pf_generation_cell = &unnumbered;

static atomic_uint last_generation, last_token;
static pthread_once_t once = PTHREAD_ONCE_INIT;
PF_THREAD_LOCAL struct pf_caller pf_caller;

static void clear_cell(void)
{
	__atomic_store_n(pf_generation_cell, 0, __ATOMIC_RELAXED);
}

static void make_cell(void)
{
	const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), at = ((uintptr_t)room + size - 1) / size * size;

	if (size > LARGEST_PAGE || madvise((void *)at, size, MADV_WIPEONFORK) < 0)
		pthread_atfork(0, 0, clear_cell);
	__atomic_store_n(&pf_generation_cell, (uint32_t *)at, __ATOMIC_RELAXED);
}

uint32_t pf_generation_next(void)
{
	uint32_t none = 0, next;

	pthread_once(&once, make_cell);
	next = atomic_fetch_add(&last_generation, 1) + 1;
	/* Another thread may have been quicker. */
	return __atomic_compare_exchange_n(pf_generation_cell, &none, next, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? next : none;
}

int pf_lock(atomic_uint *holder, enum pf_lock_wait wait)
{
	enum { PAUSE_US = 100 };
	const uint32_t process = pf_fork_generation();
	unsigned now = 0;

	while (!atomic_compare_exchange_strong_explicit(holder, &now, process, memory_order_acquire, memory_order_relaxed)) {
		if (now != process)
			continue;
		now = 0;
		if (wait == PF_LOCK_PAUSE)
			usleep(PAUSE_US);
	}
	return now != 0;
}

void pf_unlock(atomic_uint *holder)
{
	atomic_store_explicit(holder, 0, memory_order_release);
}

uint32_t pf_thread_token_next(uint32_t generation)
{
	pf_caller = (struct pf_caller){atomic_fetch_add(&last_token, 1) + 1, generation};
	return pf_caller.token;
}

int pf_thread_bind(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof set, &set) < 0 ? -errno : 0;
}

int pf_thread_may_run(int cpu)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) < 0)
		return -errno;
	return CPU_ISSET((size_t)cpu, &set) ? 1 : 0;
}

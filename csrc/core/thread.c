/* Tokens come from one counter. The child of a fork runs on the forking thread alone, so clearing that thread's token
 * in the child handler is enough; a child made by a bare clone(2) runs no handlers and must not measure. */
#include "thread.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static _Thread_local uint32_t token;
static atomic_uint last_token;
static atomic_uint generation;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
	token = 0;
	atomic_fetch_add(&generation, 1);
}

static void watch_forks(void)
{
	pthread_atfork(0, 0, in_child);
}

uint32_t pf_thread_token(void)
{
	if (token == 0) {
		pthread_once(&once, watch_forks);
		token = atomic_fetch_add(&last_token, 1) + 1;
	}
	return token;
}

uint32_t pf_fork_generation(void)
{
	pthread_once(&once, watch_forks);
	return atomic_load(&generation);
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

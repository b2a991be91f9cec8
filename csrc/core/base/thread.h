/* Identifies the calling thread and process. */
#ifndef PF_THREAD_H
#define PF_THREAD_H

#include <stdatomic.h>
#include <stdint.h>

/* A thread-local variable that a signal handler may read. With glibc that is one instruction. Without this model it may be a call of
 * __tls_get_addr, which may call malloc at the thread's first use. musl's dlopen refuses libraries with this model. */
#ifdef __GLIBC__
#define PF_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#else
#define PF_THREAD_LOCAL _Thread_local
#endif

/* Only for the functions below. */
extern uint32_t *pf_generation_cell;
uint32_t pf_generation_next(void);
extern PF_THREAD_LOCAL struct pf_caller {
	uint32_t token, generation;
} pf_caller;
uint32_t pf_thread_token_next(uint32_t generation);

/* A number, never 0, that is constant in a process and differs in the child of a fork or clone. It is in a page that the kernel
 * clears in a child (MADV_WIPEONFORK), so reading it costs one load. An object that belongs to one process keeps the number that
 * was current when it was made: see pf_inherited. */
static inline uint32_t pf_fork_generation(void)
{
	uint32_t now = __atomic_load_n(__atomic_load_n(&pf_generation_cell, __ATOMIC_RELAXED), __ATOMIC_RELAXED);

	return now ? now : pf_generation_next();
}

/* Whether the object was made before a fork, by the parent process. Its descriptors refer to the parent's events and files: the
 * child may only close them. */
static inline int pf_inherited(uint32_t generation)
{
	return generation != pf_fork_generation();
}

/* A lock that the child of a fork does not inherit: it takes the lock from a thread of the parent, which it does not have. The cell
 * has the holder's pf_fork_generation, or 0. Returns whether the parent had the lock: then the data that it protects may be half
 * changed. */
enum pf_lock_wait {
	PF_LOCK_SPIN, /* tries again at once: makes no system call */
	PF_LOCK_PAUSE,
};
int pf_lock(atomic_uint *holder, enum pf_lock_wait wait);
void pf_unlock(atomic_uint *holder);

/* The calling thread's token, never 0: all threads have different ones, and so have a thread and its copy in the child of a fork.
 * An event opened with pid = 0 counts one thread of one process; the owner of such events compares tokens to learn whether they
 * count the caller. */
static inline uint32_t pf_thread_token(void)
{
	const uint32_t generation = pf_fork_generation();

	return pf_caller.generation == generation ? pf_caller.token : pf_thread_token_next(generation);
}

/* Whether the calling thread has got this token from pf_thread_token, or is the copy of that thread in the child of a fork: see
 * pf_inherited. */
static inline int pf_has_token(uint32_t token)
{
	return pf_caller.token == token;
}

#define PF_MOST_CPUS 1024

/* The calling thread runs on this CPU alone from now on. Returns 0 or -errno. */
int pf_thread_bind(int cpu);

/* Whether the calling thread may run on a CPU: 1, 0 or -errno. */
int pf_thread_may_run(int cpu);

#endif

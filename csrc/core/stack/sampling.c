#include "core/stack/sampling.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
	atomic_uint generation; /* pf_fork_generation of the claim, 0: none. An older generation: the parent's claim before a fork */
	atomic_int tid;         /* the thread that made it */
} claim;

static int this_thread(void)
{
	return (int)syscall(SYS_gettid);
}

void pf_sampling_bind(struct pf_sampling *at)
{
	at->generation = pf_fork_generation();
	at->tid = this_thread();
}

int pf_sampling_is_mine(const struct pf_sampling *at)
{
	return at->tid == this_thread();
}

static atomic_uint claiming; /* a pf_lock: a thread claims, or has claimed for a moment */

static int take(struct pf_sampling *at)
{
	const uint32_t generation = pf_fork_generation();
	unsigned before = atomic_load(&claim.generation);

	if (before == generation || !atomic_compare_exchange_strong(&claim.generation, &before, generation))
		return -EBUSY;
	pf_sampling_bind(at);
	at->claimed = 1;
	atomic_store(&claim.tid, at->tid);
	return 0;
}

int pf_sampling_claim_briefly(struct pf_sampling *at)
{
	int r;

	pf_lock(&claiming, PF_LOCK_PAUSE);
	r = take(at);
	if (r < 0)
		pf_unlock(&claiming);
	return r;
}

int pf_sampling_claim(struct pf_sampling *at)
{
	const int r = pf_sampling_claim_briefly(at);

	if (r == 0)
		pf_unlock(&claiming);
	return r;
}

void pf_sampling_disclaim_briefly(struct pf_sampling *at)
{
	pf_sampling_disclaim(at);
	pf_unlock(&claiming);
}

void pf_sampling_disclaim(struct pf_sampling *at)
{
	unsigned generation = at->generation;

	if (at->claimed)
		atomic_compare_exchange_strong(&claim.generation, &generation, 0); /* a fork's child may have another claim */
	at->claimed = 0;
}

int pf_sampling_here(void)
{
	return atomic_load(&claim.generation) == pf_fork_generation() && atomic_load(&claim.tid) == this_thread();
}

/* The interface between a sampler and the engine of an interpreter. The sampler's signal handler adds a sample to the pending ones
 * and asks for a safe point. There the engine walks the stack, interns its frames, and has the pending samples flushed to it. */
#ifndef PF_SAMPLING_H
#define PF_SAMPLING_H

#include <signal.h>

#include "core/base/thread.h"
#include "core/stack/pending.h"
#include "core/stack/stacks.h"

/* The activity of the thread when it was sampled. All but the first have a frame in the stack, which push_frame in
 * csrc/binding/stack/stacks.c names, and lua/perf/profile/collect.lua labels. PF_OTHER: there was no memory to record it.
 * PF_AT_STRINGS: the table of strings is resized. */
enum pf_state { PF_AT_LUA, PF_AT_C, PF_AT_GC, PF_AT_JIT, PF_OUTSIDE, PF_UNSAMPLED, PF_OTHER, PF_AT_STRINGS, PF_STATES };

struct pf_sampling {
	struct pf_stacks stacks;
	struct pf_pendings pending;
	volatile sig_atomic_t own; /* the profiler itself runs on the thread, and may change the stacks */
	uint8_t running, claimed;
	uint8_t cut;         /* the stack of the last safe point had more frames than PF_STACK_DEPTH */
	uint32_t generation; /* pf_fork_generation at the claim */
	int tid;             /* the thread that is sampled */
	/* Adds the pending samples to the stack of n frames, innermost first. Called between enter and leave. */
	void (*flush)(struct pf_sampling *at, const uint32_t *frames, unsigned n);
};

/* The calling thread is the one that is sampled. */
void pf_sampling_bind(struct pf_sampling *at);

/* Is the calling thread the one that is sampled? */
int pf_sampling_is_mine(const struct pf_sampling *at);

/* A process has one signal action, one engine and one table of coroutines. They belong to the sampler that has claimed the process.
 * Returns 0 or -EBUSY; only one of two threads succeeds. A claim of the parent before a fork does not count. */
int pf_sampling_claim(struct pf_sampling *at);
/* The same for a moment, up to pf_sampling_disclaim_briefly: other threads that claim meanwhile wait until then. */
int pf_sampling_claim_briefly(struct pf_sampling *at);
void pf_sampling_disclaim_briefly(struct pf_sampling *at);
/* End the claim, if it has one: from now on another thread may start a sampler. Call it last, after everything that the claim
 * protects has been given back. */
void pf_sampling_disclaim(struct pf_sampling *at);
/* Whether the calling thread has made the claim. May be called in a signal handler. */
int pf_sampling_here(void);

/* Whether it was started before a fork, in the parent. */
static inline int pf_sampling_inherited(const struct pf_sampling *at)
{
	return at->running && pf_inherited(at->generation);
}

static inline void pf_sampling_enter(struct pf_sampling *at)
{
	at->own = 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static inline void pf_sampling_leave(struct pf_sampling *at)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	at->own = 0;
}

#endif

/* A sampler has one event that interrupts the thread it counts, and adds up the samples by stack.
 *
 * The event has attr.sigtrap: each overflow sends SIGTRAP to the thread that caused it, on its way back to user space, so that
 * no sleep is cut short and no other thread gets the signal. (Kernels before 5.13 do not have sigtrap; there the descriptor
 * sends the signal, F_SETSIG.) The handler empties the ring at once and weighs each sample by the growth of the count since the
 * previous one. It asks the owner what the thread was doing, and adds the sample to the pending ones. Then it asks the owner to
 * bring about a safe point of the interpreter. There the stack is known, and the pending samples are added to it. So the sum of
 * all weights is the count, even if samples merge, are throttled or get lost.
 *
 *     signal handler:  ring -> pending {function, state, zone, chain, weight, count}    classify() and trigger() are the owner's
 *     safe point:      pf_sampling_enter, walk the stack, pf_sampler_flush(frames), pf_sampling_leave
 *     outside:         code outside of the interpreter reaches no safe point: the handler itself flushes these samples
 *
 * `own` is set while the profiler itself runs on the thread: the count of an exact event (period 1) in that time is subtracted
 * from the total. It also keeps the handler away from the stacks while they change. The handler uses nothing but memory, mmap and
 * the ring; it runs on an alternate stack, which the sampler makes if the thread has none.
 *
 * Only one sampler can run in a process, since the signal handler belongs to the process: the process is claimed before anything
 * else is changed. Foreign signals are passed on to the previous handler, which is restored at the stop. A stop from another
 * thread waits until no handler uses the sampler. */
#ifndef PF_SAMPLER_H
#define PF_SAMPLER_H

#include <signal.h>

#include "core/event/event.h"
#include "core/profile/timeline.h"
#include "core/event/ring.h"
#include "core/stack/sampling.h"

enum pf_sampler_mode {
	PF_SAMPLE_INTERVAL, /* each sample stands for the time or count since the previous one */
	PF_SAMPLE_EXACT,    /* each sample is one event: period 1 */
	PF_SAMPLE_SWITCHES, /* weights are nanoseconds off the CPU, from the switch records */
};

/* attr.sig_data, which the kernel puts into the signal's siginfo. */
#define PF_SAMPLER_COOKIE 0x6c756170u

struct pf_sampler {
	struct pf_sampling at;
	struct pf_moments moments;
	struct pf_ring ring;
	struct pf_layouts layouts;
	struct pf_counter *event;
	enum pf_sampler_mode mode;
	int native, by_descriptor; /* by_descriptor: the event has no sigtrap */
	uint64_t code_start, code_end; /* the interpreter's code: a native call chain ends there */
	/* Called in the signal handler. *function: the address of the code of the C function that runs, if it is known. */
	enum pf_state (*classify)(void *owner, uint64_t *function);
	void (*trigger)(void *owner);
	void *owner;

	const volatile uint32_t *zone; /* the cell of the thread that is profiled */
	uint32_t other; /* the node for samples that got no separate node, for lack of memory */
	uint64_t last;       /* the count at the last sample */
	uint64_t lost;       /* the number of lost records, by the kernel's count when it was last read */
	uint64_t out_since;  /* when the thread was switched out; 0: it is running */
	uint32_t out_chain;  /* its native frames at that time; 0: none */
	uint64_t own_weight; /* the count of an exact event while the profiler itself ran */
	uint64_t sum;        /* the sum of all weights */
	uint64_t samples, own_samples;
	uint64_t started_ns, duration_ns, value;
	uint8_t unblock;
	struct sigaction old;
	void *stack; /* the alternate stack that the sampler made, or NULL */
};

/* The calling thread enters a zone, which is noted in each of its samples; 0 for none. Returns the previous zone. */
uint32_t pf_zone_set(uint32_t zone);
/* The address of the calling thread's zone. */
const volatile uint32_t *pf_zone_cell(void);
/* A number that no other zone of this process has. */
uint32_t pf_zone_new(void);

/* Prepare s for an event that is open, disabled and has the layout l, with room for this many moments. Returns 0 or -errno:
 * -EPERM if the ring cannot be mapped. */
int pf_sampler_init(struct pf_sampler *s, struct pf_counter *event, const struct pf_layout *l, uint32_t moments);
void pf_sampler_free(struct pf_sampler *s); /* idempotent; stops it */

/* Calls pf_sampling_claim, then stops a sampler that a fork left behind. */
int pf_sampler_claim(struct pf_sampler *s);

/* Call it once, after the claim. Neither start nor stop ends the claim. */
int pf_sampler_start(struct pf_sampler *s);
/* May also be called if it is not running, or if the parent started it before a fork. */
int pf_sampler_stop(struct pf_sampler *s);

/* Add the pending samples to the stack that consists of these n frames, innermost first. Call it between enter and leave. */
void pf_sampler_flush(struct pf_sampling *at, const uint32_t *frames, unsigned n);

/* The number of its records that were lost: the kernel's count, or, with older kernels, the sum of the `lost` records that were
 * read. */
uint64_t pf_sampler_lost(struct pf_sampler *s);

/* The exact count, without the profiler's own work. Call it after the stop. */
uint64_t pf_sampler_total(const struct pf_sampler *s);

#endif

/* A sampler has one event that interrupts the thread it counts, and adds the samples up by stack.
 *
 * The event has attr.sigtrap: each overflow sends SIGTRAP to the thread that caused it, on its way back to user space, so that
 * no sleep is cut short and no other thread gets the signal. (Kernels before 5.13 do not have sigtrap; there the descriptor
 * sends the signal, F_SETSIG.) The handler empties the ring at once and weighs each sample by the growth of the count since the
 * previous one. So the sum of all weights is the count, even if samples merge, are throttled or get lost. The stack comes from one
 * of two places:
 *
 *     registers:   the handler unwinds the interpreter's stack from the registers of the interrupted code, and adds the sample
 *     safe point:  the handler asks the owner what the thread was doing, adds the sample to the pending ones and asks for a safe
 *                  point of the interpreter. There the stack is known, and the pending samples are added to it:
 *
 *                      signal handler:  ring -> pending {function, state, zone, chain, weight, count}    classify(), trigger()
 *                      safe point:      pf_sampling_enter, walk the stack, pf_sampler_flush(frames), pf_sampling_leave
 *                      outside:         code outside of the interpreter reaches no safe point: the handler itself flushes
 *
 * `own` is set while the profiler itself runs on the thread: what an exact event (period 1) counts then is taken off the total.
 * It also keeps the handler away from the stacks while they change. The handler uses nothing but memory, mmap and the ring, and, if
 * the event does not count it, one system call or two; it runs on an alternate stack, which is made if the thread has no large one.
 *
 * Several samplers can run at once, in one thread or in many (trap.h), but only one that needs safe points: these belong to the
 * process, which it claims before anything else is changed. */
#ifndef PF_SAMPLER_H
#define PF_SAMPLER_H

#include "core/event/event.h"
#include "core/event/ring.h"
#include "core/profile/timeline.h"
#include "core/stack/c_frames.h"
#include "core/stack/places.h"
#include "core/stack/sampling.h"

enum pf_sampler_mode {
	PF_SAMPLE_INTERVAL, /* each sample stands for the time or count since the previous one */
	PF_SAMPLE_EXACT,    /* each sample is one event: period 1 */
	PF_SAMPLE_SWITCHES, /* weights are nanoseconds off the CPU, from the switch records */
};

enum { PF_CHAIN_DEPTH = 250 }; /* the most native frames of a sample */

struct pf_sampler {
	struct pf_sampling at;
	struct pf_moments moments;
	struct pf_ring ring;
	struct pf_layouts layouts;
	struct pf_counter *event;
	enum pf_sampler_mode mode;
	int native, by_descriptor; /* by_descriptor: the event has no sigtrap */
	int may_ask;               /* the event does not count system calls that the signal handler would make */
	int loads;                 /* pf_peek_ready at the start */
	uint64_t code_start, code_end; /* the interpreter's code: a native call chain ends there */
	void *owner;
	/* Registers, called in the signal handler. NULL for the safe point's method. */
	void (*unwind)(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u);
	uint8_t alone; /* report the running coroutine only, without its resumers */
	const struct pf_hidden *hidden;
	uint64_t failures[PF_UNWIND_FAILURES]; /* samples by enum pf_unwind_failure */
	/* Safe point, called in the signal handler. *function: the address of the code of the C function that runs, if it is known. */
	enum pf_state (*classify)(void *owner, uint64_t *function);
	void (*trigger)(void *owner);

	int slot;         /* in the table of running samplers */
	uint64_t thread;  /* identifies the sampled thread to the signal handler; 0: it has no slot */
	uint32_t *frames; /* room for one unwound stack: the signal handler's stack may be too small */
	struct pf_c_seen *seen; /* for the unwinder */
	struct pf_trace_seen *walks;
	unsigned depth;   /* the most frames of a stack */
	uint64_t arrived; /* the ring's head when the signal handler began */
	const volatile uint32_t *zone; /* the cell with the sampled thread's zone */
	uint32_t other; /* the node for samples that got no separate node, for lack of memory */
	uint64_t last;       /* the count at the last sample */
	uint64_t lost;       /* the number of lost records, by the kernel's count when it was last read */
	uint64_t out_since;  /* when the thread was switched out; 0: it is running */
	uint32_t out_chain;  /* its native frames at that time; 0: none */
	uint64_t out_weight; /* time off the CPU that no sample has covered yet, */
	uint64_t out_until;  /* the end of that time */
	uint64_t own_weight; /* the count of an exact event while the profiler itself ran */
	uint64_t sum;        /* the sum of all weights */
	uint64_t samples, own_samples;
	uint64_t started_ns, duration_ns, value;
};

/* The calling thread enters a zone, which is noted in each of its samples; 0 for none. Returns the previous zone. */
uint32_t pf_zone_set(uint32_t zone);
/* The address of the calling thread's zone. */
const volatile uint32_t *pf_zone_cell(void);
/* A number that no other zone of this process has. */
uint32_t pf_zone_new(void);

/* Prepare s, with room for this many moments. Its event is open, disabled and has the layout l; without an event (NULL), the samples
 * come from elsewhere (allocations.h). Returns 0 or -errno: -EPERM if the ring cannot be mapped. */
int pf_sampler_init(struct pf_sampler *s, struct pf_counter *event, const struct pf_layout *l, uint32_t moments);
void pf_sampler_free(struct pf_sampler *s); /* idempotent; stops it */

/* A number for attr.sig_data, which the kernel puts into the signal's siginfo. No two events of the process have the same. */
uint64_t pf_sampler_number(void);

/* Call it once. Returns 0 or -errno, also for an error of pf_trap_add. A sampler that needs safe points has claimed the process;
 * neither start nor stop ends the claim. */
int pf_sampler_start(struct pf_sampler *s);
/* May also be called if it is not running, or if the parent started it before a fork. */
int pf_sampler_stop(struct pf_sampler *s);

/* Add the pending samples to the stack that consists of these n frames, innermost first. Call it between enter and leave. */
void pf_sampler_flush(struct pf_sampling *at, const uint32_t *frames, unsigned n);

/* For the files of the sampler. The node of what the thread did (zone and state of the kind, not its chain) on a stack; `other` if
 * there is no memory. Adding to the sum of a node, below a chain: returns the node that got it. */
uint32_t pf_sampler_node(struct pf_sampler *s, const struct pf_kind *k, const uint32_t *frames, unsigned n);
uint32_t pf_sampler_add(struct pf_sampler *s, uint32_t node, uint32_t chain, uint64_t weight, uint64_t count);

/* The node of a state on top of a node; `other` if there is no memory. */
uint32_t pf_sampler_in_state(struct pf_sampler *s, uint32_t node, enum pf_state state);

/* Unwind the stack of these registers: fills in kind->state and *failed (enum pf_unwind_failure), and returns its node. old: in a
 * profile of allocations, the block that the new one replaces; NULL if there is none. */
uint32_t pf_sampler_unwind(struct pf_sampler *s, const struct pf_registers *r, const struct pf_memory *m, const void *old,
			   struct pf_kind *kind, int *failed);

/* In the signal handler. arrive: note that all records so far are of the interrupted code. take: read and add those; context is
 * the handler's third argument. empty: read the rest; from the position `own` on, it is the profiler's own work. */
void pf_sampler_arrive(struct pf_sampler *s);
void pf_sampler_take(struct pf_sampler *s, const void *context);
void pf_sampler_empty(struct pf_sampler *s, uint64_t own);
/* At the stop: add the time off the CPU that no sample has covered. */
void pf_sampler_end_switches(struct pf_sampler *s);

/* The number of its records that were lost: the kernel's count, or, with older kernels, the sum of the `lost` records that were
 * read. */
uint64_t pf_sampler_lost(struct pf_sampler *s);

/* The exact count, without the profiler's own work. Call it after the stop. */
uint64_t pf_sampler_total(const struct pf_sampler *s);

#endif

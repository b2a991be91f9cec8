/* See trap.h. */
#include "core/profile/trap.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/base/signal.h"
#include "core/base/signal_stack.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"

/* --- the running samplers ------------------------------------------------------------------------------------------- */

static struct slot {
	/* pf_fork_generation of the sampler; its complement while the sampler is added; 0: free; another: a parent's, before a fork */
	atomic_uint generation;
	atomic_int handlers; /* the number of running signal handlers that may use it */
	_Atomic(struct pf_sampler *) sampler;
} slots[PF_TRAP_MOST];

static atomic_int used; /* slots from this one on were never used: the signal handler does not look at them */

static _Atomic uint64_t numbers, threads;

/* The address makes the numbers of two copies of this library in a process differ. */
static uint64_t first_number(void)
{
	return (uintptr_t)slots;
}

uint64_t pf_sampler_number(void)
{
	return first_number() + atomic_fetch_add(&numbers, 1);
}

static void let_go(struct slot *slot)
{
	atomic_fetch_sub(&slot->handlers, 1);
}

/* The slot's sampler, until let_go; NULL: this process has none there. */
static struct pf_sampler *hold(struct slot *slot)
{
	struct pf_sampler *s;

	if (atomic_load(&slot->generation) != pf_fork_generation())
		return NULL;
	atomic_fetch_add(&slot->handlers, 1); /* from here on, pf_trap_remove in another thread waits */
	s = atomic_load(&slot->sampler);
	if (!s)
		let_go(slot);
	return s;
}

/* --- the signal ----------------------------------------------------------------------------------------------------- */

static void on_signal(int sig, siginfo_t *info, void *context, unsigned layer);
static struct pf_signal trap;
PF_SIGNAL_HANDLERS(on_signal, &trap)

static struct pf_signal trap = {.number = SIGTRAP,
				.discard = 1,
				.flags = SA_RESTART | SA_ONSTACK,
				.layer = PF_SIGNAL_LAYERS_OF(on_signal)};

/* The state of a thread while it is sampled. */
static PF_THREAD_LOCAL struct here {
	uint64_t number; /* of the thread: one that has ended may have been at the same address. 0: it was not sampled yet */
	unsigned users;
	volatile sig_atomic_t busy; /* the signal handler runs. A load that faults in it may let Linux start it again: see peek.c */
	uint8_t blocked; /* SIGTRAP was blocked */
} here;

/* A siginfo_t with the members that the C library may not have. */
struct perf_siginfo {
	int signo, error, code;
	void *addr;
	unsigned long data;
};

/* Was the signal sent by an event's descriptor? Then the code is SI_SIGIO since Linux 4.17. Before, it was POLL_IN, which is also
 * the code of a breakpoint (TRAP_BRKPT). A breakpoint has the address of its instruction in si_band; a descriptor has a few low
 * bits there. */
static int is_by_descriptor(const siginfo_t *info)
{
	return info->si_code == SI_SIGIO || (info->si_code == POLL_IN && (unsigned long)info->si_band < 4096);
}

/* Has a sampler of this thread records that no handler has read yet? */
static int has_records(void)
{
	int has = 0;

	for (int i = 0; i < atomic_load(&used) && !has; i++) {
		struct pf_sampler *s = hold(&slots[i]);

		if (!s)
			continue;
		has = s->thread == here.number && pf_ring_head(&s->ring) != s->ring.tail;
		let_go(&slots[i]);
	}
	return has;
}

/* Was it sent by the event of a sampler, running or stopped? If info is NULL, the signal is taken for ours while there are unread
 * records. */
static int is_ours(const siginfo_t *info, unsigned layer)
{
	struct perf_siginfo p;
	int ours = 0;

	if (!info)
		return has_records();
	memcpy(&p, info, sizeof p);
	if (info->si_code == PF_TRAP_PERF)
		return p.data - first_number() < atomic_load(&numbers);
	if (!is_by_descriptor(info))
		return 0;
	for (int i = 0; i < atomic_load(&used) && !ours; i++) {
		const struct pf_sampler *s = hold(&slots[i]);

		if (!s)
			continue;
		ours = s->by_descriptor && s->event->fd == info->si_fd;
		let_go(&slots[i]);
	}
	/* A late signal of a stopped sampler would end the process. If the program has no handler, it cannot want the signal. */
	return ours || trap.layer[layer].to.sa_handler == SIG_DFL;
}

/* One signal serves all samplers of the thread. First each of them notes which records are of the interrupted code, so that none
 * counts the work of this handler. */
static void take_samples(const void *context)
{
	struct pf_sampler *of[PF_TRAP_MOST];
	const int n = atomic_load(&used);

	for (int i = 0; i < n; i++) {
		of[i] = hold(&slots[i]);
		if (!of[i])
			continue;
		if (of[i]->thread == here.number) {
			pf_sampler_arrive(of[i]);
		} else {
			of[i] = NULL;
			let_go(&slots[i]);
		}
	}
	for (int i = 0; i < n; i++)
		if (of[i])
			pf_sampler_take(of[i], context);
	for (int i = 0; i < n; i++)
		if (of[i]) {
			pf_sampler_empty(of[i], of[i]->ring.tail);
			let_go(&slots[i]);
		}
}

static void on_signal(int sig, siginfo_t *info, void *context, unsigned layer)
{
	const int saved = errno;

	if (is_ours(info, layer)) {
		/* Without a context, no stack can be taken: the records are left to the next signal. */
		if (context && !here.busy && !pf_signal_stack_is_small(context)) {
			here.busy = 1;
			take_samples(context);
			here.busy = 0;
		}
	} else {
		pf_signal_pass_on(&trap, layer, sig, info, context); /* may not return */
	}
	errno = saved;
}

/* --- the thread ----------------------------------------------------------------------------------------------------- */

static void set_blocked(int how, uint8_t *before)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	pthread_sigmask(how, &set, &old);
	if (before)
		*before = sigismember(&old, SIGTRAP) == 1;
}

static void take_thread(void)
{
	pf_own_stack_find();
	if (!here.number)
		here.number = atomic_fetch_add(&threads, 1) + 1;
	if (here.users++ > 0)
		return;
	pf_signal_stack_take();
	set_blocked(SIG_UNBLOCK, &here.blocked);
}

static void give_thread(void)
{
	if (--here.users > 0)
		return;
	if (here.blocked)
		set_blocked(SIG_BLOCK, NULL);
	pf_signal_stack_give();
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pf_trap_add(struct pf_sampler *s)
{
	const unsigned now = pf_fork_generation();
	int r;

	for (int i = 0; i < PF_TRAP_MOST; i++) {
		unsigned seen = atomic_load(&slots[i].generation);

		if (seen == now || seen == ~now || !atomic_compare_exchange_strong(&slots[i].generation, &seen, ~now))
			continue;
		if (seen != 0)
			atomic_store(&slots[i].handlers, 0); /* handlers of the parent's threads do not end in this process */
		s->slot = i;
		take_thread();
		s->thread = here.number;
		r = pf_signal_take(&trap);
		atomic_store(&slots[i].sampler, s);
		for (int n = atomic_load(&used); n <= i && !atomic_compare_exchange_weak(&used, &n, i + 1);)
			;
		atomic_store(&slots[i].generation, now); /* last: until then the slot may have the parent's sampler */
		if (r < 0) /* without our handler there are no samples, and SIG_DFL would end the process */
			pf_trap_remove(s);
		return r;
	}
	return -EBUSY;
}

void pf_trap_remove(struct pf_sampler *s)
{
	struct slot *slot = &slots[s->slot];
	struct pf_sampler *now = s;
	unsigned generation = s->at.generation;

	if (!s->thread)
		return;
	if (atomic_compare_exchange_strong(&slot->sampler, &now, NULL)) {
		/* Wait for handlers in other threads that still use s. If the program's handler has interrupted ours in this
		 * thread and called exit, ours never ends, so do not wait for it. */
		while (!pf_sampling_inherited(&s->at) && !here.busy && atomic_load(&slot->handlers))
			sched_yield();
		atomic_compare_exchange_strong(&slot->generation, &generation, 0); /* unless a child's sampler is added there */
	}
	pf_signal_give(&trap, s->at.generation);
	if (s->thread == here.number)
		give_thread();
	s->thread = 0;
}

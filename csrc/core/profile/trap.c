/* See trap.h. */
#include "core/profile/trap.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/pages.h"
#include "core/base/signal.h"

/* Unwinding takes up to 16 KB, two signal frames with all registers 7 KB; many programs have an alternate stack of 8 KB. */
enum { STACK_SIZE = 64 << 10, TRAP_CODE_PERF = 6 };

/* --- the running samplers ------------------------------------------------------------------------------------------- */

static struct slot {
	atomic_uint generation; /* pf_fork_generation of the sampler, 0: free. An older one is of the parent before a fork */
	atomic_int handlers;    /* the number of running signal handlers that may use it */
	_Atomic(struct pf_sampler *) sampler;
} slots[PF_TRAP_MOST];

static _Atomic uint64_t numbers;

/* Two copies of this library in a process have different numbers. */
static uint64_t first_number(void)
{
	return (uintptr_t)slots;
}

uint64_t pf_sampler_number(void)
{
	return first_number() + atomic_fetch_add(&numbers, 1);
}

static struct pf_sampler *hold(struct slot *slot)
{
	atomic_fetch_add(&slot->handlers, 1); /* from here on another thread's remove waits */
	return atomic_load(&slot->sampler);
}

static void let_go(struct slot *slot)
{
	atomic_fetch_sub(&slot->handlers, 1);
}

/* --- the signal ----------------------------------------------------------------------------------------------------- */

static void on_signal(int sig, siginfo_t *info, void *context);

/* SIGINT is blocked meanwhile: the interpreter's handler for it sets a hook, and so may the sampler's. */
static struct pf_signal trap = {
	.number = SIGTRAP, .handler = on_signal, .discard = 1, .flags = SA_RESTART | SA_ONSTACK, .block = SIGINT};

/* The state of a thread while it is sampled. */
static _Thread_local struct here {
	unsigned users;
	volatile sig_atomic_t busy; /* the signal handler runs; Linux may begin it again when a load of it faults: see peek.c */
	uint8_t blocked; /* SIGTRAP was blocked */
	void *stack;     /* the alternate stack that was made for it; NULL: it has a large one of its own */
	stack_t before;
} here;

/* The members of a siginfo_t that the C library may not name. */
struct perf_siginfo {
	int signo, error, code;
	void *addr;
	unsigned long data;
};

/* Was the signal sent by the descriptor of an event? SI_SIGIO since Linux 4.17. Before, POLL_IN, which is also the code of a
 * breakpoint (TRAP_BRKPT); that has the address of the instruction in the place of si_band, which has a few low bits. */
static int is_by_descriptor(const siginfo_t *info)
{
	return info->si_code == SI_SIGIO || (info->si_code == POLL_IN && (unsigned long)info->si_band < 4096);
}

/* Was it sent by the event of a sampler, which may have stopped since? */
static int is_ours(const siginfo_t *info)
{
	struct perf_siginfo p;
	int ours = 0;

	memcpy(&p, info, sizeof p);
	if (info->si_code == TRAP_CODE_PERF)
		return p.data - first_number() < atomic_load(&numbers);
	if (!is_by_descriptor(info))
		return 0;
	for (int i = 0; i < PF_TRAP_MOST && !ours; i++) {
		const struct pf_sampler *s = hold(&slots[i]);

		ours = s && s->by_descriptor && s->event->fd == info->si_fd;
		let_go(&slots[i]);
	}
	/* A late one of a sampler that has stopped would end the process. The program has no use for one without a handler. */
	return ours || trap.before.sa_handler == SIG_DFL;
}

/* One signal serves all samplers of the thread: what the handler does counts for none of them. */
static void take_samples(const void *context)
{
	struct pf_sampler *of[PF_TRAP_MOST];
	const unsigned generation = pf_fork_generation();

	for (int i = 0; i < PF_TRAP_MOST; i++) {
		of[i] = NULL;
		if (atomic_load(&slots[i].generation) != generation)
			continue;
		of[i] = hold(&slots[i]);
		if (of[i] && of[i]->here == &here) {
			pf_sampler_arrive(of[i]);
		} else {
			of[i] = NULL;
			let_go(&slots[i]);
		}
	}
	for (int i = 0; i < PF_TRAP_MOST; i++)
		if (of[i])
			pf_sampler_take(of[i], context);
	for (int i = 0; i < PF_TRAP_MOST; i++)
		if (of[i]) {
			pf_sampler_empty(of[i]);
			let_go(&slots[i]);
		}
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const int saved = errno;

	if (is_ours(info)) {
		if (!here.busy) {
			here.busy = 1;
			take_samples(context);
			here.busy = 0;
		}
	} else {
		pf_signal_pass_on(&trap, sig, info, context); /* may not return */
	}
	errno = saved;
}

/* --- the thread ----------------------------------------------------------------------------------------------------- */

static pthread_key_t ending;
static int has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Go back to another alternate stack, unless the program has set one meanwhile. */
static void free_stack(void *stack, const stack_t *before)
{
	stack_t now;

	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == stack)
		sigaltstack(before, NULL);
	pf_pages_put(stack, STACK_SIZE);
}

/* The thread ends while it is sampled. The stack that it had before may have been freed. */
static void end_stack(void *stack)
{
	free_stack(stack, &(stack_t){.ss_flags = SS_DISABLE});
}

static void make_key(void)
{
	has_key = pthread_key_create(&ending, end_stack) == 0;
}

static void take_stack(void)
{
	if (sigaltstack(NULL, &here.before) < 0 || (!(here.before.ss_flags & SS_DISABLE) && here.before.ss_size >= STACK_SIZE))
		return; /* it has one that is large enough */
	here.stack = pf_pages_get(STACK_SIZE);
	if (!here.stack)
		return;
	if (has_key)
		pthread_setspecific(ending, here.stack); /* so that it is freed with the thread */
	sigaltstack(&(stack_t){.ss_sp = here.stack, .ss_size = STACK_SIZE}, NULL);
}

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
	pthread_once(&once, make_key);
	if (here.users++ > 0)
		return;
	take_stack();
	set_blocked(SIG_UNBLOCK, &here.blocked);
}

static void give_thread(void)
{
	if (--here.users > 0)
		return;
	if (here.blocked)
		set_blocked(SIG_BLOCK, NULL);
	if (here.stack) {
		if (has_key)
			pthread_setspecific(ending, NULL);
		free_stack(here.stack, &here.before);
	}
	here.stack = NULL;
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pf_trap_add(struct pf_sampler *s)
{
	const unsigned now = pf_fork_generation();

	for (int i = 0; i < PF_TRAP_MOST; i++) {
		unsigned seen = atomic_load(&slots[i].generation);

		if (seen == now || !atomic_compare_exchange_strong(&slots[i].generation, &seen, now))
			continue;
		if (seen != 0)
			atomic_store(&slots[i].handlers, 0); /* handlers that ran in the parent's threads will not end here */
		s->slot = i;
		s->here = &here;
		take_thread();
		pf_signal_take(&trap);
		atomic_store(&slots[i].sampler, s);
		return 0;
	}
	return -EBUSY;
}

void pf_trap_remove(struct pf_sampler *s)
{
	const int inherited = pf_sampling_inherited(&s->at), here_too = s->here == &here && (inherited || s->at.tid == (int)syscall(SYS_gettid));
	struct slot *slot = &slots[s->slot];
	struct pf_sampler *now = s;

	if (!s->here)
		return;
	if (atomic_compare_exchange_strong(&slot->sampler, &now, NULL)) {
		/* Handlers in any thread may still use s. But one that the program's handler has interrupted, and that calls exit
		 * here, will not go on. */
		while (!inherited && !here.busy && atomic_load(&slot->handlers))
			sched_yield();
		atomic_store(&slot->generation, 0);
	}
	pf_signal_give(&trap, s->at.generation);
	if (here_too)
		give_thread();
	s->here = NULL;
}

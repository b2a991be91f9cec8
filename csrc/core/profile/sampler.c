/* See sampler.h. */
#include "core/profile/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/sys.h"
#include "core/base/thread.h"
#include "core/base/clock.h"

enum { RING_PAGES = 64, STACK_SIZE = 64 << 10, SWITCH_OUT = 1 << 13, TRAP_CODE_PERF = 6 };

#define CONTEXT_KERNEL UINT64_C(0xffffffffffffff80)
#define CONTEXT_USER UINT64_C(0xfffffffffffffe00)
#define CONTEXT_MAX UINT64_C(0xfffffffffffff001)

/* They belong to the sampler that has claimed the process: see pf_sampling_claim. The sampler is set only while it runs. */
static struct {
	_Atomic(struct pf_sampler *) sampler;
	atomic_int handlers; /* the number of running signal handlers that use it */
} active;

static int this_thread(void)
{
	return (int)syscall(SYS_gettid);
}

/* --- pending samples ------------------------------------------------------------------------------------------------ */

static void pend(struct pf_sampler *s, const struct pf_record *r, const struct pf_kind *kind, uint64_t weight)
{
	struct pf_moment moment = {.time = r->time, .addr = r->addr, .weight = weight, .cpu = r->cpu};

	moment.node = pf_pendings_add(&s->at.pending, kind, weight);
	pf_moments_add(&s->moments, &moment);
	s->samples++;
}

/* --- the signal ----------------------------------------------------------------------------------------------------- */

/* Intern a call chain in a tree of its own, outermost frame first; *chain is 0 for an empty one. Frames below the interpreter
 * are its callers, and are left out unless `whole`. 0 or -ENOMEM. */
static int intern_chain(struct pf_sampler *s, const uint64_t *ips, unsigned n, int whole, uint32_t *chain)
{
	struct pf_stacks *st = &s->at.stacks;
	enum pf_frame_kind kinds[PF_STACK_DEPTH], kind = PF_FRAME_USER;
	uint64_t found[PF_STACK_DEPTH];
	unsigned k = 0;
	uint32_t node;

	for (unsigned i = 0; i < n && k < PF_STACK_DEPTH; i++) {
		if (ips[i] >= CONTEXT_MAX) {
			kind = ips[i] == CONTEXT_KERNEL ? PF_FRAME_KERNEL : PF_FRAME_USER;
			continue;
		}
		if (kind == PF_FRAME_USER && !whole && ips[i] >= s->code_start && ips[i] < s->code_end)
			break;
		kinds[k] = kind;
		found[k++] = ips[i];
	}
	*chain = 0;
	if (k == 0)
		return 0;
	node = pf_stacks_child(st, 0, pf_stacks_frame(st, PF_FRAME_STATE, PF_STATES, 0));
	while (node && k-- > 0)
		node = pf_stacks_child(st, node, pf_stacks_frame(st, kinds[k], found[k], 0));
	*chain = node;
	return node ? 0 : -ENOMEM;
}

/* here: what the thread was doing. */
static void take_sample(struct pf_sampler *s, const struct pf_record *r, const unsigned char *bytes, struct pf_kind here, int own)
{
	uint64_t value, weight;

	if (!(r->has & PF_SAMPLE(READ)) || r->read.n == 0)
		return;
	value = pf_view_u64(bytes, r->read)[0];
	if (own && s->mode == PF_SAMPLE_INTERVAL) {
		s->own_samples++;
		return; /* the next sample covers this time too */
	}
	weight = value - s->last;
	s->last = value;
	if (own) {
		s->own_weight += weight;
		s->own_samples++;
		return;
	}
	if (s->native && r->has & PF_SAMPLE(CALLCHAIN))
		if (intern_chain(s, pf_view_u64(bytes, r->callchain), r->callchain.n, here.state == PF_OUTSIDE, &here.chain) < 0)
			here = (struct pf_kind){.state = PF_OTHER, .zone = here.zone};
	pend(s, r, &here, weight);
}

/* The kernel writes a sample, which has the call chain, then the record of the switch out, then that of the switch in. */
static void take_switch(struct pf_sampler *s, const struct pf_record *r, const unsigned char *bytes, struct pf_kind here)
{
	if (r->type == PF_RECORD_SAMPLE && s->native && r->has & PF_SAMPLE(CALLCHAIN)) {
		intern_chain(s, pf_view_u64(bytes, r->callchain), r->callchain.n, here.state == PF_OUTSIDE, &s->out_chain);
	} else if (r->type == PF_RECORD_SWITCH && r->misc & SWITCH_OUT) {
		s->out_since = r->time;
	} else if (r->type == PF_RECORD_SWITCH && s->out_since) {
		here.chain = s->out_chain;
		pend(s, r, &here, r->time - s->out_since);
		s->out_since = s->out_chain = 0;
	}
}

static void empty_ring(struct pf_sampler *s, const struct pf_kind *here, int own)
{
	const unsigned char *bytes;
	struct pf_record r;
	int n;

	/* Skip a damaged record. A ring that is not mapped has no records, and would return an error every time. */
	while ((n = pf_ring_next(&s->ring, &r, &bytes)) != 0 && n != -EBADF) {
		if (n < 0)
			continue;
		if (s->mode == PF_SAMPLE_SWITCHES) {
			take_switch(s, &r, bytes, *here);
		} else if (r.type == PF_RECORD_SAMPLE) {
			take_sample(s, &r, bytes, *here, own);
		}
	}
	pf_ring_release(&s->ring);
}

/* The members of a siginfo_t that the C library's header may lack. */
struct perf_siginfo {
	int signo, error, code, pad;
	void *addr;
	unsigned long data;
};

static int is_ours(const struct pf_sampler *s, const siginfo_t *info)
{
	struct perf_siginfo p;

	memcpy(&p, info, sizeof p);
	if (info->si_code == TRAP_CODE_PERF)
		return p.data == PF_SAMPLER_COOKIE;
	/* Sent by the descriptor: SI_SIGIO since Linux 4.17, because SIGTRAP has codes of its own; POLL_* before. */
	return (info->si_code == SI_SIGIO || info->si_code == POLL_IN || info->si_code == POLL_HUP) &&
	       info->si_fd == s->event->fd;
}

static void pass_on(const struct sigaction *old, int sig, siginfo_t *info, void *context)
{
	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(sig, info, context);
	} else if (old->sa_handler == SIG_DFL) {
		sigaction(sig, old, NULL);
		raise(sig); /* delivered when this handler has returned */
	} else if (old->sa_handler != SIG_IGN) {
		old->sa_handler(sig);
	}
}

static void take_samples(struct pf_sampler *s)
{
	struct pf_kind here = {.state = PF_AT_LUA};

	if (s->at.own) {
		empty_ring(s, &here, 1);
	} else if (!pf_ring_inherited(&s->ring)) {
		pf_sampling_enter(&s->at);
		here.state = s->classify(s->owner, &here.function);
		here.zone = *s->zone;
		empty_ring(s, &here, 0);
		if (here.state == PF_OUTSIDE)
			pf_sampler_flush(&s->at, NULL, 0);
		pf_sampling_leave(&s->at);
		if (pf_pendings_any(&s->at.pending))
			s->trigger(s->owner);
	}
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const int saved = errno;
	struct sigaction old;
	struct pf_sampler *s;
	int ours;

	atomic_fetch_add(&active.handlers, 1); /* from here on another thread's stop waits */
	s = atomic_load(&active.sampler);
	ours = !s || is_ours(s, info); /* no sampler: it has stopped since the signal was sent */
	if (!ours)
		old = s->old;
	else if (s)
		take_samples(s);
	atomic_fetch_sub(&active.handlers, 1);
	if (!ours)
		pass_on(&old, sig, info, context); /* may not return */
	errno = saved;
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pf_sampler_init(struct pf_sampler *s, struct pf_counter *event, const struct pf_layout *l, uint32_t moments)
{
	size_t pages = RING_PAGES;
	int r;

	s->event = event;
	s->at.flush = pf_sampler_flush;
	r = pf_stacks_init(&s->at.stacks);
	if (r == 0)
		r = pf_pendings_init(&s->at.pending, &(struct pf_kind){.state = PF_OTHER});
	if (r == 0) {
		s->other = pf_stacks_child(&s->at.stacks, 0, pf_stacks_frame(&s->at.stacks, PF_FRAME_STATE, PF_OTHER, 0));
		r = pf_stacks_add(&s->at.stacks, s->other, 0, 0);
	}
	if (r == 0)
		r = pf_moments_init(&s->moments, moments);
	if (r == 0)
		r = pf_layouts_add(&s->layouts, l);
	if (r >= 0)
		while ((r = pf_ring_map(&s->ring, event->fd, pages, 0, 0)) == -EPERM && pages > 1)
			pages /= 2;
	if (r < 0) {
		pf_sampler_free(s);
		return r;
	}
	s->ring.layouts = &s->layouts;
	/* Touch each page now: the first access is a page fault, and page faults may be what is profiled. */
	for (size_t at = 0; at < s->ring.map_size; at += 4096)
		(void)*(volatile unsigned char *)(s->ring.map + at);
	pf_ring_skip(&s->ring, 0); /* write to the header page: the first write is another fault */
	memset(s->ring.scratch, 0, PF_RECORD_MAX_SIZE);
	return 0;
}

void pf_sampler_free(struct pf_sampler *s)
{
	pf_sampler_stop(s);
	pf_ring_unmap(&s->ring);
	pf_layouts_free(&s->layouts);
	pf_stacks_free(&s->at.stacks);
	pf_moments_free(&s->moments);
	pf_pendings_free(&s->at.pending);
	s->event = NULL;
}

int pf_sampler_claim(struct pf_sampler *s)
{
	const int r = pf_sampling_claim(&s->at);
	struct pf_sampler *left = r == 0 ? atomic_load(&active.sampler) : NULL;

	if (left) { /* of the parent before a fork */
		atomic_store(&active.handlers, 0); /* handlers that ran in the parent's threads will not end here */
		pf_sampler_stop(left);
	}
	return r;
}

/* After this no signal handler uses s. */
static void detach(struct pf_sampler *s, int inherited)
{
	struct pf_sampler *now = s;

	if (!atomic_compare_exchange_strong(&active.sampler, &now, NULL))
		return;
	if (inherited || s->at.tid == this_thread())
		return;
	while (atomic_load(&active.handlers))
		sched_yield(); /* a handler on the sampled thread may still use s */
}

/* The descriptor sends the signal where the event cannot. */
static int signal_by_descriptor(const struct pf_sampler *s)
{
	const struct {
		int type, pid;
	} owner = {F_OWNER_TID, s->at.tid};
	const int fd = s->event->fd;
	int r;

	if (!s->by_descriptor)
		return 0;
	r = pf_sys->fcntl(fd, F_SETSIG, SIGTRAP);

	if (r >= 0)
		r = pf_sys->fcntl(fd, F_SETOWN_EX, (long)(intptr_t)&owner);
	if (r >= 0)
		r = pf_sys->fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
	return r;
}

static void take_stack(struct pf_sampler *s)
{
	stack_t now;

	if (sigaltstack(NULL, &now) < 0 || !(now.ss_flags & SS_DISABLE))
		return; /* it has one */
	if (pf_sys->mmap(&s->stack, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) < 0) {
		s->stack = NULL;
		return;
	}
	now = (stack_t){.ss_sp = s->stack, .ss_size = STACK_SIZE};
	sigaltstack(&now, NULL);
}

static void give_stack(struct pf_sampler *s, int inherited)
{
	stack_t now;

	if (!s->stack)
		return;
	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == s->stack) {
		now = (stack_t){.ss_flags = SS_DISABLE};
		sigaltstack(&now, NULL);
	} else if (!inherited && s->at.tid != this_thread() && syscall(SYS_tgkill, getpid(), s->at.tid, 0) == 0) {
		s->stack = NULL; /* another thread is alive and may still use it as its alternate stack: leave it mapped */
		return;
	}
	pf_sys->munmap(s->stack, STACK_SIZE);
	s->stack = NULL;
}

static void set_blocked(int how, int *before)
{
	sigset_t trap, old;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(how, &trap, &old);
	if (before)
		*before = sigismember(&old, SIGTRAP) == 1;
}

static void take_signal(struct pf_sampler *s)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
	int blocked = 0;

	sigemptyset(&action.sa_mask);
	sigaddset(&action.sa_mask, SIGINT); /* the interpreter's SIGINT handler sets a hook, and so may trigger */
	sigaction(SIGTRAP, &action, &s->old);
	set_blocked(SIG_UNBLOCK, &blocked);
	s->unblock = blocked != 0;
}

static void give_signal(struct pf_sampler *s, int inherited)
{
	const struct sigaction none = {.sa_handler = SIG_IGN};
	struct sigaction now;

	/* Restore the previous action only if ours is still set. SIG_IGN discards a pending signal, which would kill the process
	 * under the default action. */
	if (sigaction(SIGTRAP, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) {
		sigaction(SIGTRAP, &none, NULL);
		sigaction(SIGTRAP, &s->old, NULL);
	}
	if (s->unblock && (inherited || s->at.tid == this_thread()))
		set_blocked(SIG_BLOCK, NULL);
}

int pf_sampler_start(struct pf_sampler *s)
{
	int r;

	s->zone = pf_zone_cell(); /* not in the handler, since a thread's first access may allocate */
	take_stack(s);
	s->at.running = 1;
	take_signal(s);
	pf_sampling_enter(&s->at);
	atomic_store(&active.sampler, s);
	s->started_ns = pf_wall_ns();
	r = signal_by_descriptor(s);
	if (r >= 0)
		r = pf_counter_ioctl(s->event, PF_IOC_ENABLE, 0);
	if (r < 0) {
		pf_sampler_stop(s);
		return r;
	}
	pf_sampling_leave(&s->at);
	return 0;
}

int pf_sampler_stop(struct pf_sampler *s)
{
	const struct pf_kind here = {.state = PF_AT_LUA};
	const int inherited = pf_sampling_inherited(&s->at);
	uint64_t words[8];
	ssize_t n;
	int r = 0;

	if (!s->at.running)
		return 0;
	pf_sampling_enter(&s->at);
	if (!inherited)
		r = pf_counter_ioctl(s->event, PF_IOC_DISABLE, 0);
	detach(s, inherited);
	if (!inherited) {
		empty_ring(s, &here, 1);
		pf_sampler_flush(&s->at, NULL, 0); /* no safe point will follow */
		n = pf_counter_read(s->event, words, sizeof words / sizeof *words);
		s->value = n > 0 ? words[0] : s->own_weight;
		if (n > 1 && (s->event->format & PF_FORMAT(LOST))) /* the last reading */
			s->lost = words[n - 1];
		s->duration_ns = pf_wall_ns() - s->started_ns;
		if (r < 0) { /* close an event that cannot be disabled: it would go on sending signals */
			pf_ring_unmap(&s->ring);
			pf_event_close(s->event);
		} else if (n < 0) {
			r = (int)n;
		}
	}
	s->at.running = 0;
	give_signal(s, inherited);
	give_stack(s, inherited);
	return r < 0 ? r : 0;
}

uint64_t pf_sampler_lost(struct pf_sampler *s)
{
	if (s->at.running && !pf_sampling_inherited(&s->at))
		pf_event_lost(s->event, &s->lost);
	return (s->lost > s->ring.lost ? s->lost : s->ring.lost) + s->ring.lost_samples;
}

uint64_t pf_sampler_total(const struct pf_sampler *s)
{
	return s->mode == PF_SAMPLE_SWITCHES ? s->sum : s->value - s->own_weight;
}

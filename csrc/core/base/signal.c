/* See signal.h. */
#include "core/base/signal.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/base/thread.h"

static atomic_uint lock; /* all signals' */

/* SIG_DFL and SIG_IGN also count with SA_SIGINFO, which some programs set without a handler. */
static int is_plain(const struct sigaction *a)
{
	return a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN;
}

static int is_same(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_sigaction == b->sa_sigaction && !((a->sa_flags ^ b->sa_flags) & (int)SA_RESETHAND);
}

/* The layer whose handler an action has, or NULL. The action may lack SA_SIGINFO: see pf_signal_arguments. */
static struct pf_signal_layer *find(struct pf_signal *s, const struct sigaction *a)
{
	for (struct pf_signal_layer *l = s->layer; l < s->layer + PF_SIGNAL_LAYERS; l++)
		if (a->sa_sigaction == l->handler)
			return l;
	return NULL;
}

/* The layer in force, or NULL. *now: the action in force. */
static struct pf_signal_layer *current(struct pf_signal *s, struct sigaction *now)
{
	return sigaction(s->number, NULL, now) == 0 ? find(s, now) : NULL;
}

int pf_signal_is_taken(struct pf_signal *s)
{
	struct sigaction now;

	return current(s, &now) && now.sa_flags & SA_SIGINFO;
}

/* The layer that may be installed over an action, or NULL. */
static struct pf_signal_layer *choose(struct pf_signal *s, const struct sigaction *now)
{
	for (struct pf_signal_layer *l = s->layer; l < s->layer + PF_SIGNAL_LAYERS; l++)
		if (!l->used || is_same(&l->before, now))
			return l;
	return NULL;
}

/* Replace the action `now`. Returns 0; -EPERM if the kernel refuses; -EAGAIN if another thread has installed a different action
 * meanwhile, which stays in force. */
static int replace(const struct pf_signal *s, const struct sigaction *now, const struct sigaction *by)
{
	struct sigaction put = *by, last, found;

	if (sigaction(s->number, by, &found) < 0)
		return -EPERM;
	if (is_same(&found, now))
		return 0;
	do { /* until nothing was installed between two calls */
		last = put;
		put = found;
		sigaction(s->number, &put, &found);
	} while (!is_same(&found, &last));
	return -EAGAIN;
}

/* A handler of the program that interrupts ours may leave both by siglongjmp, and then ours never ends. So ours blocks all
 * signals but those of faults: if such a signal is blocked when the fault occurs, the kernel kills the process. */
static void block_others(sigset_t *mask)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

	sigfillset(mask);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigdelset(mask, faults[i]);
}

/* The action of a layer. */
static struct sigaction action(const struct pf_signal *s, const struct pf_signal_layer *l)
{
	struct sigaction ours = l->before;

	if (s->flags) {
		ours.sa_flags = s->flags;
		block_others(&ours.sa_mask);
	}
	ours.sa_flags = (ours.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	ours.sa_sigaction = l->handler;
	return ours;
}

static int install(struct pf_signal *s)
{
	struct sigaction now, ours;
	struct pf_signal_layer *l;
	int r;

	do {
		if (sigaction(s->number, NULL, &now) < 0)
			return -EPERM;
		l = find(s, &now);
		if (l && now.sa_flags & SA_SIGINFO)
			return 0;
		if (!l) {
			l = choose(s, &now);
			if (!l)
				return -ENOSPC;
			l->before = l->to = now;
			l->used = 1;
		}
		ours = action(s, l);
		r = replace(s, &now, &ours);
	} while (r == -EAGAIN);
	return r;
}

int pf_signal_take(struct pf_signal *s)
{
	const unsigned generation = pf_fork_generation();
	int r;

	pf_lock(&lock, PF_LOCK_PAUSE);
	if (s->generation != generation)
		s->users = 0;
	s->generation = generation;
	s->users++;
	r = install(s);
	pf_unlock(&lock);
	return r;
}

static void give_back(struct pf_signal *s)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction now;
	const struct pf_signal_layer *l = current(s, &now);

	if (!l)
		return;
	if (s->discard) {
		if (replace(s, &now, &ignore) == -EAGAIN)
			return;
		now = ignore;
	}
	replace(s, &now, &l->to);
}

void pf_signal_give(struct pf_signal *s, uint32_t generation)
{
	pf_lock(&lock, PF_LOCK_PAUSE);
	if (s->users && s->generation == generation) {
		s->users = pf_inherited(generation) ? 0 : s->users - 1;
		if (s->users == 0)
			give_back(s);
	}
	pf_unlock(&lock);
}

/* Returns 1 if the handler's stack frame shows that the kernel has called it with SA_SIGINFO: the siginfo and the context then
 * have known places in the frame. Returns 0 if only a system call can tell. */
static int is_ordinary(int number, const siginfo_t *info, const ucontext_t *context, const void *frame)
{
#if defined __x86_64__ && !defined __ILP32__
	/* Linux passes both pointers in any case, but it does not set *info without SA_SIGINFO. An action of ours that lacks
	 * SA_SIGINFO also lacks SA_ONSTACK, so its handler does not run on the alternate stack. If the thread has no such
	 * stack, or was on it before the signal, only the content of *info can tell. */
	if ((const void *)context == frame) {
		const uintptr_t bottom = (uintptr_t)context->uc_stack.ss_sp, size = context->uc_stack.ss_size;

		if (size == 0 || (uintptr_t)context->uc_mcontext.gregs[REG_RSP] - bottom < size)
			return info->si_signo == number;
		return (uintptr_t)info - bottom < size;
	}
#elif defined __aarch64__ && !defined __ILP32__
	/* Without SA_SIGINFO, Linux does not set the registers of the two pointers: they have values of the interrupted code.
	 * clang's CFA is a few words too low, so the siginfo may begin some bytes above it. */
	if ((uintptr_t)info - (uintptr_t)frame < 128)
		return 1;
#endif
	(void)number;
	(void)info;
	(void)context;
	(void)frame;
	return 0;
}

/* Has the kernel called the handler with SA_SIGINFO? This asks for the action in force. If that is ours without SA_SIGINFO, it is
 * installed again, with SA_SIGINFO. */
static int ask(struct pf_signal *s)
{
	const int saved = errno;
	struct sigaction now, ours;
	const struct pf_signal_layer *l;
	const int known = sigaction(s->number, NULL, &now) < 0 || now.sa_flags & SA_SIGINFO;

	l = known ? NULL : find(s, &now);
	if (l) {
		ours = action(s, l);
		replace(s, &now, &ours);
	}
	errno = saved;
	return known;
}

int pf_signal_arguments(struct pf_signal *s, const siginfo_t *info, const void *context, const void *frame)
{
	return is_ordinary(s->number, info, context, frame) || ask(s);
}

/* Does the kernel report a fault? Then SIG_IGN has no effect, and the kernel kills the process: the instruction would fault again
 * for ever. */
static int is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && sig != SIGURG && !(sig == SIGTRAP && info->si_code == PF_TRAP_PERF);
}

/* Block the signals that would be blocked if the kernel had called the program's handler. */
static void block_as(const struct sigaction *program, int sig, const void *context)
{
	sigset_t mask;

	sigorset(&mask, &((const ucontext_t *)context)->uc_sigmask, &program->sa_mask);
	if (!(program->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void pf_signal_pass_on(struct pf_signal *s, unsigned layer, int sig, siginfo_t *info, void *context)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL}, to = s->layer[layer].to;
	struct sigaction now;

	if (is_plain(&to)) {
		/* SIGURG's default is to be ignored */
		if ((to.sa_handler == SIG_IGN || sig == SIGURG) && !(info && is_fault(sig, info)))
			return;
		/* The kernel has called ours without SA_SIGINFO, and pf_signal_arguments has installed it again. If the signal is
		 * of a fault, it comes again, with a siginfo. Other signals have no effect. */
		if (!info && current(s, &now) == s->layer + layer)
			return;
		sigaction(sig, &plain, NULL);
		/* Send the signal again, with its siginfo if that is known; it stays blocked until the handler has returned. */
		if (!info || syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info) < 0)
			raise(sig);
		return;
	}
	/* A handler of the program that is to run once. Ours stays in force, since signals of ours may follow. If a later handler
	 * has passed the signal on to ours, the kernel would not have reset this one. */
	if ((s->flags || to.sa_flags & (int)SA_RESETHAND) && current(s, &now) == s->layer + layer) {
		if (to.sa_flags & (int)SA_RESETHAND)
			s->layer[layer].to = plain;
		if (s->flags && context)
			block_as(&to, sig, context);
	}
	/* Handlers without SA_SIGINFO get the same three arguments from the kernel, and some use them. */
	to.sa_sigaction(sig, info, context);
}

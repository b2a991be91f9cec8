/* See signal.h. */
#include "core/base/signal.h"

#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/thread.h"

static atomic_uint lock; /* all signals' */

/* SIG_DFL and SIG_IGN also count with SA_SIGINFO, which some programs set without a handler. */
static int is_plain(const struct sigaction *a)
{
	return a->sa_handler == SIG_DFL || a->sa_handler == SIG_IGN;
}

static int is_ours(const struct pf_signal *s, const struct sigaction *a)
{
	return a->sa_flags & SA_SIGINFO && a->sa_sigaction == s->handler;
}

int pf_signal_is_taken(const struct pf_signal *s)
{
	struct sigaction now;

	return sigaction(s->number, NULL, &now) == 0 && is_ours(s, &now);
}

static void install(struct pf_signal *s)
{
	struct sigaction now, ours;

	if (sigaction(s->number, NULL, &now) < 0 || is_ours(s, &now))
		return;
	/* Two handlers that pass a signal on to each other would never end. */
	if (s->left && !is_plain(&now) && now.sa_sigaction != s->before.sa_sigaction)
		return;
	s->before = ours = now;
	if (s->flags) {
		ours.sa_flags = s->flags;
		sigemptyset(&ours.sa_mask);
		sigaddset(&ours.sa_mask, s->block);
	}
	ours.sa_flags = (ours.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	ours.sa_sigaction = s->handler;
	sigaction(s->number, &ours, NULL);
}

void pf_signal_take(struct pf_signal *s)
{
	const unsigned generation = pf_fork_generation();

	pf_lock(&lock, PF_LOCK_PAUSE);
	if (s->generation != generation)
		s->users = 0;
	s->generation = generation;
	if (s->users++ == 0)
		install(s);
	pf_unlock(&lock);
}

static void give_back(struct pf_signal *s)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	s->left = !pf_signal_is_taken(s);
	if (s->left)
		return;
	if (s->discard)
		sigaction(s->number, &ignore, NULL);
	sigaction(s->number, &s->before, NULL);
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

/* A fault that the kernel reports. It cannot be ignored: the instruction would fault again for ever. */
static int is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS);
}

void pf_signal_pass_on(const struct pf_signal *s, int sig, siginfo_t *info, void *context)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL}, to = s->before;

	if (is_plain(&to)) {
		if ((to.sa_handler == SIG_IGN || sig == SIGURG) && !is_fault(sig, info)) /* SIGURG's default is to be ignored */
			return;
		sigaction(sig, &plain, NULL);
		/* Send the signal again with the same siginfo; it stays blocked until the handler has returned. */
		if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info) < 0)
			raise(sig);
		return;
	}
	if (to.sa_flags & (int)SA_RESETHAND)
		sigaction(sig, &plain, NULL);
	/* Handlers without SA_SIGINFO get the same three arguments from the kernel, and some use them. */
	to.sa_sigaction(sig, info, context);
}

/* See signal.h. */
#include "core/base/signal.h"

#include <sys/syscall.h>
#include <unistd.h>

/* A fault that the kernel reports. It cannot be ignored: the instruction would fault again for ever. */
static int is_fault(int sig, const siginfo_t *info)
{
	return info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS);
}

void pf_signal_pass_on(const struct sigaction *action, int sig, siginfo_t *info, void *context)
{
	const struct sigaction plain = {.sa_handler = SIG_DFL};

	if (action->sa_handler == SIG_IGN && !is_fault(sig, info))
		return;
	if (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN) {
		sigaction(sig, &plain, NULL);
		/* The same signal once more, with its facts; it is blocked until the handler has returned. */
		if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), sig, info) < 0)
			raise(sig);
		return;
	}
	if (action->sa_flags & (int)SA_RESETHAND)
		sigaction(sig, &plain, NULL);
	/* Handlers without SA_SIGINFO get the same three arguments from the kernel, and some use them. */
	action->sa_sigaction(sig, info, context);
}

/* Signals that a handler of ours got, but that are not for it. */
#ifndef PF_SIGNAL_H
#define PF_SIGNAL_H

#include <signal.h>

/* Do what the action would have done with the signal. Called in the handler that took the action's place, with its arguments; may
 * not return. The default action comes into force when the handler has returned, and then stays. */
void pf_signal_pass_on(const struct sigaction *action, int sig, siginfo_t *info, void *context);

#endif

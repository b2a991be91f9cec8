/* Signals whose action this library takes for a while. */
#ifndef PF_SIGNAL_H
#define PF_SIGNAL_H

#include <signal.h>
#include <stdint.h>

/* A signal that we handle while it has users. One static object for each signal. */
struct pf_signal {
	int number;
	void (*handler)(int sig, siginfo_t *info, void *context);
	uint8_t discard; /* discard a pending signal at the end: the default action would end the process */
	/* Flags of our action and a signal that it blocks. Without flags it has those of the program's action and blocks what that
	 * blocks, so that the program's handler runs as it would. */
	int flags, block;
	struct sigaction before; /* the program's */
	unsigned users, generation; /* generation: pf_fork_generation of the users. Those of the parent do not count in a child */
	uint8_t left;               /* at the last give, the program's later action was in force and stayed; its handler may call ours */
};

/* Take the signal for one more user. Each take needs one pf_signal_give, even if the program has installed a later action, which
 * stays in force. */
void pf_signal_take(struct pf_signal *s);
/* generation: that of the take. After a fork, the child gives back for its parent's users too. */
void pf_signal_give(struct pf_signal *s, uint32_t generation);

/* Is ours the action in force? May be called in a signal handler. One system call. */
int pf_signal_is_taken(const struct pf_signal *s);

/* Call this in the handler for a signal that is not ours: it does what the program's action would do. It may not return. A
 * default action comes into force when the handler has returned, and stays. */
void pf_signal_pass_on(const struct pf_signal *s, int sig, siginfo_t *info, void *context);

#endif

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
	uint8_t left;               /* at the end a later action was in force, and stayed. Its handler may call ours */
};

/* Take the signal for one more user. Each call needs one of pf_signal_give, also if ours is not the action in force afterwards,
 * since a later one of the program stays. */
void pf_signal_take(struct pf_signal *s);
/* generation: that of the take. After a fork the child gives back for the users of its parent too. */
void pf_signal_give(struct pf_signal *s, uint32_t generation);

/* Is ours the action in force? May be called in a signal handler. One system call. */
int pf_signal_is_taken(const struct pf_signal *s);

/* In the handler, for a signal that is not for us: do what the program's action would do. May not return. The default action comes
 * into force when the handler has returned, and then stays. */
void pf_signal_pass_on(const struct pf_signal *s, int sig, siginfo_t *info, void *context);

#endif

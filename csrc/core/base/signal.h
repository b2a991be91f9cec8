/* Signals whose action this library takes for a while. */
#ifndef PF_SIGNAL_H
#define PF_SIGNAL_H

#include <signal.h>
#include <stdint.h>

enum { PF_SIGNAL_LAYERS = 4 };

typedef void pf_signal_handler(int sig, siginfo_t *info, void *context);

/* A handler of ours, and the action that it has replaced and passes signals on to. */
struct pf_signal_layer {
	pf_signal_handler *handler; /* NULL: there is no such layer */
	struct sigaction before;    /* the program's */
	uint8_t used;               /* it was installed once, so that the program may have kept its handler */
};

/* A signal that we handle while it has users. One static object for each signal. */
struct pf_signal {
	int number;
	uint8_t discard; /* discard a pending signal at the end: the default action would end the process */
	/* Flags of our action and a signal that it blocks. Without flags it has those of the program's action and blocks what that
	 * blocks, so that the program's handler runs as it would. */
	int flags, block;
	/* A program's handler that has replaced ours may pass signals on to ours. So the same handler of ours must not be
	 * installed on top of the program's: the two would call each other for ever. A signal with several layers has another
	 * handler for this.
	 *
	 * A layer is installed over only one action of the program (or over SIG_DFL and SIG_IGN), and always passes signals on to
	 * that one. So the handlers call each other for ever only if the program's own would do so without ours. If the program
	 * has more actions than there are layers, no layer is installed over the others. */
	struct pf_signal_layer layer[PF_SIGNAL_LAYERS];
	unsigned users, generation; /* generation: pf_fork_generation of the users. Those of the parent do not count in a child */
	/* For a signal with one layer: at the last give, an action was in force that the program has installed later. It may call
	 * ours. */
	uint8_t left;
};

/* Take the signal for one more user. Each take needs one pf_signal_give, even if the take has left the program's action in force.
 * A give leaves in force what the program has installed since the take. */
void pf_signal_take(struct pf_signal *s);
/* generation: that of the take. After a fork, the child gives back for its parent's users too. */
void pf_signal_give(struct pf_signal *s, uint32_t generation);

/* Is one of ours the action in force? May be called in a signal handler. One system call. */
int pf_signal_is_taken(const struct pf_signal *s);

/* Call this in the handler for a signal that is not ours: it does what the program's action would do. It may not return. A
 * default action comes into force when the handler has returned, and stays. */
void pf_signal_pass_on(const struct pf_signal_layer *layer, int sig, siginfo_t *info, void *context);

#endif

/* Signals whose action this library takes for a while. */
#ifndef PF_SIGNAL_H
#define PF_SIGNAL_H

#include <signal.h>
#include <stdint.h>

typedef void pf_signal_handler(int sig, siginfo_t *info, void *context);

/* TRAP_PERF, which the C library may not have: the code of SIGTRAP sent by an event. */
enum { PF_TRAP_PERF = 6 };

/* A handler of ours, the program's action that it replaces, and the one that it passes signals on to. */
struct pf_signal_layer {
	pf_signal_handler *handler;
	struct sigaction before, to; /* to: `before`, or SIG_DFL if that was to run once and has run */
	uint8_t used;                /* it was installed once, so that the program may have kept its handler */
};

enum { PF_SIGNAL_LAYERS = 16 };

/* A signal that we handle while it has users. One static object for each signal. */
struct pf_signal {
	int number;
	uint8_t discard; /* discard a pending signal at the end: the default action would end the process */
	/* Flags of our action, which then blocks all signals but those of faults. If they are 0, our action has the flags and the
	 * mask of the program's, so that the program's handler runs as it would without ours. */
	int flags;
	/* A program's handler that has replaced ours may pass signals on to ours. So the same handler of ours must not be
	 * installed on top of the program's: the two would call each other for ever. Hence the layers.
	 *
	 * A layer is installed over only one action of the program, and always passes signals on to that one; or to SIG_DFL, if
	 * the program's handler was to run once (SA_RESETHAND) and has run. So a program can keep an action that it has found,
	 * ours or its own, and install it again later. The handlers call each other for ever only if the program's own would do
	 * so without ours. If the program has more actions than there are layers, no layer is installed over the others. */
	struct pf_signal_layer layer[PF_SIGNAL_LAYERS];
	unsigned users, generation; /* generation: pf_fork_generation of the users. Those of the parent do not count in a child */
};

/* PF_SIGNAL_HANDLERS defines a handler for each layer of a signal. `signal` is the address of its struct pf_signal. Each handler
 * calls the function with the layer's number as a fourth argument; info and context are NULL if the handler has not got them (see
 * pf_signal_arguments). PF_SIGNAL_LAYERS_OF are the initial layers, with these handlers. */
#define PF_SIGNAL_HANDLERS(function, signal) \
	PF_SIGNAL_HANDLER(function, signal, 0) PF_SIGNAL_HANDLER(function, signal, 1) \
	PF_SIGNAL_HANDLER(function, signal, 2) PF_SIGNAL_HANDLER(function, signal, 3) \
	PF_SIGNAL_HANDLER(function, signal, 4) PF_SIGNAL_HANDLER(function, signal, 5) \
	PF_SIGNAL_HANDLER(function, signal, 6) PF_SIGNAL_HANDLER(function, signal, 7) \
	PF_SIGNAL_HANDLER(function, signal, 8) PF_SIGNAL_HANDLER(function, signal, 9) \
	PF_SIGNAL_HANDLER(function, signal, 10) PF_SIGNAL_HANDLER(function, signal, 11) \
	PF_SIGNAL_HANDLER(function, signal, 12) PF_SIGNAL_HANDLER(function, signal, 13) \
	PF_SIGNAL_HANDLER(function, signal, 14) PF_SIGNAL_HANDLER(function, signal, 15)
#define PF_SIGNAL_HANDLER(function, signal, number)                                                             \
	static void function##_##number(int sig, siginfo_t *info, void *context)                                 \
	{                                                                                                        \
		const int known = pf_signal_arguments(signal, info, context, __builtin_dwarf_cfa());             \
		function(sig, known ? info : NULL, known ? context : NULL, number);                              \
	}
#define PF_SIGNAL_LAYERS_OF(function) \
	{{.handler = function##_0}, {.handler = function##_1}, {.handler = function##_2}, {.handler = function##_3}, \
	 {.handler = function##_4}, {.handler = function##_5}, {.handler = function##_6}, {.handler = function##_7}, \
	 {.handler = function##_8}, {.handler = function##_9}, {.handler = function##_10}, {.handler = function##_11}, \
	 {.handler = function##_12}, {.handler = function##_13}, {.handler = function##_14}, {.handler = function##_15}}

/* Take the signal for one more user. Each take needs one pf_signal_give, even if the take has left the program's action in force.
 * A give leaves in force what the program has installed since the take. Returns 0; -ENOSPC if no layer is left for the program's
 * action; -EPERM if a filter of system calls refuses to install our action. */
int pf_signal_take(struct pf_signal *s);
/* generation: that of the take. After a fork, the child gives back for its parent's users too. */
void pf_signal_give(struct pf_signal *s, uint32_t generation);

/* Is a handler of ours in force, with SA_SIGINFO? May be called in a signal handler. One system call. */
int pf_signal_is_taken(struct pf_signal *s);

/* For PF_SIGNAL_HANDLERS: has the handler got a siginfo and a context? It has not
 * - if the program has kept and restored our handler by signal(2), which does not keep the flags. Our action is then installed
 *   again, with SA_SIGINFO;
 * - if a handler that the program has installed by signal(2) passes a signal on to ours.
 * frame: the stack pointer as it was before the call of the handler (its CFA). In the ordinary case, no system call is made. */
int pf_signal_arguments(struct pf_signal *s, const siginfo_t *info, const void *context, const void *frame);

/* Call this in the handler of a layer for a signal that is not ours: it does what the program's action would do. It may not
 * return. info and context: those of the handler, or NULL. A default action comes into force when the handler has returned, and
 * stays. */
void pf_signal_pass_on(struct pf_signal *s, unsigned layer, int sig, siginfo_t *info, void *context);

#endif

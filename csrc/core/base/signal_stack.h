/* The alternate stack of a thread that our handlers interrupt.
 *
 * Unwinding takes up to 16 KB, two signal frames with all registers 7 KB. Many programs have an alternate stack of 8 KB, where a
 * handler with SA_ONSTACK would run. Such a thread gets one of ours for a while. */
#ifndef PF_SIGNAL_STACK_H
#define PF_SIGNAL_STACK_H

/* The calling thread has a large alternate stack from now on: the program's, or ours if that is small or there is none. Each take
 * needs one give in the same thread, unless the thread ends. Returns 0 or -ENOMEM; the give is needed in either case. */
int pf_signal_stack_take(void);
/* At the last give the program's stack is set again. */
void pf_signal_stack_give(void);

/* For the handler, which calls this first: since the take, the program may have set a small stack, or disabled its stack. Returns
 * 1 if the handler perhaps runs on a small stack. It must then leave its work to the next signal, which has our stack if there is
 * one. */
int pf_signal_stack_is_small(void *context);

#endif

/* The Lua stack of the worker's thread at this moment, and its system call. */
#ifndef PF_WATCH_STACK_H
#define PF_WATCH_STACK_H

#include "core/resty/watch.h"

/* Take the signal and the file that the functions below need; call it in the worker's thread. Returns 0 or -EBUSY. Give them back. */
int pf_watch_open_stacks(struct pf_watch *w);
void pf_watch_close_stacks(struct pf_watch *w);

/* Take the stack of the worker's thread, which is in the turn of this number, into w->look. */
void pf_watch_take_stack(struct pf_watch *w, uint32_t serial);

/* Whether the worker's thread waits for events now; whether this is the system call in which it does. */
int pf_watch_waits(const struct pf_watch *w);
int pf_watch_is_loop_wait(long call);

#endif

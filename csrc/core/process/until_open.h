/* Finds the moment when an interpreter begins to run its script, from another process: when it opens the file. So a script can be
 * counted without the start of the interpreter and without code of ours in its process. */
#ifndef PF_UNTIL_OPEN_H
#define PF_UNTIL_OPEN_H

#include "core/process/child.h"

/* Trace a child that waits to be started. Returns 0, or -errno: -EPERM where the kernel or another tracer (strace) refuses. */
int pf_process_trace(struct pf_process *p);

/* For pf_process_start: let a traced child run until its exec or its end. A signal that waits for it stops it before the exec,
 * where it would stay if nobody waited for that. */
void pf_process_until_exec(struct pf_process *p);

/* After the start of a traced child: let it run until it is about to open this path. Returns 1 then: the child is stopped, and
 * pf_process_go_on lets it run untraced. Returns 0 when it has ended, or when a signal for the caller arrived: it is not traced
 * any more then. Or -errno. To be called by the thread that traces. */
int pf_process_until_open(struct pf_process *p, const char *path);

void pf_process_go_on(const struct pf_process *p);

#endif

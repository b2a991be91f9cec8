/* Finds, from another process, the moment at which an interpreter begins to run its script: when it opens the script's file. So a
 * script can be counted without the interpreter's start, and without our code in its process. */
#ifndef PF_UNTIL_OPEN_H
#define PF_UNTIL_OPEN_H

#include "core/process/child.h"

/* Trace a child that waits to be started. Returns 0, or -errno: -EPERM if the kernel or another tracer (strace) prevents it. */
int pf_process_trace(struct pf_process *p);

/* For pf_process_start: let a traced child run until its exec or its end. A pending signal stops it before the exec, and it would
 * stay stopped if this did not wait for that. */
void pf_process_until_exec(struct pf_process *p);

/* After the start of a traced child: let it run until it is about to open this path. Returns 1 then, with the child stopped:
 * pf_process_go_on lets it run, untraced. Returns 0 if it has ended or a signal for the caller arrived; the child is no longer
 * traced then. Or -errno. Only the thread that traces may call it. */
int pf_process_until_open(struct pf_process *p, const char *path);

void pf_process_go_on(const struct pf_process *p);

#endif

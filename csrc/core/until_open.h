/* Where an interpreter begins to run its script, seen from outside: it opens the file. So what a script costs can be counted without
 * the interpreter's start and without anything of ours in the process. */
#ifndef PF_UNTIL_OPEN_H
#define PF_UNTIL_OPEN_H

#include "process.h"

/* Trace a child that waits to be started. Returns 0, or -errno: -EPERM where the kernel or another tracer (strace) refuses. */
int pf_process_trace(const struct pf_process *p);

/* After the start of a traced child: let it run until it is about to open this path. Returns 1 when it is: then it is stopped, and
 * pf_process_go_on lets it run untraced. 0 when it has ended, or when a signal came for the caller: then it is traced no more.
 * Or -errno. To be called by the thread that traces. */
int pf_process_until_open(struct pf_process *p, const char *path);

void pf_process_go_on(const struct pf_process *p);

#endif

/* A child process that is forked but waits before its exec, so that events can be opened on it that count from the program's
 * first instruction (enable_on_exec). Also catches the signals that should end a recording rather than the process. */
#ifndef PF_PROCESS_H
#define PF_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct pf_process {
	pid_t pid; /* 0: none */
	int gate[2]; /* a byte in this pipe lets the child go on; -1 once that is written */
	int fault;   /* read end of the pipe for the errno of a failed exec */
	int end;     /* a pidfd: readable once the child has ended; -1 before Linux 5.3, which has no pidfds */
	int status;  /* waitpid's status, once it has ended */
	int ended;
	int traced; /* pf_process_trace traces it */
	uint32_t generation; /* pf_fork_generation at the spawn: in the child of a fork, start, wait and kill return -ECHILD */
};

/* argv ends with NULL; argv[0] is searched in PATH. The child has the caller's environment and directory, and the default action
 * for SIGINT, SIGTERM and SIGPIPE, and for SIGHUP and SIGQUIT unless they are ignored. Returns 0 or -errno; then p holds nothing. */
int pf_process_spawn(struct pf_process *p, char *const argv[]);

/* Let the child go on, and wait for its exec. Returns 0, or the -errno of the exec (-ENOENT ...). */
int pf_process_start(struct pf_process *p);

/* Whether the child has ended. block: wait until it has. Returns 1 (p->status is set), 0 or -errno. */
int pf_process_wait(struct pf_process *p, int block);

int pf_process_kill(const struct pf_process *p, int signal);

/* Kills a child that was not started; a started one continues to run. In the child of a fork it kills none. */
void pf_process_release(struct pf_process *p);

/* until_open.c finds the moment at which an interpreter begins to run its script: when it opens the script's file. So a script can be
 * counted without the interpreter's start, and without our code in its process.
 *
 * Trace a child that waits to be started. Returns 0, or -errno: -EPERM if the kernel or another tracer (strace) prevents it. */
int pf_process_trace(struct pf_process *p);

/* For pf_process_start: let a traced child run until its exec or its end. A pending signal stops it before the exec, and it would
 * stay stopped if this did not wait for that. */
void pf_process_until_exec(struct pf_process *p);

/* After the start of a traced child: let it run until it is about to open this path. Returns 1 then, with the child stopped:
 * pf_process_go_on lets it run, untraced. Returns 0 if it has ended or a signal for the caller arrived; the child is no longer
 * traced then. Or -errno. Only the thread that traces may call it. */
int pf_process_until_open(struct pf_process *p, const char *path);

void pf_process_go_on(const struct pf_process *p);

/* Only remember SIGINT, SIGTERM and, unless they are ignored, SIGHUP and SIGQUIT. One caller at a time in a process; -EBUSY for
 * another. */
int pf_interrupts_catch(void);
/* Returns the last signal, 0 for none. *sent: whether the rest of the process group may not have got it, since a process sent it, or
 * since it is a SIGHUP; a terminal sends the other signals to the whole group. *count: the number of signals. */
int pf_interrupts_caught(int *sent, int *count);
/* Restore the previous actions. Idempotent; only for the caller that catches the signals. */
void pf_interrupts_release(void);

#endif

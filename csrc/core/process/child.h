/* A child process that waits, already forked, until it may become its program: so events can be opened on it that begin with
 * the program's first instruction (enable_on_exec). And signals that are to end a recording, not the process. */
#ifndef PF_PROCESS_H
#define PF_PROCESS_H

#include <stdint.h>
#include <sys/types.h>

struct pf_process {
	pid_t pid; /* 0: none */
	int gate[2]; /* its write end is written to when the child may go on; -1 = it was told */
	int fault;   /* tells why the program could not be run */
	int end;     /* a pidfd: readable once it has ended; -1 where the kernel has none (before Linux 5.3) */
	int status;  /* of waitpid, once ended */
	int ended;
	int traced; /* by pf_process_trace */
	uint32_t generation; /* pf_fork_generation at the spawn: in the child of a fork, start, wait and kill return -ECHILD */
};

/* argv ends with NULL; argv[0] is looked for in PATH. The child has the caller's environment and directory, and default
 * actions for SIGINT, SIGTERM, SIGPIPE, and SIGHUP and SIGQUIT where those are not ignored. Returns 0 or -errno; then p holds
 * nothing. */
int pf_process_spawn(struct pf_process *p, char *const argv[]);

/* Let it run. Waits until the program runs: returns 0, or -errno of why it cannot (-ENOENT ...). */
int pf_process_start(struct pf_process *p);

/* Has it ended? With block: wait until it has. Returns 1 (p->status is set), 0 or -errno. */
int pf_process_wait(struct pf_process *p, int block);

int pf_process_kill(const struct pf_process *p, int signal);

/* A child that was not started is killed; one that runs is left alone. In the child of a fork every one is left alone. */
void pf_process_release(struct pf_process *p);

/* From now on SIGINT, SIGTERM, SIGHUP and SIGQUIT (these two unless ignored) are only remembered, for one caller at a time in
 * the process (-EBUSY). */
int pf_interrupts_catch(void);
/* The signal that came last, 0 = none; whether a process sent it, not the terminal, which sends to its whole group; and how many
 * came. */
int pf_interrupts_caught(int *sent, int *count);
/* As before. For the caller who catches them; idempotent. */
void pf_interrupts_release(void);

#endif

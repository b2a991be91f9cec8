/* The child has two pipes. It reads from the gate: a byte tells it to go on, end of file (the parent died) to give up. It writes
 * the errno of a failed exec to fault, which a successful exec closes. The parent keeps the gate's read end open too, so that a
 * write raises no SIGPIPE if the child has died. Between fork and exec the child calls only async-signal-safe functions, since the
 * parent may have threads. */
#include "core/process/child.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sys.h"
#include "core/base/thread.h"

static void close_pipe(int fds[2])
{
	pf_sys->close(fds[0]);
	pf_sys->close(fds[1]);
}

/* The signals that end a recording. The first two always do; the others only if they are not ignored, as they are under nohup. */
static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
enum { ENDINGS = sizeof endings / sizeof *endings, ALWAYS = 2 };

static void set_action(int i, const struct sigaction *action, struct sigaction *before)
{
	struct sigaction now;

	sigaction(endings[i], NULL, &now);
	if (before)
		*before = now;
	if (i < ALWAYS || now.sa_handler != SIG_IGN)
		sigaction(endings[i], action, NULL);
}

static _Noreturn void child(char *const argv[], int gate, int fault)
{
	struct sigaction plain;
	sigset_t none;
	ssize_t n;
	int err;
	char go;

	memset(&plain, 0, sizeof plain);
	plain.sa_handler = SIG_DFL;
	for (int i = 0; i < ENDINGS; i++)
		set_action(i, &plain, NULL);
	sigaction(SIGPIPE, &plain, NULL);
	do {
		n = read(gate, &go, 1);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		_exit(0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL); /* blocked since the fork; from here on a signal may end the child */
	execvp(argv[0], argv);
	err = errno;
	n = write(fault, &err, sizeof err);
	_exit(n == sizeof err ? 127 : 126);
}

static void close_gate(struct pf_process *p)
{
	if (p->gate[0] >= 0)
		close_pipe(p->gate);
	p->gate[0] = p->gate[1] = -1;
}

int pf_process_spawn(struct pf_process *p, char *const argv[])
{
	int fault[2], r;
	sigset_t all, old;

	*p = (struct pf_process){
		.gate = {-1, -1}, .fault = -1, .end = -1, .generation = pf_fork_generation()};
	r = pf_sys->pipe(p->gate);
	if (r < 0)
		return r;
	r = pf_sys->pipe(fault);
	if (r < 0) {
		close_gate(p);
		return r;
	}
	/* A signal from the terminal must stay pending until the start. Otherwise the child would run the parent's handler, or end
	 * before events are opened on it. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	p->pid = pf_sys->fork();
	if (p->pid == 0) {
		/* With its own copy of the gate's write end, the child would never read end of file. */
		close(p->gate[1]);
		close(fault[0]);
		child(argv, p->gate[0], fault[1]);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (p->pid < 0) {
		r = (int)p->pid;
		close_gate(p);
		close_pipe(fault);
		p->pid = 0;
		return r;
	}
	pf_sys->close(fault[1]);
	p->fault = fault[0];
	p->end = (int)syscall(SYS_pidfd_open, p->pid, 0); /* close-on-exec */
	return 0;
}

int pf_process_start(struct pf_process *p)
{
	ssize_t n;
	int err = 0;

	if (pf_inherited(p->generation))
		return -ECHILD;
	if (p->gate[1] < 0)
		return -EINVAL;
	do {
		n = pf_sys->write(p->gate[1], "g", 1);
	} while (n == -EINTR);
	close_gate(p);
	if (n < 0)
		return (int)n;
	if (p->traced)
		pf_process_until_exec(p);
	do {
		n = pf_sys->read(p->fault, &err, sizeof err);
	} while (n == -EINTR);
	pf_sys->close(p->fault);
	p->fault = -1;
	if (n < 0)
		return (int)n;
	return n == sizeof err ? -err : 0;
}

int pf_process_wait(struct pf_process *p, int block)
{
	pid_t r;

	if (p->ended)
		return 1;
	if (p->pid <= 0 || pf_inherited(p->generation))
		return -ECHILD;
	do {
		r = pf_sys->waitpid(p->pid, &p->status, block ? 0 : WNOHANG);
	} while (r == -EINTR);
	if (r < 0)
		return (int)r;
	p->ended = r == p->pid;
	return p->ended;
}

int pf_process_kill(const struct pf_process *p, int signal)
{
	if (pf_inherited(p->generation))
		return -ECHILD;
	/* After a child was waited for, its number may belong to another process. */
	return p->pid > 0 && !p->ended ? pf_sys->kill(p->pid, signal) : -ESRCH;
}

void pf_process_release(struct pf_process *p)
{
	int waiting = p->gate[1] >= 0;

	/* Closing the gate would not end the child if a process that was forked since has a copy of the gate. */
	if (waiting && p->pid > 0)
		pf_process_kill(p, SIGKILL);
	close_gate(p);
	if (p->fault >= 0)
		pf_sys->close(p->fault);
	if (p->end >= 0)
		pf_sys->close(p->end);
	p->fault = p->end = -1;
	if (p->pid > 0)
		pf_process_wait(p, waiting);
	p->pid = 0;
}

enum { FREE, CHANGING, CATCHING };
static atomic_int interrupts; /* lets one caller at a time change the signals' actions */
static volatile sig_atomic_t caught, alone, times;
static struct sigaction before[ENDINGS];

static void remember(int signal, siginfo_t *info, void *context)
{
	(void)context;
	caught = signal;
	/* Sent by a process (kill); the kernel's codes are positive. At a hang-up the kernel tells only the leader of the session. */
	alone = info->si_code <= 0 || signal == SIGHUP;
	times = times + 1;
}

int pf_interrupts_catch(void)
{
	struct sigaction a;
	int now = FREE;

	if (!atomic_compare_exchange_strong(&interrupts, &now, CHANGING))
		return -EBUSY;
	caught = times = 0;
	memset(&a, 0, sizeof a);
	a.sa_sigaction = remember;
	a.sa_flags = SA_SIGINFO; /* without SA_RESTART: a wait ends at once */
	sigemptyset(&a.sa_mask);
	for (int i = 0; i < ENDINGS; i++)
		set_action(i, &a, &before[i]);
	atomic_store(&interrupts, CATCHING);
	return 0;
}

int pf_interrupts_caught(int *sent, int *count)
{
	*sent = alone;
	*count = times;
	return caught;
}

void pf_interrupts_release(void)
{
	int now = CATCHING;

	if (!atomic_compare_exchange_strong(&interrupts, &now, CHANGING))
		return;
	for (int i = 0; i < ENDINGS; i++)
		sigaction(endings[i], &before[i], NULL);
	atomic_store(&interrupts, FREE);
}

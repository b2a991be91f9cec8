/* The child is traced (PTRACE_SEIZE) from before its exec until it opens the file, and stops at each system call in between.
 * Only the kernel's header is included: it conflicts with the C library's. */
#include "core/process/child.h"

#include <errno.h>
#include <linux/ptrace.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sys.h"
#include "core/base/thread.h"

static long trace(long request, pid_t pid, uintptr_t addr, uintptr_t data)
{
	long r = syscall(SYS_ptrace, request, pid, addr, data);

	return r < 0 ? -errno : r;
}

int pf_process_trace(struct pf_process *p)
{
	int r;

	if (p->pid <= 0 || pf_inherited(p->generation))
		return -ECHILD;
	r = (int)trace(PTRACE_SEIZE, p->pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC);
	p->traced = r == 0;
	return r;
}

/* A stop by SIGSTOP or the terminal, which must last. */
static int stays(int status)
{
	return status >> 16 == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP;
}

void pf_process_until_exec(struct pf_process *p)
{
	int status = 0, event;
	pid_t r;

	do {
		r = pf_sys->waitpid(p->pid, &status, 0);
		event = r > 0 && WIFSTOPPED(status) ? status >> 16 : 0;
		if (r == -EINTR)
			continue;
		if (r < 0)
			return;
		if (!WIFSTOPPED(status)) {
			p->status = status;
			p->ended = 1;
			return;
		}
		if (stays(status))
			trace(PTRACE_LISTEN, p->pid, 0, 0);
		else
			trace(event == PTRACE_EVENT_EXEC ? PTRACE_SYSCALL : PTRACE_CONT, p->pid, 0, event ? 0 : (uintptr_t)WSTOPSIG(status));
	} while (event != PTRACE_EVENT_EXEC);
}

/* Whether the system call that the child is about to make opens this path. */
static int opens(pid_t pid, const char *path)
{
	struct ptrace_syscall_info call;
	size_t n = strlen(path) + 1;
	char text[4096];
	struct iovec here = {text, n}, there;
	uint64_t at;

	if (n > sizeof text)
		return 0;
	memset(&call, 0, sizeof call);
	if (trace(PTRACE_GET_SYSCALL_INFO, pid, sizeof call, (uintptr_t)&call) < 0 || call.op != PTRACE_SYSCALL_INFO_ENTRY)
		return 0;
	if (call.entry.nr == SYS_openat)
		at = call.entry.args[1];
#ifdef SYS_open
	else if (call.entry.nr == SYS_open)
		at = call.entry.args[0];
#endif
	else
		return 0;
	there = (struct iovec){(void *)(uintptr_t)at, n};
	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)n && memcmp(text, path, n) == 0;
}

int pf_process_until_open(struct pf_process *p, const char *path)
{
	int leave = 0;

	if (p->ended)
		return 0;
	for (;;) {
		int status = 0, stop, sent, count;
		pid_t r;

		/* A signal for the caller has arrived: do not make it wait until the child opens the file. */
		if (!leave && pf_interrupts_caught(&sent, &count) != 0) {
			leave = 1;
			trace(PTRACE_INTERRUPT, p->pid, 0, 0);
		}
		r = pf_sys->waitpid(p->pid, &status, 0);
		if (r == -EINTR)
			continue;
		if (r < 0)
			return (int)r;
		if (!WIFSTOPPED(status)) {
			p->status = status;
			p->ended = 1;
			return 0;
		}
		stop = WSTOPSIG(status);
		if (stop == (SIGTRAP | 0x80)) {
			if (opens(p->pid, path))
				return 1;
			stop = 0;
		} else if (stays(status) && !leave) {
			trace(PTRACE_LISTEN, p->pid, 0, 0);
			continue;
		} else if (status >> 16) {
			stop = 0;
		}
		if (leave) {
			trace(PTRACE_DETACH, p->pid, 0, (uintptr_t)stop);
			return 0;
		}
		trace(PTRACE_SYSCALL, p->pid, 0, (uintptr_t)stop);
	}
}

void pf_process_go_on(const struct pf_process *p)
{
	trace(PTRACE_DETACH, p->pid, 0, 0);
}

/* An armed table forwards every call to the real one after asking whether its turn to fail has come. A close or munmap
 * that is chosen to fail is still performed, since Linux closes a descriptor even if close reports an error. The table is swapped
 * back on disarm. Not for concurrent use: the tests that arm a fault run on one thread. */
#include "core/base/fault.h"

#include <errno.h>
#include <string.h>

#include "core/base/sys.h"

static const char *armed;
static int armed_err;
static unsigned armed_skip, seen;

static int turn(const char *call)
{
	if (!armed || strcmp(armed, call) != 0)
		return 0;
	return seen++ == armed_skip ? -armed_err : 0;
}

/* One line an entry: its type, name, parameters and the arguments passed on. */
#define CALLS(X)                                                                                                  \
	X(long, perf_event_open, (struct pf_attr * a, pid_t pid, int cpu, int group, unsigned long flags),        \
	  (a, pid, cpu, group, flags))                                                                            \
	X(int, ioctl, (int fd, unsigned long request, void *arg), (fd, request, arg))                             \
	X(ssize_t, read, (int fd, void *buf, size_t size), (fd, buf, size))                                       \
	X(int, mmap, (void **out, size_t size, int prot, int flags, int fd, off_t at),                            \
	  (out, size, prot, flags, fd, at))                                                                       \
	X(int, mremap, (void **addr, size_t size, size_t wanted), (addr, size, wanted))                           \
	X(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout))                             \
	X(int, open, (const char *path, int flags, int mode), (path, flags, mode))                                \
	X(ssize_t, pread, (int fd, void *buf, size_t size, off_t at), (fd, buf, size, at))                        \
	X(ssize_t, write, (int fd, const void *buf, size_t size), (fd, buf, size))                                \
	X(ssize_t, pwrite, (int fd, const void *buf, size_t size, off_t at), (fd, buf, size, at))                 \
	X(int, fstat, (int fd, struct stat * out), (fd, out))                                                     \
	X(int, unlink, (const char *path), (path))                                                                \
	X(int, rename, (const char *from, const char *to), (from, to))                                            \
	X(int, pipe, (int fds[2]), (fds))                                                                         \
	X(pid_t, fork, (void), ())                                                                                \
	X(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))                          \
	X(int, kill, (pid_t pid, int signal), (pid, signal))                                                      \
	X(int, fcntl, (int fd, int cmd, long arg), (fd, cmd, arg))

#define RELEASES(X)                                                                                               \
	X(int, close, (int fd), (fd))                                                                             \
	X(int, munmap, (void *addr, size_t size), (addr, size))

#define WRAP(type, name, params, args)                                                                            \
	static type fault_##name params                                                                           \
	{                                                                                                         \
		int err = turn(#name);                                                                            \
		return err ? err : pf_sys_real.name args;                                                         \
	}
CALLS(WRAP)
#undef WRAP

#define WRAP(type, name, params, args)                                                                            \
	static type fault_##name params                                                                           \
	{                                                                                                         \
		int err = turn(#name), r = pf_sys_real.name args;                                                 \
		return err ? err : r;                                                                             \
	}
RELEASES(WRAP)
#undef WRAP

static const struct pf_sys faulty = {
#define ENTRY(type, name, params, args) .name = fault_##name,
	CALLS(ENTRY) RELEASES(ENTRY)
#undef ENTRY
};

int pf_fault_arm(const char *call, int err, unsigned skip)
{
	armed = 0;
#define FIND(type, name, params, args) \
	if (strcmp(call, #name) == 0)  \
		armed = #name;
	CALLS(FIND) RELEASES(FIND)
#undef FIND
	if (!armed)
		return -ENOENT;
	armed_err = err;
	armed_skip = skip;
	seen = 0;
	pf_sys = &faulty;
	return 0;
}

unsigned pf_fault_disarm(void)
{
	pf_sys = &pf_sys_real;
	armed = 0;
	return seen;
}

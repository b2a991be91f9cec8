/* The one seam between the core and the kernel: every system call of the core goes through this table, so a
 * test can make any of them fail at any point (fault.c). Each entry behaves as the call it is named after, but returns
 * -errno instead of setting errno: nothing in the core reads errno. */
#ifndef PF_SYS_H
#define PF_SYS_H

#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

struct pf_attr;
struct stat;

struct pf_sys {
	long (*perf_event_open)(struct pf_attr *attr, pid_t pid, int cpu, int group_fd, unsigned long flags);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	ssize_t (*read)(int fd, void *buf, size_t size);
	int (*close)(int fd);
	/* Returns 0 and the address through *out. */
	int (*mmap)(void **out, size_t size, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *addr, size_t size);
	/* It may move; the address through *addr. */
	int (*mremap)(void **addr, size_t size, size_t wanted);
	int (*poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
	int (*open)(const char *path, int flags, int mode);
	ssize_t (*pread)(int fd, void *buf, size_t size, off_t offset);
	ssize_t (*write)(int fd, const void *buf, size_t size);
	ssize_t (*pwrite)(int fd, const void *buf, size_t size, off_t offset);
	int (*fstat)(int fd, struct stat *out);
	int (*unlink)(const char *path);
	int (*rename)(const char *from, const char *to);
	int (*pipe)(int fds[2]); /* close-on-exec */
	pid_t (*fork)(void);
	pid_t (*waitpid)(pid_t pid, int *status, int options);
	int (*kill)(pid_t pid, int signal);
	int (*fcntl)(int fd, int cmd, long arg);
};

/* The table in use: the real calls, unless fault injection is armed. */
extern const struct pf_sys *pf_sys;
extern const struct pf_sys pf_sys_real;

#endif

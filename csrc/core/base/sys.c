/* The real system calls behind sys.h. */
#include "core/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long real_perf_event_open(struct pf_attr *attr, pid_t pid, int cpu, int group_fd, unsigned long flags)
{
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, group_fd, flags);
	return fd < 0 ? -errno : fd;
}

static int real_ioctl(int fd, unsigned long request, void *arg)
{
	int r = ioctl(fd, request, arg);
	return r < 0 ? -errno : r;
}

static ssize_t real_read(int fd, void *buf, size_t size)
{
	ssize_t r = read(fd, buf, size);
	return r < 0 ? -errno : r;
}

static int real_close(int fd)
{
	return close(fd) < 0 ? -errno : 0;
}

static int real_mmap(void **out, size_t size, int prot, int flags, int fd, off_t offset)
{
	void *p = mmap(NULL, size, prot, flags, fd, offset);
	if (p == MAP_FAILED)
		return -errno;
	*out = p;
	return 0;
}

static int real_munmap(void *addr, size_t size)
{
	return munmap(addr, size) < 0 ? -errno : 0;
}

static int real_mremap(void **addr, size_t size, size_t wanted)
{
	void *p = mremap(*addr, size, wanted, MREMAP_MAYMOVE);
	if (p == MAP_FAILED)
		return -errno;
	*addr = p;
	return 0;
}

static int real_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int r = poll(fds, n, timeout_ms);
	return r < 0 ? -errno : r;
}

static int real_open(const char *path, int flags, int mode)
{
	int fd = open(path, flags | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

static ssize_t real_pread(int fd, void *buf, size_t size, off_t offset)
{
	ssize_t r = pread(fd, buf, size, offset);
	return r < 0 ? -errno : r;
}

static ssize_t real_write(int fd, const void *buf, size_t size)
{
	ssize_t r = write(fd, buf, size);
	return r < 0 ? -errno : r;
}

static ssize_t real_pwrite(int fd, const void *buf, size_t size, off_t offset)
{
	ssize_t r = pwrite(fd, buf, size, offset);
	return r < 0 ? -errno : r;
}

static int real_fstat(int fd, struct stat *out)
{
	return fstat(fd, out) < 0 ? -errno : 0;
}

static int real_unlink(const char *path)
{
	return unlink(path) < 0 ? -errno : 0;
}

static int real_rename(const char *from, const char *to)
{
	return rename(from, to) < 0 ? -errno : 0;
}

static int real_pipe(int fds[2])
{
	return pipe2(fds, O_CLOEXEC) < 0 ? -errno : 0;
}

static pid_t real_fork(void)
{
	pid_t pid = fork();
	return pid < 0 ? -errno : pid;
}

static pid_t real_waitpid(pid_t pid, int *status, int options)
{
	pid_t r = waitpid(pid, status, options);
	return r < 0 ? -errno : r;
}

static int real_kill(pid_t pid, int signal)
{
	return kill(pid, signal) < 0 ? -errno : 0;
}

static int real_fcntl(int fd, int cmd, long arg)
{
	int r = fcntl(fd, cmd, arg);
	return r < 0 ? -errno : r;
}

const struct pf_sys pf_sys_real = {
	.perf_event_open = real_perf_event_open,
	.ioctl = real_ioctl,
	.read = real_read,
	.close = real_close,
	.mmap = real_mmap,
	.munmap = real_munmap,
	.mremap = real_mremap,
	.poll = real_poll,
	.open = real_open,
	.pread = real_pread,
	.write = real_write,
	.pwrite = real_pwrite,
	.fstat = real_fstat,
	.unlink = real_unlink,
	.rename = real_rename,
	.pipe = real_pipe,
	.fork = real_fork,
	.waitpid = real_waitpid,
	.kill = real_kill,
	.fcntl = real_fcntl,
};

const struct pf_sys *pf_sys = &pf_sys_real;

/* The real system calls behind sys.h. */
#include "core/base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int mapped(void **out, void *p)
{
	if (p == MAP_FAILED)
		return -1;
	*out = p;
	return 0;
}

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8
#endif

static ssize_t write_now(int fd, const void *buf, size_t size)
{
	const struct iovec from = {(void *)(uintptr_t)buf, size};
	const ssize_t n = syscall(SYS_pwritev2, fd, &from, 1, -1L, -1L, RWF_NOWAIT); /* -1: at the descriptor's own place */

	return n >= 0 || errno == EAGAIN ? n : write(fd, buf, size);
}

#define CALL(type, name, params, args, call)      \
	static type real_##name params            \
	{                                         \
		const type r = (type)call;        \
		return r < 0 ? (type)-errno : r;  \
	}
#define RELEASE CALL
#include "core/base/sys.def"

const struct pf_sys pf_sys_real = {
#define CALL(type, name, params, args, call) .name = real_##name,
#define RELEASE CALL
#include "core/base/sys.def"
};

const struct pf_sys *pf_sys = &pf_sys_real;

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

static int mapped(void **out, void *p)
{
	if (p == MAP_FAILED)
		return -1;
	*out = p;
	return 0;
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

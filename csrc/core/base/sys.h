/* The one seam between the core and the kernel: every system call of the core goes through this table, so that a test can make
 * any of them fail at any point (fault.c). Each entry behaves as the call of its name, but returns -errno instead of setting
 * errno: nothing in the core reads errno. */
#ifndef PF_SYS_H
#define PF_SYS_H

#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

struct pf_attr;
struct stat;

struct pf_sys {
#define CALL(type, name, params, args, call) type(*name) params;
#define RELEASE CALL
#include "core/base/sys.def"
};

/* The table in use: the real calls, unless fault injection is armed. */
extern const struct pf_sys *pf_sys;
extern const struct pf_sys pf_sys_real;

#endif

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
struct iovec;

struct pf_sys {
#define CALL(type, name, params, args, call) type(*name) params;
#define RELEASE CALL
#include "core/base/sys.def"
};

/* The table in use: the real calls, unless fault injection is armed. */
extern const struct pf_sys *pf_sys;
extern const struct pf_sys pf_sys_real;

/* Fault injection, for tests: the skip-th next call (0 = the next) of the named entry of struct pf_sys fails once with -err. Only one
 * fault is armed at a time, process-wide. Returns 0, or -ENOENT when there is no such entry. */
int pf_fault_arm(const char *call, int err, unsigned skip);

/* Disarm. Returns the number of calls of the armed entry, including the failed one. */
unsigned pf_fault_disarm(void);

#endif

/* An armed table counts every call, and forwards it to the real one unless it is the one that must fail. A close or munmap that
 * fails is still performed, since Linux closes a descriptor even if close reports an error. The table is swapped back on disarm.
 * Not for concurrent use: the tests that arm a fault run on one thread. */
#include "core/base/sys.h"

#include <errno.h>
#include <string.h>

static const char *armed;
static int armed_err;
static unsigned armed_skip, seen;

static int turn(const char *call)
{
	if (!armed || strcmp(armed, call) != 0)
		return 0;
	return seen++ == armed_skip ? -armed_err : 0;
}

#define CALL(type, name, params, args, call)                                                                      \
	static type fault_##name params                                                                           \
	{                                                                                                         \
		int err = turn(#name);                                                                            \
		return err ? err : pf_sys_real.name args;                                                         \
	}
#define RELEASE(type, name, params, args, call)                                                                   \
	static type fault_##name params                                                                           \
	{                                                                                                         \
		int err = turn(#name), r = pf_sys_real.name args;                                                 \
		return err ? err : r;                                                                             \
	}
#include "core/base/sys.def"

static const struct pf_sys faulty = {
#define CALL(type, name, params, args, call) .name = fault_##name,
#define RELEASE CALL
#include "core/base/sys.def"
};

int pf_fault_arm(const char *call, int err, unsigned skip)
{
	armed = 0;
#define CALL(type, name, params, args, arg) \
	if (strcmp(call, #name) == 0)       \
		armed = #name;
#define RELEASE CALL
#include "core/base/sys.def"
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

/* Checks at compile time that uapi.h agrees with the installed kernel header.
 * It uses the names of Linux 5.13 (attr VER7); with an older header (Debian 11 has 5.10) nothing is checked. Newer names are
 * checked by spec/unit/kernel/uapi_spec.lua, which reads the installed header and fails on a name that is missing in the tables. */
#include "core/kernel/uapi.h"

#include <linux/perf_event.h>

#ifdef PERF_ATTR_SIZE_VER7

#define SAME(a, b) _Static_assert((uint64_t)(a) == (uint64_t)(b), #b)

#define X(sym, value, name) SAME(value, PERF_TYPE_##sym);
#include "core/kernel/defs/types.def"
#undef X
#define X(sym, value, name, alias, text) SAME(value, PERF_COUNT_HW_##sym);
#include "core/kernel/defs/hardware.def"
#undef X
#define X(sym, value, name, alias, unit, text, in_kernel) SAME(value, PERF_COUNT_SW_##sym);
#include "core/kernel/defs/software.def"
#undef X
#define CACHE(sym, value, name, ops) SAME(value, PERF_COUNT_HW_CACHE_##sym);
#define OP(sym, value, name, plural) SAME(value, PERF_COUNT_HW_CACHE_OP_##sym);
#define RESULT(sym, value, name) SAME(value, PERF_COUNT_HW_CACHE_RESULT_##sym);
#include "core/kernel/defs/cache.def"
#define X(sym, bit, name) SAME(PF_BIT(bit), PERF_SAMPLE_##sym);
#include "core/kernel/defs/sample.def"
#undef X
#define X(sym, request, method) SAME(request, PERF_EVENT_IOC_##sym);
#include "core/kernel/defs/ioctl.def"
#undef X

/* The old header's attr is a prefix of ours. */
#define AT(field) _Static_assert(offsetof(struct pf_attr, field) == offsetof(struct perf_event_attr, field), #field)
AT(type);
AT(size);
AT(config);
AT(sample_period);
AT(sample_type);
AT(read_format);
AT(wakeup_events);
AT(bp_type);
AT(bp_addr);
AT(bp_len);
AT(branch_sample_type);
AT(sample_regs_user);
AT(sample_stack_user);
AT(clockid);
AT(sample_regs_intr);
AT(aux_watermark);
AT(sample_max_stack);
AT(aux_sample_size);
AT(sig_data);
_Static_assert(sizeof(struct pf_attr) == 144, "attr is the kernel's VER9");

#define IN_PAGE(field) \
	_Static_assert(offsetof(struct pf_user_page, field) == offsetof(struct perf_event_mmap_page, field), #field)
IN_PAGE(lock);
IN_PAGE(index);
IN_PAGE(offset);
IN_PAGE(time_enabled);
IN_PAGE(time_running);
IN_PAGE(capabilities);
IN_PAGE(pmc_width);
IN_PAGE(time_shift);
IN_PAGE(time_mult);
IN_PAGE(time_offset);
IN_PAGE(time_zero);
IN_PAGE(size);
IN_PAGE(time_cycles);
IN_PAGE(time_mask);
#endif

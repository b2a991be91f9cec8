/* The kernel's perf interface: constants and structures up to Linux 7.2.
 *
 * The installed <linux/perf_event.h> may be older than the running kernel and its values are enums, which the preprocessor cannot
 * see. So the module keeps its own copy of the facts, made from defs/ *.def, and uapi_check.c asserts at compile time that the
 * values agree for each name that the installed header has.
 */
#ifndef PF_UAPI_H
#define PF_UAPI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

enum {
#define X(sym, value, name) PF_TYPE_##sym = value,
#include "core/kernel/defs/types.def"
#undef X
};

enum {
#define X(sym, value, name, alias, text) PF_HW_##sym = value,
#include "core/kernel/defs/hardware.def"
#undef X
#define X(sym, value, name, alias, unit, text, in_kernel) PF_SW_##sym = value,
#include "core/kernel/defs/software.def"
#undef X
};

/* Bits of 64-bit masks. A .def table cannot define macros, so these are enumerators of bit numbers, and PF_BIT() makes the mask. */
#define PF_BIT(n) (UINT64_C(1) << (n))

enum {
#define X(sym, bit, name) PF_SAMPLE_##sym##_BIT = bit,
#include "core/kernel/defs/sample.def"
#undef X
#define X(sym, bit, name) PF_BRANCH_##sym##_BIT = bit,
#include "core/kernel/defs/branch.def"
#undef X
#define X(sym, bit, name) PF_FORMAT_##sym##_BIT = bit,
#include "core/kernel/defs/format.def"
#undef X
#define X(sym, bit, name) PF_BP_##sym##_BIT = bit,
#include "core/kernel/defs/bp.def"
#undef X
};

#define PF_SAMPLE(sym) PF_BIT(PF_SAMPLE_##sym##_BIT)
#define PF_BRANCH(sym) PF_BIT(PF_BRANCH_##sym##_BIT)
#define PF_FORMAT(sym) PF_BIT(PF_FORMAT_##sym##_BIT)

enum {
#define X(sym, value, name) PF_RECORD_##sym = value,
#include "core/kernel/defs/record.def"
#undef X
	PF_RECORD_END, /* one more than the last of record.def */
	PF_RECORD_LAST = PF_RECORD_END - 1
};

/* Markers in a callchain. */
enum {
#define X(sym, value, name) PF_CONTEXT_##sym = value,
#include "core/kernel/defs/context.def"
#undef X
};

static inline int pf_is_context(uint64_t ip)
{
	return ip >= (uint64_t)PF_CONTEXT_MAX;
}

#define PF_IO(n) _IO('$', n)
#define PF_IOR(n, size) _IOC(_IOC_READ, '$', n, size)
#define PF_IOW(n, size) _IOC(_IOC_WRITE, '$', n, size)
#define PF_IOWR(n, size) _IOC(_IOC_READ | _IOC_WRITE, '$', n, size)

/* An enum, since only some compilers accept constant objects as case labels. */
enum {
#define X(sym, request, method) PF_IOC_##sym = request,
#include "core/kernel/defs/ioctl.def"
#undef X
};

#define PF_IOC_FLAG_GROUP 1u

/* Flags of perf_event_open(2). */
#define PF_FLAG_FD_NO_GROUP 1ul
#define PF_FLAG_FD_OUTPUT 2ul
#define PF_FLAG_PID_CGROUP 4ul
#define PF_FLAG_FD_CLOEXEC 8ul

/* struct perf_event_attr of Linux 7.2 (144 bytes); the kernel takes any size whose unknown tail is zero. */
struct pf_attr {
	uint32_t type;
	uint32_t size;
	uint64_t config;
	union {
		uint64_t sample_period;
		uint64_t sample_freq;
	};
	uint64_t sample_type;
	uint64_t read_format;
	uint64_t disabled : 1, inherit : 1, pinned : 1, exclusive : 1, exclude_user : 1, exclude_kernel : 1,
		exclude_hv : 1, exclude_idle : 1, mmap : 1, comm : 1, freq : 1, inherit_stat : 1,
		enable_on_exec : 1, task : 1, watermark : 1, precise_ip : 2, mmap_data : 1, sample_id_all : 1,
		exclude_host : 1, exclude_guest : 1, exclude_callchain_kernel : 1, exclude_callchain_user : 1,
		mmap2 : 1, comm_exec : 1, use_clockid : 1, context_switch : 1, write_backward : 1,
		namespaces : 1, ksymbol : 1, bpf_event : 1, aux_output : 1, cgroup : 1, text_poke : 1,
		build_id : 1, inherit_thread : 1, remove_on_exec : 1, sigtrap : 1, defer_callchain : 1,
		defer_output : 1, reserved_1 : 24;
	union {
		uint32_t wakeup_events;
		uint32_t wakeup_watermark;
	};
	uint32_t bp_type;
	union {
		uint64_t bp_addr;
		uint64_t kprobe_func;
		uint64_t uprobe_path;
		uint64_t config1;
	};
	union {
		uint64_t bp_len;
		uint64_t kprobe_addr;
		uint64_t probe_offset;
		uint64_t config2;
	};
	uint64_t branch_sample_type;
	uint64_t sample_regs_user;
	uint32_t sample_stack_user;
	int32_t clockid;
	uint64_t sample_regs_intr;
	uint32_t aux_watermark;
	uint16_t sample_max_stack;
	uint16_t reserved_2;
	uint32_t aux_sample_size;
	uint32_t aux_start_paused : 1, aux_pause : 1, aux_resume : 1, reserved_3 : 29;
	uint64_t sig_data;
	uint64_t config3;
	uint64_t config4;
};

#define PF_ATTR_SIZE_VER0 64u /* the first published size: every kernel accepts it */

/* The beginning of struct perf_event_mmap_page, the page before an event's ring, with everything that a program needs to read the
 * counter itself. On little-endian machines the capabilities begin at the lowest bit. */
struct pf_user_page {
	uint32_t version, compat_version;
	uint32_t lock;  /* changes whenever another field does */
	uint32_t index; /* 1 + the counter's number; 0: the event has no counter now */
	int64_t offset; /* to be added to the counter's value */
	uint64_t time_enabled, time_running;
	uint64_t capabilities;
	uint16_t pmc_width, time_shift;
	uint32_t time_mult;
	uint64_t time_offset, time_zero;
	uint32_t size, reserved;
	uint64_t time_cycles, time_mask;
};

#define PF_CAP_IS_SPLIT PF_BIT(1) /* each capability has a bit of its own: Linux 3.12 */
#define PF_CAP_USER_RDPMC PF_BIT(2)
#define PF_CAP_USER_TIME PF_BIT(3)
#define PF_CAP_USER_TIME_SHORT PF_BIT(5)

/* struct perf_event_header: 8 bytes before every record. */
struct pf_header {
	uint32_t type;
	uint16_t misc;
	uint16_t size; /* of header and body; a multiple of 8 in the ring */
};

#endif

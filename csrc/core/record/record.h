/* Parsing one record of the kernel.
 *
 * A record is header (type u32, misc u16, size u16) and body, size bytes in all. pf_record_parse reads one whole record
 * into a struct without pointers: scalars by value, arrays and strings as offset and count into the same bytes. So
 * the struct stays valid when the bytes are copied elsewhere, and FFI code can read both.
 *
 * The bits of `has` show which members are set; the others are undefined:
 *   PF_SAMPLE(...)           that field of a sample, or of the trailer that sample_id_all appends to other records; pid, tid,
 *                            time, addr, id, stream_id and callchain have the same bit if they are in a record's own body
 *   PF_HAS(type)             the body of that record type
 *   PF_HAS_...               parts that only some records of a type have
 */
#ifndef PF_RECORD_H
#define PF_RECORD_H

#include "core/record/layout.h"

#define PF_RECORD_MAX_SIZE 65536u /* more than a u16 holds */

/* An array or string within the record: n elements from byte `at` on. */
struct pf_view {
	uint16_t at, n;
};

enum {
#define X(sym, bit, name, mask) PF_MISC_##sym = 1 << bit,
#include "core/record/misc.def"
#undef X
};

#define PF_HAS_BODY 32
#define PF_HAS(type) PF_BIT(PF_HAS_BODY + PF_RECORD_##type)
enum {
	PF_HAS_EVENT_ID_BIT = 56, /* event_id */
	PF_HAS_INODE_BIT,         /* mmap2: maj min ino ino_generation */
	PF_HAS_BUILD_ID_BIT,      /* mmap2: build_id */
	PF_HAS_HW_INDEX_BIT,      /* branch_hw_index */
	PF_HAS_COUNTERS_BIT,      /* branch_counters */
	PF_HAS_OTHER_BIT,         /* body: a type that this module does not know */
};
#define PF_HAS_EVENT_ID PF_BIT(PF_HAS_EVENT_ID_BIT)
#define PF_HAS_INODE PF_BIT(PF_HAS_INODE_BIT)
#define PF_HAS_BUILD_ID PF_BIT(PF_HAS_BUILD_ID_BIT)
#define PF_HAS_HW_INDEX PF_BIT(PF_HAS_HW_INDEX_BIT)
#define PF_HAS_COUNTERS PF_BIT(PF_HAS_COUNTERS_BIT)
#define PF_HAS_OTHER PF_BIT(PF_HAS_OTHER_BIT)

struct pf_record {
	uint32_t type;
	uint16_t misc, size;
	uint64_t has;
	uint64_t event_id; /* the id of the event that wrote it: sample id or identifier */

	/* Members from a sample, from the trailer by sample_id_all, or from a body that has a member of that name. id is the event's id,
	 * except in bodies where it means something else (lost, cgroup, bpf_event). */
	uint64_t ip, time, addr, id, stream_id, period;
	uint32_t pid, tid, cpu;

	/* Sample only. */
	uint8_t regs_user_abi, regs_intr_abi; /* 0: no registers */
	uint16_t stack_dyn_size;              /* the number of valid bytes of stack_user */
	uint64_t weight, data_src, transaction, phys_addr, cgroup, data_page_size, code_page_size;
	uint64_t regs_user_mask, regs_intr_mask;
	uint64_t branch_hw_index;
	struct pf_view read;                 /* u64, by read_format; also of type read */
	struct pf_view callchain;            /* u64; also of callchain_deferred */
	struct pf_view raw, stack_user, aux; /* bytes */
	struct pf_view branch_stack;         /* struct pf_branch */
	struct pf_view branch_counters;      /* u64, one for each branch */
	struct pf_view regs_user, regs_intr; /* u64, one for each bit of the mask */
	uint32_t read_format, read_hidden;

	/* Bodies of the other types. */
	uint8_t arch;
	uint32_t ppid, ptid;                   /* fork exit; next_prev_pid and _tid of switch_cpu_wide */
	uint64_t len, pgoff;                   /* mmap mmap2; len also of ksymbol */
	uint32_t prot, flags;                  /* mmap2; flags also of ksymbol bpf_event */
	uint32_t maj, min;                     /* mmap2 */
	uint64_t ino, ino_generation;          /* mmap2 */
	uint64_t lost;                         /* lost lost_samples */
	uint64_t aux_offset, aux_size, aux_flags;
	uint64_t hw_id;                        /* aux_output_hw_id */
	uint64_t cookie;                       /* callchain_deferred */
	uint32_t kind;                         /* ksymbol: type; bpf_event: type */
	struct pf_view text;                   /* filename, comm, name, path: without the final zero */
	struct pf_view build_id, tag;          /* bytes */
	struct pf_view old_bytes, new_bytes;   /* text_poke */
	struct pf_view namespaces;             /* pairs of u64 dev, ino */
	struct pf_view body;                   /* bytes; of types that this module does not know */
};

struct pf_branch {
	uint64_t from, to, flags;
};

enum { PF_RECORD_UNKNOWN = 1 };

/* Parse one whole record. bytes must be aligned like uint64_t (otherwise -EINVAL): to 8, on i386 to 4. n is its length, which
 * must be the header's size. Nothing is read beyond n, nothing is allocated. Returns
 *   0                   parsed
 *   PF_RECORD_UNKNOWN   valid size, of a type that this module does not know: 64 and more (a tool's own, see
 *                       pf_record_is_user) or a newer kernel's. type, misc, size and body are set, and what
 *                       sample_id_all adds for the kernel's
 *   -EBADMSG            bytes that no kernel writes
 * l may be NULL for types that need no layout. */
int pf_record_parse(const struct pf_layout *l, const unsigned char *bytes, size_t n, struct pf_record *out);

/* The same for the other byte order: first swaps the numbers in place, so that views can be read. Text, raw, stack and aux data
 * stay as they are. After an error the bytes are not usable. */
int pf_record_parse_swapped(const struct pf_layout *l, unsigned char *bytes, size_t n, struct pf_record *out);

static inline int pf_record_is_user(uint32_t type)
{
	return type >= 64;
}

/* The elements of a view. */
static inline const uint64_t *pf_view_u64(const unsigned char *bytes, struct pf_view v)
{
	return (const uint64_t *)(const void *)(bytes + v.at);
}

#endif

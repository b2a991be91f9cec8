/* The perf.data format, as the perf tool writes it. Every number is in the byte order of the machine that recorded it.
 *
 *   file     offset 0   u64 magic      "PERFILE2"; "PERFFILE" before Linux 3.3, which does not show the byte order
 *                   8   u64 size       of this header: 104, or 72 without the feature bits
 *                   16  u64 attr_size  of an entry of attrs
 *                   24  section attrs  u64 offset, u64 size: entries of {perf_event_attr, section ids}
 *                   40  section data   the records, each after a perf_event_header
 *                   56  section types  before Linux 3.11: entries of {u64 config, char name[64]}
 *                   72  u64 features[4]
 *            after the data section, a section for each feature bit, in ascending order
 *   pipe     offset 0   u64 magic, u64 size = 16, then records: attrs and features are records too
 *
 * A record's size is 16 bits wide and includes its header. Two records are followed by data that their size does not include: the
 * u64 at 8 of auxtrace and the u32 at 8 of header_tracing_data are the length of that data. Compressed records hold a zstd stream
 * of records; a record may begin in one of them and end in the next. */
#ifndef PF_DATA_FORMAT_H
#define PF_DATA_FORMAT_H

#include "core/kernel/uapi.h"

enum {
#define X(sym, value, name, ...) PF_USER_##sym = value,
#include "core/data/user_record.def"
#undef X
	PF_USER_END,
	PF_USER_FIRST = PF_USER_HEADER_ATTR,
	PF_USER_LAST = PF_USER_END - 1
};

enum {
#define X(sym, bit, name, ...) PF_FEATURE_##sym = bit,
#include "core/data/feature.def"
#undef X
	PF_FEATURE_END,
	PF_FEATURE_LAST = PF_FEATURE_END - 1,
	PF_FEATURE_BITS = 256
};

#define PF_DATA_MAGIC_OLD "PERFFILE"

struct pf_section {
	uint64_t offset, size;
};

struct pf_data_header {
	char magic[8];
	uint64_t size, attr_size;
	struct pf_section attrs, data, types;
	uint64_t features[PF_FEATURE_BITS / 64];
};

#define PF_DATA_HEADER_OLD offsetof(struct pf_data_header, features)
#define PF_DATA_PIPE_HEADER 16u
#define PF_RECORD_MAX 65536u /* more than any record's 16-bit size */

/* The largest attr_size that is accepted: an attr and the section of its ids. */
#define PF_DATA_ATTR_MAX 4096u

_Static_assert(sizeof(struct pf_data_header) == 104, "the header of a perf.data file");

#endif

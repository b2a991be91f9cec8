/* Measuring by difference: read, run, read, subtract. */
#ifndef PF_METER_H
#define PF_METER_H

#include <stdint.h>

/* What is read: one or more kernel groups, each by a single read(2) of its leader. Groups are opened with read_format
 * GROUP | TOTAL_TIME_ENABLED | TOTAL_TIME_RUNNING exactly, so a read is 3 + n words. With ngroups == 0 the
 * kernel's accounting of the thread is read instead (usage.h). */
struct pf_meter_group {
	int32_t fd;
	uint32_t n;
};

struct pf_meter {
	uint32_t ngroups;
	uint32_t nvalues;
	struct pf_meter_group group[];
};

/* The result: wall time, then {enabled, running} of each group, then every value, in the order of opening.
 * pf_meter_begin fills it with the start, pf_meter_end turns it into the difference: one object a measurement, and
 * nested, recursive or interleaved measurements never share one. layout belongs to the caller. */
struct pf_counts {
	uint32_t layout;
	uint32_t n; /* words in v: 1 + 2 * max(ngroups, 1) + nvalues */
	uint64_t v[];
};

#define PF_METER_MAX_GROUP 128 /* events in one kernel group */

static inline uint32_t pf_meter_words(const struct pf_meter *m)
{
	return 1 + 2 * (m->ngroups ? m->ngroups : 1) + m->nvalues;
}

/* Both return 0 or -errno: -EBADF when a group is closed. A pinned group that lost its counter (end of file)
 * reads as zero running time. */
int pf_meter_begin(const struct pf_meter *m, struct pf_counts *c);
int pf_meter_end(const struct pf_meter *m, struct pf_counts *c);

#endif

/* The events of a perf.data file: an attr each, with the ids that its records carry. */
#ifndef PF_DATA_EVENTS_H
#define PF_DATA_EVENTS_H

#include "core/data/format.h"
#include "core/data/source.h"
#include "core/record/layout.h"

struct pf_data_event {
	struct pf_attr attr;
	uint64_t *ids;
	uint32_t nids;
};

struct pf_data_events {
	struct pf_data_event *list;
	uint32_t n, room;
	uint64_t nids, max_ids; /* of all events; a file cannot name more ids than it has room for */
	struct pf_layouts layouts;
	enum pf_arch arch;
};

/* The section attrs of a file. Returns 0, -EBADMSG with *why, or -errno. */
int pf_data_events_read(struct pf_data_events *e, const struct pf_source *src, const struct pf_section *attrs,
			uint64_t attr_size, int swapped, const char **why);

/* A header_attr record in this machine's order: the attr, its ids. The same. */
int pf_data_events_record(struct pf_data_events *e, const unsigned char *record, size_t size, const char **why);

/* Whose registers samples hold, once the file says so. */
void pf_data_events_arch(struct pf_data_events *e, enum pf_arch arch);

void pf_data_events_free(struct pf_data_events *e);

#endif

/* The events of a perf.data file: each has an attr, and the ids that its records carry. */
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
	uint64_t nids, max_ids; /* of all events; max_ids is the number that the file has room for */
	struct pf_layouts layouts;
	enum pf_arch arch;
};

/* Reads the section attrs of a file. Returns 0, -EBADMSG and *why, or -errno. */
int pf_data_events_read(struct pf_data_events *e, const struct pf_source *src, const struct pf_section *attrs,
			uint64_t attr_size, int swapped, const char **why);

/* The same for a header_attr record in this machine's byte order, which holds an attr and its ids. */
int pf_data_events_record(struct pf_data_events *e, const unsigned char *record, size_t size, const char **why);

/* Sets the architecture whose registers the samples hold: in a file this comes after its events. */
void pf_data_events_arch(struct pf_data_events *e, enum pf_arch arch);

void pf_data_events_free(struct pf_data_events *e);

#endif

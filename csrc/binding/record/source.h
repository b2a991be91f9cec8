/* The interface between the sources of records, an Event's ring (event/ring_source.c) and perf.data files (data/source.c), and
 * their users: each, Tally and packed Records. A source finds the records, and passes them on. */
#ifndef PB_SOURCE_H
#define PB_SOURCE_H

#include "core/record/tally.h"
#include "binding/record/record.h"

enum { PB_EACH_FIELDS = 32, PB_TALLY_FIELDS = PF_TALLY_MAX_KEYS + 1 /* the keys, and after them the weight */ };

/* The state of a loop by each. */
struct pb_each {
	uint32_t type;
	int n, field[PB_EACH_FIELDS];
	uint64_t count, max, ends; /* max, ends: for the source */
};

/* Push the source, which is at 1, and the state of the loop for the arguments from 2 on. */
struct pb_each *pb_each_new(lua_State *L);
/* Replace the stack by the loop's values for that record; returns their number. */
int pb_each_fields(lua_State *L, struct pb_each *e, const struct pf_record *rec, const unsigned char *bytes);

/* The places of the fields in samples of a layout. Zeroed at first. */
struct pb_plan {
	const struct pf_layout *layout;
	int placed; /* all of them have a place */
	uint16_t at[PB_TALLY_FIELDS], size[PB_TALLY_FIELDS];
};

struct pb_tally {
	struct pf_tally t;
	uint32_t type;
	int nfields, weighted;
	int field[PB_TALLY_FIELDS];
	uint64_t without;    /* records that lack a field */
	uint32_t generation; /* pf_fork_generation when it was made */
};

/* The Tally at 1. */
struct pb_tally *pb_check_tally(lua_State *L);
/* Count a record. Returns 1, or 0 if it is of another type or lacks a field, or -errno: -EBADMSG if it is damaged. */
int pb_tally_count(struct pb_tally *p, struct pb_plan *plan, const struct pf_layout *l, const unsigned char *bytes, size_t n);
/* Count consecutive samples of the plan's layout, whose fields all have fixed places. Returns their number, and their bytes in
 * *done. It stops at the first record that is of another kind, is cut off, or needs memory that is not available: pb_tally_count
 * takes that one. */
uint64_t pb_tally_span(struct pb_tally *p, const struct pb_plan *plan, const unsigned char *bytes, size_t left, size_t *done);

#endif

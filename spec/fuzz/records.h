/* Records that a kernel could write, for a random attr; and a reader of all parts of a parsed record. */
#ifndef RECORDS_H
#define RECORDS_H

#include "core/record/record.h"

struct maker {
	unsigned char native[PF_RECORD_MAX_SIZE], swapped[PF_RECORD_MAX_SIZE]; /* the same in both byte orders */
	size_t n;
};

void make_attr(struct pf_attr *a);
void make_record(struct maker *m, const struct pf_attr *a);

/* Reads every byte of every view. Aborts if one is not within the n bytes. */
void read_all(const struct pf_record *r, const unsigned char *bytes, size_t n);

/* Aborts if two records differ. */
void same_record(const struct pf_record *a, const struct pf_record *b);

#endif

/* Records that a kernel could write, for a random attr; and reading all that a parsed one says it has. */
#ifndef RECORDS_H
#define RECORDS_H

#include "core/record/record.h"

struct maker {
	unsigned char native[PF_RECORD_MAX_SIZE], swapped[PF_RECORD_MAX_SIZE]; /* the same in both byte orders */
	size_t n;
};

void make_attr(struct pf_attr *a);
void make_record(struct maker *m, const struct pf_attr *a);

/* Every byte of every view. Aborts where one is not within the n bytes. */
void read_all(const struct pf_record *r, const unsigned char *bytes, size_t n);

/* Aborts where two records do not say the same. */
void same_record(const struct pf_record *a, const struct pf_record *b);

#endif

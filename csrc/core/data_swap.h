/* Records and attrs that a machine of the other byte order made, turned into this machine's own, in place. */
#ifndef PF_DATA_SWAP_H
#define PF_DATA_SWAP_H

#include "uapi.h"

void pf_swap_u64s(void *p, size_t n);
void pf_swap_header(struct pf_header *h);

/* All of a struct pf_attr; what lies beyond attr->size must be zero. */
void pf_swap_attr(struct pf_attr *a);

/* A whole record of size bytes whose header is already this machine's. attr is the event it belongs to, for the layout of a
 * sample and of the sample id behind other records; NULL when that is unknown. Returns 0, or -EBADMSG when its
 * inner lengths do not fit: the rest of it is then as it was. */
int pf_swap_record(unsigned char *record, size_t size, const struct pf_attr *attr);

/* The bytes that sample_id_all adds behind a record of this event. */
size_t pf_sample_id_size(const struct pf_attr *attr);

#endif

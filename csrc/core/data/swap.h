/* Attrs and the perf tool's records of a machine of the other byte order, swapped in place. */
#ifndef PF_DATA_SWAP_H
#define PF_DATA_SWAP_H

#include "core/kernel/uapi.h"

void pf_swap_u64s(void *p, size_t n);
void pf_swap_header(struct pf_header *h);

/* Swaps all of a struct pf_attr; the bytes beyond attr->size must be zero. */
void pf_swap_attr(struct pf_attr *a);

/* Copies an attr of size bytes from a file. Fields that are newer than this struct are left out. */
void pf_attr_from(struct pf_attr *out, const void *bytes, size_t size, int swapped);

/* Swaps a whole record of the perf tool (types 64 and more; record.h has the kernel's), whose header is already in this machine's
 * order. Returns 0, or -EBADMSG if its fields or inner lengths do not fit: the rest of it is then unchanged. The section within a
 * header_feature record is unchanged too: pf_read swaps it. */
int pf_swap_user(unsigned char *record, size_t size);

#endif

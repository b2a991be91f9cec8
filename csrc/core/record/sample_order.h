/* Where the fields stand that have the same place in every sample of an event: those up to period. */
#ifndef PF_PLACE_H
#define PF_PLACE_H

#include "core/kernel/uapi.h"

struct pf_place {
	const char *name; /* a Record's; NULL ends pf_places */
	uint64_t bit;     /* of sample_type */
	uint16_t offset;  /* within its 8 bytes */
	uint16_t size;    /* 4 or 8 */
};

/* In the order of the bits in a sample. A field that two bits bring has two rows, and is where the later one says. */
extern const struct pf_place pf_places[];

/* Bytes from a sample's start to the row's field, 0 when samples of that type do not have it. */
uint16_t pf_place_at(const struct pf_place *row, uint64_t sample_type);

/* The same by name, of the row that holds; *size is its size. */
uint16_t pf_place_named(const char *name, uint64_t sample_type, uint16_t *size);

#endif

/* The positions of the fields that have the same position in every sample of an event: those up to period. */
#ifndef PF_PLACE_H
#define PF_PLACE_H

#include "core/kernel/uapi.h"

struct pf_place {
	const char *name; /* the field of a Record; NULL ends pf_places */
	uint64_t bit;     /* its bit in sample_type */
	uint16_t offset;  /* within its 8 bytes */
	uint16_t size;    /* 4 or 8 */
};

/* In the order of the fields in a sample. A field that two bits can add has two rows; the later one is valid if both are set. */
extern const struct pf_place pf_places[];

/* Bytes from a sample's start to the row's field, 0 if samples of that type do not have it. */
uint16_t pf_place_at(const struct pf_place *row, uint64_t sample_type);

/* The same by name. *size is the field's size. */
uint16_t pf_place_named(const char *name, uint64_t sample_type, uint16_t *size);

#endif

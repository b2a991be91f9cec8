/* perf_event_attr: the table of its fields, and the size to pass to the kernel. */
#ifndef PF_ATTR_H
#define PF_ATTR_H

#include "core/kernel/uapi.h"

enum pf_field_kind { PF_FIELD_U64, PF_FIELD_U32, PF_FIELD_U16, PF_FIELD_BIT, PF_FIELD_FLAGS, PF_FIELD_NAME, PF_FIELD_PATH };

/* One row of a name table (defs/ *.def): for FLAGS the value is a bit number. */
struct pf_name {
	const char *name;
	uint32_t value;
};

struct pf_field {
	const char *name;
	enum pf_field_kind kind;
	uint64_t max;                /* the largest value the field holds */
	const struct pf_name *names; /* for FLAGS and NAME; ends with name == NULL */
	int is_signed;
	uint64_t (*get)(const struct pf_attr *a);
	void (*set)(struct pf_attr *a, uint64_t v);
};

/* Every field of attr.def in the kernel's order; ends with name == NULL. */
extern const struct pf_field pf_fields[];

extern const struct pf_name pf_names_types[], pf_names_sample[], pf_names_format[], pf_names_branch[],
	pf_names_clockid[], pf_names_bp[], pf_names_record[];

/* The name of a value, or NULL; and the row of a name, or NULL. */
const char *pf_name_of(const struct pf_name *names, uint32_t value);
const struct pf_name *pf_name_find(const struct pf_name *names, const char *name);

/* The row of that name, or NULL. */
const struct pf_field *pf_field_find(const char *name);

/* Set a field, and the bit without which the kernel ignores it (implies.def). */
void pf_field_set(const struct pf_field *f, struct pf_attr *a, uint64_t v);

/* The smallest published attr size that holds every field set in a. */
uint32_t pf_attr_size(const struct pf_attr *a);

/* The name of the first field set in a that a kernel whose attr has kernel_size bytes does not know, or NULL. */
const char *pf_attr_unknown_to(const struct pf_attr *a, uint32_t kernel_size);

#endif

/* Labels of samples that a profiler in another process takes: what the main thread does, such as the route of the request that it
 * serves. This process keeps the labels, and says where the present one is found; it does nothing when that changes. */
#ifndef PF_LABEL_H
#define PF_LABEL_H

#include <stddef.h>
#include <stdint.h>

/* The position of the label: names[items[*index].number]. All are addresses in this process, so that another one can read them. */
struct pf_label_place {
	uint64_t index;  /* of a uint32_t; 0: there are no labels */
	uint64_t items;  /* of the pointer to the items */
	uint64_t names;  /* of the pointer to an array of pointers to struct pf_label, NULL for none */
	uint32_t none;   /* the index while there is no label */
	uint32_t size, number; /* bytes of an item; the place of its uint32_t */
	uint32_t mark;
};

/* A label is never freed or changed, so its address identifies it. */
struct pf_label {
	uint32_t mark, size; /* PF_LABEL_MARK; bytes of the text */
	char text[];
};

#define PF_LABEL_MARK UINT32_C(0x4c50464c)
enum { PF_LABEL_MOST = 10000 /* labels */, PF_LABEL_SIZE = 1024 /* bytes */ };

/* Only code of the library's own file has the address of this struct in another process. */
extern struct pf_label_place pf_label_place;

/* The label with a text; another one if there are too many, or the text is too long; NULL without memory. One thread at a time. */
const struct pf_label *pf_label(const char *text, size_t n);

#endif

/* The meaning of a record's bytes depends on the attr of the event that wrote it. A layout is the relevant part of an attr. If
 * several events share a ring or a file, pf_layouts finds the layout of a record by the event's id. */
#ifndef PF_LAYOUT_H
#define PF_LAYOUT_H

#include "core/kernel/uapi.h"

/* The architecture, which determines the bits of sample_regs_user and sample_regs_intr. */
enum pf_arch { PF_ARCH_OTHER, PF_ARCH_X86, PF_ARCH_ARM64, PF_ARCH_ARM, PF_ARCH_RISCV };

/* The fields that sample_id_all adds to every record that is not a sample: in the order of sample_order.def, except that IDENTIFIER
 * is last. */
#define PF_TRAILER                                                                                                   \
	(PF_SAMPLE(TID) | PF_SAMPLE(TIME) | PF_SAMPLE(ID) | PF_SAMPLE(STREAM_ID) | PF_SAMPLE(CPU) | PF_SAMPLE(IDENTIFIER))

struct pf_layout {
	uint64_t sample_type, read_format, branch_sample_type, regs_user, regs_intr;
	uint16_t fixed_size;   /* bytes of a sample's fields up to period, without the header */
	uint16_t trailer_size; /* bytes that sample_id_all adds to every other record */
	uint16_t sample_id_at; /* offset of the id from a sample's start, 0 = none */
	uint16_t other_id_at;  /* offset of the id from the end of any other record's trailer, 0 = none */
	uint32_t index;        /* index in a struct pf_layouts; outside of one, free for the owner's use */
	uint32_t tag;          /* free for the reader's use; 0 at first */
	uint32_t read_hidden;  /* the bits of read_format that the caller did not request; 0 at first */
	uint8_t arch;          /* enum pf_arch */
	uint8_t tail;          /* samples have fields behind period */
	uint8_t sample_id_all;
	uint8_t build_id;      /* records of mapped files may have build ids */
	uint8_t reads;         /* some records contain a reading in read_format */
	uint8_t sides;         /* it writes other records than samples */
	uint8_t writes;        /* it writes records at all */
};

/* The machine for which this is compiled. */
enum pf_arch pf_arch_native(void);
/* uname's machine: "x86_64", "aarch64" ... */
enum pf_arch pf_arch_named(const char *machine);

void pf_layout_init(struct pf_layout *l, const struct pf_attr *attr, enum pf_arch arch);

/* Whether every record has the same meaning by both layouts. */
int pf_layout_same(const struct pf_layout *a, const struct pf_layout *b);

/* All zero is a valid empty table. A layout keeps its address until pf_layouts_free. */
struct pf_layouts {
	struct pf_layout **list;
	uint32_t n, room;
	struct pf_layout_slot {
		uint64_t id;
		uint32_t index, used;
	} *slot; /* open addressing, a power of two */
	uint32_t nslots, nids;
	uint16_t sample_id_at, other_id_at; /* the position of the id in all layouts; 0 = they differ */
	uint8_t mixed, mixed_trailer;       /* some layouts differ, in samples or in the rest: the id is needed */
};

/* Adds a copy; returns its index or -ENOMEM. */
int pf_layouts_add(struct pf_layouts *ls, const struct pf_layout *l);
/* Declare that the event with that id writes by the layout of that index; this replaces an earlier one. 0 or -ENOMEM. */
int pf_layouts_bind(struct pf_layouts *ls, uint64_t id, uint32_t index);
void pf_layouts_free(struct pf_layouts *ls);

/* The layout of the event with that id, or NULL. */
const struct pf_layout *pf_layouts_by_id(const struct pf_layouts *ls, uint64_t id);

/* The layout of one whole record in native byte order, by its id; the first layout if the record has no id or an unknown one
 * (records made by a tool have id 0). NULL if there is no layout, if the bytes are too few, or if layouts differ and have no
 * common position for the id. */
const struct pf_layout *pf_layouts_find(const struct pf_layouts *ls, const unsigned char *bytes, size_t n);

/* The same for a record of the other byte order. */
const struct pf_layout *pf_layouts_find_swapped(const struct pf_layouts *ls, const unsigned char *bytes, size_t n);

/* The position of the trailer in one whole record of that type, which is not a sample; n >= 8 + l->trailer_size. */
size_t pf_trailer_at(const struct pf_layout *l, uint32_t type, const unsigned char *bytes, size_t n, int swap);

#endif

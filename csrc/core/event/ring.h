/* The ring that an event writes its records into, mapped from its descriptor.
 *
 *     [ header page | data: a power of two pages | aux: a power of two pages ]
 *
 * data_head and data_tail count bytes for ever; their place is the count modulo the size. Forward: the kernel moves head
 * (read with acquire), the reader moves tail (written with release) when it is done with a record's bytes, and what does
 * not fit between is lost. Backward (write_backward, mapped read-only): the kernel moves head down and overwrites the
 * oldest; a reading is a snapshot, taken with the output paused for as long as one copy takes, newest record first, and
 * goes back to where the one before it began.
 *
 * One reader at a time. A record's bytes are whole: one that wraps around the end is put together in scratch. */
#ifndef PF_RING_H
#define PF_RING_H

#include <stddef.h>

#include "core/record/record.h"

struct pf_ring {
	unsigned char *map; /* NULL = not mapped */
	unsigned char *data, *aux;
	unsigned char *scratch; /* PF_RECORD_MAX_SIZE bytes; backward: the snapshot, as large as data */
	size_t map_size, data_size, aux_size;
	uint64_t head, tail;    /* forward: as last read, as last written. Backward: offsets into the snapshot: end, next */
	uint64_t seen;          /* backward: where the snapshot before this one began */
	uint32_t current;       /* bytes of the record handed out and not yet released */
	uint8_t backward, paused;
	int fd;
	uint32_t generation;         /* pf_fork_generation at the mapping */
	uint64_t lost, lost_samples; /* as LOST and LOST_SAMPLES records say */
	uint64_t damaged;            /* bytes that were dropped because no record could be made out in them */
	const struct pf_layouts *layouts;
};

/* Map. pages and aux_pages are powers of two, aux_pages 0 for none. Returns 0 or -errno: -EPERM when the user's
 * allowance (perf_event_mlock_kb, RLIMIT_MEMLOCK) is used up. */
int pf_ring_map(struct pf_ring *r, int fd, size_t pages, size_t aux_pages, int backward);

/* Was it mapped before a fork, in the parent? The kernel leaves rings out of a child: nothing may be touched there. */
int pf_ring_inherited(const struct pf_ring *r);

/* Idempotent. */
void pf_ring_unmap(struct pf_ring *r);

/* Is there anything to read? */
int pf_ring_ready(struct pf_ring *r);

/* The next record's bytes, 8-byte aligned and good until pf_ring_release. Returns its size, 0 when there is none,
 * -EBADMSG when what is there has no sane length: everything available was dropped and counted, and reading goes on with
 * what comes next. A further peek without release gives the same record. */
int pf_ring_peek(struct pf_ring *r, const unsigned char **bytes);

/* Done with what peek gave: its place goes back to the kernel. */
void pf_ring_release(struct pf_ring *r);

/* For loops that cannot pay for a call a record: the bytes that are there up to the end of the data area, not looked at, 0 when there
 * are none, something is wrong or the ring is backward (peek tells); and done with the first n of them, whole records of which none
 * tells of losses. */
size_t pf_ring_span(struct pf_ring *r, const unsigned char **bytes);
void pf_ring_skip(struct pf_ring *r, size_t n);

/* Release the record before, peek and parse. Returns 1 with out and *bytes, 0 when there is none, -EBADMSG for a damaged
 * one, after which the next call goes on. Types that this module does not know have PF_HAS_OTHER. */
int pf_ring_next(struct pf_ring *r, struct pf_record *out, const unsigned char **bytes);

/* Whole records, as they are, into dst: as many as are there and fit, up to damage if there is any. Returns the bytes, or
 * -EBADMSG as peek does when damage comes first. */
ptrdiff_t pf_ring_drain(struct pf_ring *r, unsigned char *dst, size_t room);

/* aux data that an AUX record told of. aux_copy: -ENODATA when it is not (or no longer) there. aux_release gives the
 * place up to end back to the kernel. */
int pf_ring_aux_copy(const struct pf_ring *r, uint64_t offset, size_t size, unsigned char *dst);
void pf_ring_aux_release(struct pf_ring *r, uint64_t end);

#endif

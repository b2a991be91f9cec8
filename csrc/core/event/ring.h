/* The ring buffer for an event's records, mapped from the event's descriptor.
 *
 *     [ header page | data: a power of two pages | aux: a power of two pages ]
 *
 * data_head and data_tail count bytes and never wrap; the position in the data area is the count modulo its size.
 *
 * Forward: the kernel moves head (we read it with acquire). The reader moves tail (written with release) when it no longer needs
 * a record's bytes. Records that do not fit in the free space are lost.
 *
 * Backward (write_backward, mapped read-only): the kernel moves head down and overwrites the oldest records. The reader takes a
 * snapshot, with the output paused while it copies. A snapshot begins with the newest record and ends where the previous snapshot
 * began.
 *
 * Only one reader at a time. A record is always returned in one piece: one that wraps around the end is copied into scratch. */
#ifndef PF_RING_H
#define PF_RING_H

#include <stddef.h>

#include "core/record/record.h"

struct pf_ring {
	unsigned char *map; /* NULL = not mapped */
	unsigned char *data, *aux;
	unsigned char *scratch; /* PF_RECORD_MAX_SIZE bytes; backward: the snapshot, as large as data */
	size_t map_size, data_size, aux_size;
	uint64_t head, tail;    /* forward: as last read and last written. Backward: the snapshot's end and next record, as offsets */
	uint64_t seen;          /* backward: the head at the last snapshot */
	uint32_t current;       /* bytes of the record handed out and not yet released */
	uint8_t backward, paused;
	int fd;
	uint32_t generation;         /* pf_fork_generation at the mapping */
	uint64_t lost, lost_samples; /* sums of the LOST and LOST_SAMPLES records */
	uint64_t damaged;            /* bytes that were dropped because they hold no valid record */
	const struct pf_layouts *layouts;
};

/* Map. pages and aux_pages are powers of two; aux_pages is 0 for none. Returns 0 or -errno: -EPERM if the user's allowance
 * (perf_event_mlock_kb, RLIMIT_MEMLOCK) is used up. */
int pf_ring_map(struct pf_ring *r, int fd, size_t pages, size_t aux_pages, int backward);

/* Whether it was mapped before a fork, by the parent. The child does not have the mapping and must not access it. */
int pf_ring_inherited(const struct pf_ring *r);

/* Idempotent. */
void pf_ring_unmap(struct pf_ring *r);

/* Forward: the number of bytes that the kernel has written so far, of which `tail` were read. */
uint64_t pf_ring_head(const struct pf_ring *r);

/* Whether there is anything to read. */
int pf_ring_ready(struct pf_ring *r);

/* Get the bytes of the next record, 8-byte aligned and valid until pf_ring_release. Returns its size; 0 if there is none; -EBADMSG
 * if its length is not valid: all available bytes were dropped and counted, and the next call returns later records. Another peek
 * before the release returns the same record. */
int pf_ring_peek(struct pf_ring *r, const unsigned char **bytes);

/* Give the space of the peeked record back to the kernel. */
void pf_ring_release(struct pf_ring *r);

/* For loops that cannot afford a call per record. pf_ring_span returns the number of available bytes up to the end of the data
 * area, which are not checked; 0 if there are none, if the ring is damaged or if it is backward (pf_ring_peek then tells which).
 * pf_ring_skip gives the first n of them back; they must be whole records, none of them LOST or LOST_SAMPLES. */
size_t pf_ring_span(struct pf_ring *r, const unsigned char **bytes);
void pf_ring_skip(struct pf_ring *r, size_t n);

/* Release the previous record, then peek and parse the next. Returns 1 and sets out and *bytes; 0 if there is none; -EBADMSG for a
 * damaged record, which the next call skips. Records of unknown types have PF_HAS_OTHER. */
int pf_ring_next(struct pf_ring *r, struct pf_record *out, const unsigned char **bytes);

/* Copy whole records, unchanged, into dst: as many as are available and fit, up to the first damaged one. Returns the number of
 * bytes, or -EBADMSG, as peek does, if the first record is damaged. */
ptrdiff_t pf_ring_drain(struct pf_ring *r, unsigned char *dst, size_t room);

/* The aux data that an AUX record announced. aux_copy returns -ENODATA if the data is not, or no longer, in the area. aux_release
 * gives the space up to `end` back to the kernel. */
int pf_ring_aux_copy(const struct pf_ring *r, uint64_t offset, size_t size, unsigned char *dst);
void pf_ring_aux_release(struct pf_ring *r, uint64_t end);

#endif

/* Reads a perf.data file or stream: its header, its events, then one record after another, in constant memory. */
#ifndef PF_DATA_READ_H
#define PF_DATA_READ_H

#include <errno.h>

#include "core/data/events.h"
#include "core/data/format.h"
#include "core/data/source.h"

/* A decompressor. The caller provides it, so that the core needs no library. run reads up to *n bytes from in and writes up to
 * *room bytes to out; it sets both to the numbers that it used. Returns 0 or -errno. */
struct pf_inflate {
	int (*run)(struct pf_inflate *z, const unsigned char *in, size_t *n, unsigned char *out, size_t *room);
};

#define PF_DATA_WINDOW ((size_t)256 * 1024)

struct pf_data {
	struct pf_source src, plain; /* the file, and the unpacked contents of its compressed records */
	struct pf_data_header header;
	struct pf_data_events events;
	struct pf_inflate *inflate;
	unsigned char *memory; /* the windows of src and plain, and room for a record that is moved to be aligned */
	size_t window;         /* size of each window, at least PF_RECORD_MAX; if 0, pf_data_open sets PF_DATA_WINDOW */
	unsigned version;      /* the version in the magic: 1 or 2 */
	int swapped, pipe;
	int unfinished;      /* the recorder did not write the size of the data: it ends where the file ends */
	int stopped;         /* no more records can be read */
	int no_inflate;      /* there is no decompressor: skip compressed records */
	uint64_t end;        /* offset of the end of the data */
	uint64_t payload;    /* unread bytes that belong to the last record */
	size_t packed, packed_at; /* the compressed record at the front of src: the number and place of unread bytes */
	uint64_t packed_offset;
	int more;            /* the decompressor filled its room: it may have more output without more input */
	uint64_t skipped;    /* records of unknown types, and compressed ones without a decompressor */
	uint32_t skipped_type;
	uint64_t lost, lost_samples; /* sums of the records of these types that were read */
	const char *why; /* the reason of the last error */
	uint64_t where;  /* its offset in the file */
};

struct pf_data_record {
	unsigned char *bytes; /* a whole record in this machine's order, aligned to 8; valid until the next call */
	uint32_t type, size;
	uint64_t offset; /* in the file; for an unpacked record, that of the compressed one */
	const struct pf_layout *layout;
};

/* d must be zero except for window. The caller owns fd. Returns 0, -EBADMSG and d->why, or -errno. Call pf_data_close in any
 * case, which frees the windows. */
int pf_data_open(struct pf_data *d, int fd);
void pf_data_close(struct pf_data *d);

/* Sets the reason and the offset of an error. */
static inline int pf_data_bad(struct pf_data *d, uint64_t where, const char *why)
{
	d->why = why;
	d->where = where;
	return -EBADMSG;
}

enum { PF_DATA_NEEDS_INFLATE = 2 };

/* The next record. Returns 1, 0 at the end, PF_DATA_NEEDS_INFLATE, -EBADMSG with d->why and d->where for a damaged record, or
 * -errno. After an error, the next call reads the record behind the damage, or returns 0 if that cannot be found. After
 * PF_DATA_NEEDS_INFLATE, which a compressed record causes, set d->inflate or d->no_inflate and call again. */
int pf_data_next(struct pf_data *d, struct pf_data_record *r);

/* Up to n bytes of the data that follows the last record (auxtrace, header_tracing_data). Returns the number of bytes, 0 at the end,
 * or -errno. pf_data_next skips the rest of the data. */
ssize_t pf_data_payload(struct pf_data *d, void *out, size_t n);

/* The section of a feature, by its bit number. Returns 1, 0 if the file has no such section (a pipe has none), or -errno. */
int pf_data_feature(const struct pf_data *d, unsigned bit, struct pf_section *out);

#endif

/* Reading a perf.data file or stream: header, events, then one record after another in constant memory. */
#ifndef PF_DATA_READ_H
#define PF_DATA_READ_H

#include <errno.h>

#include "core/data/events.h"
#include "core/data/format.h"
#include "core/data/source.h"

/* What undoes compression, made elsewhere (this core needs no library for it). run takes up to *n bytes from in and
 * makes up to *room bytes at out; both then say how many. Returns 0 or -errno. */
struct pf_inflate {
	int (*run)(struct pf_inflate *z, const unsigned char *in, size_t *n, unsigned char *out, size_t *room);
};

#define PF_DATA_WINDOW ((size_t)256 * 1024)

struct pf_data {
	struct pf_source src, plain; /* the file, and what compressed records of it held */
	struct pf_data_header header;
	struct pf_data_events events;
	struct pf_inflate *inflate;
	unsigned char *memory; /* the windows of src and plain, a record's own place */
	size_t window;         /* of each; 0 before opening: PF_DATA_WINDOW. At least PF_RECORD_MAX */
	unsigned version;      /* of the magic: 1 or 2 */
	int swapped, pipe;
	int unfinished;      /* the recorder did not write the size of the data: it goes on to the end of the file */
	int stopped;         /* nothing can be read after this */
	int no_inflate;      /* there is none: pass over compressed records */
	uint64_t end;        /* offset of the end of the data */
	uint64_t payload;    /* unread bytes that belong to the last record */
	size_t packed, packed_at; /* the compressed record at the front of src: unread bytes, and where they are */
	uint64_t packed_offset;
	int more;            /* the inflater filled its room: there may be more without more input */
	uint64_t skipped;    /* records of types that nobody knows, and compressed ones without inflater */
	uint32_t skipped_type;
	uint64_t lost, lost_samples; /* sums of the records of these types that were read */
	const char *why; /* what the last error was about */
	uint64_t where;  /* its offset in the file */
};

struct pf_data_record {
	unsigned char *bytes; /* a whole record in this machine's order, aligned to 8; until the next call */
	uint32_t type, size;
	uint64_t offset; /* in the file; of the compressed record that held it */
	const struct pf_layout *layout;
};

/* d is all zero, except window. The caller keeps fd. Allocates its windows. Returns 0, -EBADMSG with d->why, or -errno; call
 * pf_data_close in any case. */
int pf_data_open(struct pf_data *d, int fd);
void pf_data_close(struct pf_data *d);

/* What an error is about. */
static inline int pf_data_bad(struct pf_data *d, uint64_t where, const char *why)
{
	d->why = why;
	d->where = where;
	return -EBADMSG;
}

enum { PF_DATA_NEEDS_INFLATE = 2 };

/* The next record. Returns 1, 0 at the end, PF_DATA_NEEDS_INFLATE, or a negative number: -EBADMSG with d->why and d->where
 * for bytes that nobody writes, or -errno. After an error the next call goes on behind it; when that is not possible it
 * returns 0. PF_DATA_NEEDS_INFLATE: a compressed record comes next; set d->inflate or d->no_inflate and call again. */
int pf_data_next(struct pf_data *d, struct pf_data_record *r);

/* Up to n bytes of what follows the last record (auxtrace, header_tracing_data). Returns how many, 0 at its end, or
 * -errno. pf_data_next passes over what is left. */
ssize_t pf_data_payload(struct pf_data *d, void *out, size_t n);

/* The section of a feature (a bit number). Returns 1, 0 when the file has none, or -errno; with features == 0 in pipe mode. */
int pf_data_feature(const struct pf_data *d, unsigned bit, struct pf_section *out);

#endif

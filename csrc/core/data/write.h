/* Writes a perf.data file: events, then records, then features. The sizes and feature bits of the header are written last, so that
 * perf can read the records of a file whose writer died. */
#ifndef PF_DATA_WRITE_H
#define PF_DATA_WRITE_H

#include "core/data/format.h"

enum pf_writer_mode {
	PF_WRITER_REPLACE,  /* a file or symbolic link of that name is removed, and a new file made */
	PF_WRITER_EXCL,     /* -EEXIST when there is one */
	PF_WRITER_OVERWRITE /* like > of a shell: follows links, keeps the owner and permissions of the file */
};

struct pf_writer {
	int fd;
	int regular;      /* a regular file, not a device */
	int error;        /* the first error; every later call returns it */
	uint64_t offset;  /* the offset in the file of the next byte, after those in the buffer */
	uint64_t records; /* written */
	uint64_t owed;    /* bytes of data that must still follow the last record */
	size_t used;
	struct pf_data_header header;
	unsigned char *buf;
	uint32_t generation; /* pf_fork_generation at the opening: the child of a fork closes it and writes nothing */
};

struct pf_writer_event {
	const struct pf_attr *attr;
	const uint64_t *ids;
	uint32_t nids;
};

/* Makes the file. Only its owner can read a new one, since a recording may hold confidential data. w->fd is -1 on failure.
 * Returns 0 or -errno; -ESPIPE for a pipe or socket. */
int pf_writer_open(struct pf_writer *w, const char *path, enum pf_writer_mode mode);

/* Writes the header, the ids and the attrs. */
int pf_writer_begin(struct pf_writer *w, const struct pf_writer_event *events, uint32_t n);

/* Writes a whole record in native order. Returns -EINVAL if the size in its header is not n, or not a multiple of 8. */
int pf_writer_record(struct pf_writer *w, const void *record, size_t n);

/* Writes data that follows an auxtrace record. Returns -EINVAL for more bytes than the record announced. */
int pf_writer_payload(struct pf_writer *w, const void *bytes, size_t n);

struct pf_writer_feature {
	unsigned bit;
	const void *bytes;
	size_t n;
};

/* Ends the data, and writes the features, which are in ascending order of their bits, and the header. */
int pf_writer_finish(struct pf_writer *w, const struct pf_writer_feature *features, unsigned n);

/* Closes the file, which is left unfinished without pf_writer_finish. Idempotent. Returns 0 or the first error. */
int pf_writer_close(struct pf_writer *w);

#endif

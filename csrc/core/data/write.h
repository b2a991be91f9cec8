/* Writing a perf.data file: events first, then records, then features; the header's sizes and feature bits last, so that a
 * file whose writer died is one that perf can read up to there. */
#ifndef PF_DATA_WRITE_H
#define PF_DATA_WRITE_H

#include "core/data/format.h"

enum pf_writer_mode {
	PF_WRITER_REPLACE,  /* a file or symbolic link of that name is removed, and a new file made */
	PF_WRITER_EXCL,     /* -EEXIST when there is one */
	PF_WRITER_OVERWRITE /* as a shell's > does: follows links, keeps the file's owner and permissions */
};

struct pf_writer {
	int fd;
	int regular;      /* a file, and no device */
	int error;        /* the first that happened: every later call returns it */
	uint64_t offset;  /* where the next byte goes, what is buffered counted in */
	uint64_t records; /* written */
	uint64_t owed;    /* bytes that are to follow the last record */
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

/* Make the file. A new one is the owner's alone to read (what runs on a machine is nobody else's). w->fd is -1 on failure.
 * Returns 0 or -errno; -ESPIPE for what has no offsets. */
int pf_writer_open(struct pf_writer *w, const char *path, enum pf_writer_mode mode);

/* The front of the file. */
int pf_writer_begin(struct pf_writer *w, const struct pf_writer_event *events, uint32_t n);

/* One whole record in native order, -EINVAL when its header says another size than n or one that is no multiple of 8. */
int pf_writer_record(struct pf_writer *w, const void *record, size_t n);

/* What follows an auxtrace record. -EINVAL for more than it said. */
int pf_writer_payload(struct pf_writer *w, const void *bytes, size_t n);

struct pf_writer_feature {
	unsigned bit;
	const void *bytes;
	size_t n;
};

/* The end of the data, the features in ascending order of their bits, and the header. */
int pf_writer_finish(struct pf_writer *w, const struct pf_writer_feature *features, unsigned n);

/* Idempotent; without pf_writer_finish the file is one that was never finished. Returns 0 or the first error. */
int pf_writer_close(struct pf_writer *w);

#endif

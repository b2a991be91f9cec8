/* Reads a descriptor through a window of fixed size. The bytes in the window can be used and changed in place. */
#ifndef PF_DATA_SOURCE_H
#define PF_DATA_SOURCE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct pf_source {
	int fd;
	int seekable;       /* a regular file: its size is known, and any part can be read again */
	uint64_t size;      /* the file's size; UINT64_MAX for a pipe */
	unsigned char *buf; /* cap bytes */
	size_t cap;
	size_t at, end;  /* the unread bytes of the window */
	uint64_t offset; /* in the file, of buf + at */
};

/* buf belongs to the caller. Returns 0 or -errno. */
int pf_source_init(struct pf_source *s, int fd, unsigned char *buf, size_t cap);

/* Continues at this offset; a pipe can only go forward. Returns 0, -ESPIPE, -ENODATA past the end, or -errno. */
int pf_source_seek(struct pf_source *s, uint64_t offset);

/* Reads until n <= cap bytes are in the window. Returns n, fewer only at the end, or -errno. */
ssize_t pf_source_need(struct pf_source *s, size_t n);

/* The unread bytes of the window. */
static inline unsigned char *pf_source_bytes(const struct pf_source *s)
{
	return s->buf + s->at;
}

static inline void pf_source_skip(struct pf_source *s, size_t n)
{
	s->at += n;
	s->offset += n;
}

/* Copies n bytes at offset of a seekable source without the window. Returns the number of bytes, fewer at the end, or -errno. */
ssize_t pf_source_copy(const struct pf_source *s, uint64_t offset, void *out, size_t n);

#endif

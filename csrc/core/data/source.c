/* A regular file is read with pread, so the position of its descriptor does not matter; a pipe is read with read. Files are not
 * mapped: if another process truncates a file, reading returns fewer bytes, but a mapping would cause SIGBUS. */
#include "core/data/source.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/sys.h"

int pf_source_init(struct pf_source *s, int fd, unsigned char *buf, size_t cap)
{
	struct stat st;
	int r = pf_sys->fstat(fd, &st);

	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	*s = (struct pf_source){.fd = fd, .buf = buf, .cap = cap, .size = UINT64_MAX};
	if (S_ISREG(st.st_mode)) {
		s->seekable = 1;
		s->size = (uint64_t)st.st_size;
	}
	return 0;
}

static ssize_t read_some(const struct pf_source *s, uint64_t offset, void *out, size_t n)
{
	ssize_t got;

	do {
		got = s->seekable ? pf_sys->pread(s->fd, out, n, (off_t)offset) : pf_sys->read(s->fd, out, n);
	} while (got == -EINTR);
	return got;
}

int pf_source_seek(struct pf_source *s, uint64_t offset)
{
	if (offset >= s->offset && offset - s->offset <= s->end - s->at) {
		pf_source_skip(s, (size_t)(offset - s->offset));
		return 0;
	}
	if (s->seekable) {
		if (offset > INT64_MAX)
			return -ENODATA;
		s->at = s->end = 0;
		s->offset = offset;
		return 0;
	}
	if (offset < s->offset)
		return -ESPIPE;
	while (s->offset < offset) {
		uint64_t left = offset - s->offset;
		ssize_t n = pf_source_need(s, left < s->cap ? (size_t)left : s->cap);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return -ENODATA;
		pf_source_skip(s, (size_t)n);
	}
	return 0;
}

ssize_t pf_source_need(struct pf_source *s, size_t n)
{
	if (s->end - s->at >= n)
		return (ssize_t)n;
	if (n > s->cap)
		return -EINVAL;
	if (s->at > 0) {
		memmove(s->buf, s->buf + s->at, s->end - s->at);
		s->end -= s->at;
		s->at = 0;
	}
	while (s->end < n) {
		ssize_t got = read_some(s, s->offset + s->end, s->buf + s->end, s->cap - s->end);

		if (got < 0)
			return got;
		if (got == 0)
			return (ssize_t)s->end;
		s->end += (size_t)got;
	}
	return (ssize_t)n;
}

ssize_t pf_source_copy(const struct pf_source *s, uint64_t offset, void *out, size_t n)
{
	size_t have = 0;

	if (!s->seekable)
		return -ESPIPE;
	if (offset > (uint64_t)INT64_MAX - n)
		return 0;
	while (have < n) {
		ssize_t got = read_some(s, offset + have, (char *)out + have, n - have);

		if (got < 0)
			return got;
		if (got == 0)
			break;
		have += (size_t)got;
	}
	return (ssize_t)have;
}

/* All output goes through one buffer; short writes are continued. Unless overwriting is requested, the file is never opened through
 * a symbolic link, which another user may have put there: the old name is removed and the new file is made with O_EXCL. Devices
 * such as /dev/null are opened as they are. */
#include "core/data/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/kernel/attr.h"
#include "core/base/file.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

#define BUFFER ((size_t)128 * 1024)

static int failed(struct pf_writer *w, int err)
{
	if (w->error == 0)
		w->error = err;
	return w->error;
}

static int make(const char *path, enum pf_writer_mode mode)
{
	const int flags = O_WRONLY | O_NOCTTY, own = S_IRUSR | S_IWUSR;
	struct stat st;
	int fd, r;

	if (mode == PF_WRITER_OVERWRITE)
		return pf_sys->open(path, flags | O_CREAT | O_TRUNC, own);
	fd = pf_sys->open(path, flags | O_CREAT | O_EXCL, own);
	if (fd != -EEXIST || mode == PF_WRITER_EXCL)
		return fd;
	/* A device is opened, anything else is replaced. With O_NONBLOCK this does not wait for the reader of a fifo. */
	fd = pf_sys->open(path, flags | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd >= 0) {
		r = pf_sys->fstat(fd, &st);
		if (r == 0 && !S_ISREG(st.st_mode))
			return fd;
		pf_sys->close(fd);
		if (r < 0)
			return r;
	} else if (fd == -EISDIR || fd == -ENXIO) {
		return fd;
	}
	r = pf_sys->unlink(path);
	if (r < 0 && r != -ENOENT)
		return r;
	return pf_sys->open(path, flags | O_CREAT | O_EXCL, own);
}

int pf_writer_open(struct pf_writer *w, const char *path, enum pf_writer_mode mode)
{
	struct stat st;
	int r;

	memset(w, 0, sizeof *w);
	w->fd = -1;
	w->generation = pf_fork_generation();
	w->buf = malloc(BUFFER);
	if (!w->buf)
		return failed(w, -ENOMEM);
	r = make(path, mode);
	if (r < 0)
		return failed(w, r);
	w->fd = r;
	r = pf_sys->fstat(w->fd, &st);
	w->regular = r == 0 && S_ISREG(st.st_mode);
	if (r == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		r = -ESPIPE;
	return r < 0 ? failed(w, r) : 0;
}

static int flush(struct pf_writer *w)
{
	if (w->error == 0)
		w->error = pf_write_all(w->fd, w->buf, w->used, -1);
	w->used = 0;
	return w->error;
}

static int put(struct pf_writer *w, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	w->offset += n;
	while (n > 0 && w->error == 0) {
		size_t part = n < BUFFER - w->used ? n : BUFFER - w->used;

		memcpy(w->buf + w->used, p, part);
		w->used += part;
		p += part;
		n -= part;
		if (w->used == BUFFER)
			flush(w);
	}
	return w->error;
}

int pf_writer_begin(struct pf_writer *w, const struct pf_writer_event *events, uint32_t n)
{
	static const uint64_t magic = UINT64_C(0x32454c4946524550); /* "PERFILE2" in this machine's order */
	struct pf_section ids = {sizeof w->header, 0};
	struct pf_data_header *h = &w->header;
	uint32_t size = PF_ATTR_SIZE_VER0;

	memcpy(h->magic, &magic, sizeof h->magic);
	h->size = sizeof *h;
	/* The smallest attr that has all fields that are set: an older perf refuses an attr that is larger than its own. */
	for (uint32_t i = 0; i < n; i++)
		if (pf_attr_size(events[i].attr) > size)
			size = pf_attr_size(events[i].attr);
	h->attr_size = size + sizeof ids;
	h->attrs.offset = sizeof *h;
	for (uint32_t i = 0; i < n; i++)
		h->attrs.offset += events[i].nids * sizeof *events[i].ids;
	h->attrs.size = n * h->attr_size;
	h->data.offset = h->attrs.offset + h->attrs.size;

	put(w, h, sizeof *h);
	for (uint32_t i = 0; i < n; i++)
		put(w, events[i].ids, events[i].nids * sizeof *events[i].ids);
	for (uint32_t i = 0; i < n; i++) {
		struct pf_attr a = *events[i].attr;

		a.size = size; /* readers look for the ids behind it */
		ids.size = events[i].nids * sizeof *events[i].ids;
		put(w, &a, size);
		put(w, &ids, sizeof ids);
		ids.offset += ids.size;
	}
	return w->error;
}

int pf_writer_record(struct pf_writer *w, const void *record, size_t n)
{
	struct pf_header h;

	if (n < sizeof h || w->owed > 0)
		return -EINVAL;
	memcpy(&h, record, sizeof h);
	if (h.size != n || n % 8 != 0)
		return -EINVAL;
	if (h.type == PF_USER_AUXTRACE && n >= 16)
		memcpy(&w->owed, (const unsigned char *)record + 8, sizeof w->owed);
	w->records++;
	return put(w, record, n);
}

int pf_writer_payload(struct pf_writer *w, const void *bytes, size_t n)
{
	if (n > w->owed)
		return -EINVAL;
	w->owed -= n;
	return put(w, bytes, n);
}

int pf_writer_finish(struct pf_writer *w, const struct pf_writer_feature *features, unsigned n)
{
	struct pf_data_header *h = &w->header;
	struct pf_section s;

	h->data.size = w->offset - h->data.offset;
	s.offset = w->offset + n * sizeof s;
	for (unsigned i = 0; i < n; i++) {
		s.size = features[i].n;
		put(w, &s, sizeof s);
		s.offset += s.size;
		h->features[features[i].bit / 64] |= PF_BIT(features[i].bit % 64);
	}
	for (unsigned i = 0; i < n; i++)
		put(w, features[i].bytes, features[i].n);
	flush(w);
	if (w->error == 0)
		w->error = pf_write_all(w->fd, h, sizeof *h, 0);
	return w->error;
}

int pf_writer_close(struct pf_writer *w)
{
	int r = 0;

	if (w->fd >= 0) {
		if (!pf_inherited(w->generation)) /* after a fork, only the parent writes the buffer */
			flush(w);
		r = pf_sys->close(w->fd); /* a network file system may report a full disk only here */
		if (w->error)
			r = w->error;
	}
	w->fd = -1;
	free(w->buf);
	w->buf = NULL;
	w->used = 0;
	failed(w, -EBADF);
	return r;
}

/* The temporary file is made with O_EXCL in the directory of the path, so that the move stays within one file system and no link
 * of another user is followed; a symbolic link at the path itself is replaced. Devices, pipes and terminals are written to
 * directly, and so is a descriptor by name (/dev/stdout). A file that may not be written is not replaced either. */
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/sys.h"
#include "core/base/thread.h"

#define TRIES 100
#define ROOM 64 /* for the temporary's own name */

/* Whether the path names a descriptor of this process: a link that must not be replaced, whatever its target. */
static int is_descriptor(const char *path)
{
	static const char *const names[] = {"/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(path, names[i], strlen(names[i])) == 0)
			return 1;
	return 0;
}

/* Opens an existing path that is not a regular file, or a descriptor by name. 0: no such path, or a regular file; *mode has its
 * mode. */
static int open_special(const char *path, int *mode)
{
	struct stat st;
	int flags = is_descriptor(path) ? O_APPEND : 0;
	int fd = pf_sys->open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | flags, 0), r, regular;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	r = pf_sys->fstat(fd, &st);
	regular = r == 0 && S_ISREG(st.st_mode) && !flags;
	if (r == 0 && !regular) {
		r = pf_sys->fcntl(fd, F_GETFL, 0);
		if (r >= 0)
			r = pf_sys->fcntl(fd, F_SETFL, r & ~O_NONBLOCK);
		if (r >= 0)
			return fd;
	}
	pf_sys->close(fd);
	if (r < 0)
		return r;
	*mode = st.st_mode & 0777;
	return 0;
}

static int open_temp(struct pf_output *o, int mode)
{
	static atomic_uint count;
	const char *slash = strrchr(o->path, '/');
	size_t dir = slash ? (size_t)(slash - o->path) + 1 : 0;

	o->temp = malloc(dir + ROOM);
	if (!o->temp)
		return -ENOMEM;
	memcpy(o->temp, o->path, dir);
	for (int i = 0; i < TRIES; i++) {
		int fd;

		snprintf(o->temp + dir, ROOM, ".lua-perf.%ld.%u.tmp", (long)getpid(), atomic_fetch_add(&count, 1));
		fd = pf_sys->open(o->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOCTTY | O_NOFOLLOW, mode);
		if (fd != -EEXIST)
			return fd;
	}
	return -EEXIST;
}

int pf_output_open(struct pf_output *o, const char *path)
{
	size_t size = strlen(path) + 1;
	int mode = 0666, r;

	*o = (struct pf_output){.fd = -1, .generation = pf_fork_generation()};
	if (size == 1)
		return -ENOENT;
	o->path = malloc(size);
	if (!o->path)
		return -ENOMEM;
	memcpy(o->path, path, size);
	r = open_special(path, &mode);
	if (r == 0) {
		r = open_temp(o, mode);
		if (r < 0) {
			free(o->temp); /* the file was not made, so pf_output_close must not remove it */
			o->temp = NULL;
		}
	}
	if (r < 0) {
		pf_output_close(o);
		return r;
	}
	o->fd = r;
	return 0;
}

int pf_write_all(int fd, const void *bytes, size_t size, off_t at)
{
	for (size_t done = 0; done < size;) {
		const char *p = (const char *)bytes + done;
		ssize_t n = at < 0 ? pf_sys->write(fd, p, size - done) : pf_sys->pwrite(fd, p, size - done, at + (off_t)done);

		if (n > 0)
			done += (size_t)n;
		else if (n != -EINTR)
			return n < 0 ? (int)n : -EIO;
	}
	return 0;
}

int pf_output_write(struct pf_output *o, const void *bytes, size_t size)
{
	if (o->error == 0)
		o->error = pf_write_all(o->fd, bytes, size, -1);
	return o->error;
}

int pf_output_commit(struct pf_output *o)
{
	int r = o->error, closed = pf_sys->close(o->fd);

	o->fd = -1;
	if (r == 0)
		r = closed;
	if (r == 0 && o->temp) {
		r = pf_sys->rename(o->temp, o->path);
		if (r == 0) {
			free(o->temp);
			o->temp = NULL;
		}
	}
	pf_output_close(o);
	return r;
}

void pf_output_close(struct pf_output *o)
{
	if (o->fd >= 0)
		pf_sys->close(o->fd);
	o->fd = -1;
	if (o->temp && !pf_inherited(o->generation))
		pf_sys->unlink(o->temp);
	free(o->temp);
	free(o->path);
	o->temp = o->path = NULL;
}

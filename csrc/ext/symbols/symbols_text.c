/* Reading whole files.
 *
 * A file such as /tmp/perf-PID.map is in a directory that everyone may write to. It is read only if it belongs to the process's
 * user or to root, never through a symbolic link, and without waiting. */
#include "ext/symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((off_t)256 << 20)

int px_read_all(int fd, char **out, size_t *size)
{
	size_t room = (size_t)1 << 20, n = 0;
	char *text = malloc(room);

	for (;;) {
		ssize_t got;

		if (text && n + 1 == room) {
			char *more = room < (size_t)MOST_BYTES ? realloc(text, room * 2) : NULL;

			if (!more)
				free(text);
			text = more;
			room *= 2;
		}
		if (!text)
			return room > (size_t)MOST_BYTES ? -EFBIG : -ENOMEM;
		got = read(fd, text + n, room - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			int err = -errno;

			free(text);
			return err;
		}
		if (got == 0) {
			text[n] = '\0';
			*out = text;
			*size = n;
			return 0;
		}
		n += (size_t)got;
	}
}

/* ext.read_owned(path, uid): the text of a regular file that belongs to that user or root and that others may not write; or nil,
 * message, code */
int px_read_owned(lua_State *L)
{
	const char *path = px_check_cstring(L, 1);
	uid_t uid = (uid_t)pb_check_u64(L, 2, UINT32_MAX);
	struct pb_owned *owned = pb_owner(L, free);
	char *text = NULL;
	size_t n = 0;
	struct stat st;
	int fd = px_open_regular(path, O_NOFOLLOW), r = fd;

	if (fd >= 0) {
		if (fstat(fd, &st) < 0)
			r = -errno;
		else if ((st.st_uid != uid && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
			r = -EPERM;
		else
			r = st.st_size > MOST_BYTES ? -EFBIG : px_read_all(fd, &text, &n);
		close(fd);
	}
	if (r == -EINVAL || r == -EISDIR)
		return pb_refuse(L, -EINVAL, "%s: not a regular file", path);
	if (r == -EPERM)
		return pb_refuse(L, r, "%s: users other than uid %u may have written it", path, (unsigned)uid);
	if (r < 0)
		return pb_fail(L, r, "%s", path);
	owned->p = text;
	lua_pushlstring(L, text, n);
	pb_release(owned);
	return 1;
}

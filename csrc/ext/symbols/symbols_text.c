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

#define HOLDER "perf.symbols.Holder"
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

/* Owns the descriptor, so that Lua's collector closes it if there is no memory for the text. */
struct holder {
	int fd;
};

static int l_close(lua_State *L)
{
	struct holder *h = pb_check(L, 1, HOLDER, "Holder");

	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	return 0;
}

/* ext.read_owned(path, uid): the text of a regular file that belongs to that user or root and that others may not write; or nil,
 * message, code */
int px_read_owned(lua_State *L)
{
	const char *path = px_check_cstring(L, 1);
	uid_t uid = (uid_t)pb_check_u64(L, 2, UINT32_MAX);
	struct holder *h = pb_new(L, sizeof *h, HOLDER);
	struct stat st;
	size_t n = 0, size;
	ssize_t got;
	char *text;

	h->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (h->fd < 0)
		return pb_fail(L, errno, "%s", path);
	if (fstat(h->fd, &st) < 0)
		return pb_fail(L, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return px_refuse(L, -EINVAL, "%s: not a regular file", path);
	if ((st.st_uid != uid && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return px_refuse(L, -EPERM, "%s: users other than uid %u may have written it", path, (unsigned)uid);
	if (st.st_size > MOST_BYTES)
		return pb_fail(L, -EFBIG, "%s", path);
	size = (size_t)st.st_size;
	text = lua_newuserdata(L, size + 1);
	while (n < size && (got = read(h->fd, text + n, size - n)) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return pb_fail(L, errno, "%s", path);
		n += (size_t)got;
	}
	close(h->fd);
	h->fd = -1;
	lua_pushlstring(L, text, n);
	return 1;
}

void px_open_text(lua_State *L)
{
	static const luaL_Reg methods[] = {{NULL, NULL}};

	px_class(L, HOLDER, methods, l_close);
}

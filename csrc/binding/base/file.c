/* Files. An Output is a file that appears under its name only when it is complete (core/base/file.h); its userdata is made first, so
 * that an error leaves no file behind. core.regular_file reads a file only if it is a regular one. */
#include "core/base/file.h"
#include "core/base/sys.h"
#include "core/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "binding/base/binding.h"

#define PB_OUTPUT "perf.Output"

static struct pf_output *check_output(lua_State *L)
{
	return pb_check(L, 1, PB_OUTPUT, "Output");
}

static struct pf_output *check_open(lua_State *L)
{
	struct pf_output *o = check_output(L);

	luaL_argcheck(L, o->fd >= 0, 1, "Output is closed");
	if (pf_inherited(o->generation))
		pb_refuse_inherited(L, 1, "Output");
	return o;
}

/* core.output(path): an Output; or nil, message, code. */
static int l_output(lua_State *L)
{
	const char *path = pb_check_path(L, 1);
	struct pf_output *o = pb_new(L, sizeof *o, PB_OUTPUT);
	int r;

	o->fd = -1;
	r = pf_output_open(o, path);
	return r < 0 ? pb_fail(L, r, "%s", path) : 1;
}

/* output:write(bytes, ...): true, or nil, message, code. */
static int l_write(lua_State *L)
{
	struct pf_output *o = check_open(L);
	int n = lua_gettop(L);

	for (int i = 2; i <= n; i++) {
		size_t size;
		const char *bytes = luaL_checklstring(L, i, &size);
		int r = pf_output_write(o, bytes, size);

		if (r < 0)
			return pb_fail(L, r, "%s", o->path);
	}
	return pb_bool(L, 1);
}

/* output:commit(): true; or nil, message, code, and nothing of the file remains. */
static int l_commit(lua_State *L)
{
	struct pf_output *o = check_open(L);
	int r;

	lua_pushstring(L, o->path);
	r = pf_output_commit(o);
	return r < 0 ? pb_fail(L, r, "%s", lua_tostring(L, -1)) : pb_result(L, 0, "");
}

/* output:place(): the path of the unfinished file, for other code to write to. */
static int l_place(lua_State *L)
{
	struct pf_output *o = check_open(L);

	return pb_text(L, o->temp ? o->temp : o->path);
}

static int l_close(lua_State *L)
{
	pf_output_close(check_output(L));
	return 0;
}

/* core.is_terminal(fd). os.execute "test -t 2" would ignore SIGINT while it runs. */
static int l_is_terminal(lua_State *L)
{
	return pb_bool(L, isatty((int)luaL_checkinteger(L, 1)));
}

/* Read a regular file. Returns the number of bytes or -errno. To open a pipe would wait for its writer. */
static ssize_t read_regular(const char *path, char *to, size_t room)
{
	const int fd = pf_sys->open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;
	ssize_t n = 0, r;

	if (fd < 0)
		return fd;
	r = pf_sys->fstat(fd, &st);
	if (r == 0 && !S_ISREG(st.st_mode))
		r = -EINVAL;
	while (r >= 0 && (size_t)n < room && (r = pf_sys->read(fd, to + n, room - (size_t)n)) > 0)
		n += r;
	pf_sys->close(fd);
	return r < 0 ? r : n;
}

/* core.regular_file(path, most): the first bytes, at most that many, of a file that another program has named, such as the source of
 * its code; nil if it cannot be read, or is a pipe or a device. */
static int l_regular_file(lua_State *L)
{
	const char *path = luaL_checkstring(L, 1);
	const uint64_t most = (uint64_t)luaL_checkinteger(L, 2);
	struct stat st;
	size_t room;
	ssize_t n;
	char *bytes;

	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return pb_nil(L);
	room = (uint64_t)st.st_size < most ? (size_t)st.st_size : (size_t)most;
	bytes = lua_newuserdata(L, room + 1);
	n = read_regular(path, bytes, room);
	return n < 0 ? pb_nil(L) : pb_bytes(L, bytes, (size_t)n);
}

void pb_open_output(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"output", l_output}, {"is_terminal", l_is_terminal}, {"regular_file", l_regular_file}, {NULL, NULL}};
	static const luaL_Reg methods[] = {
		{"write", l_write}, {"commit", l_commit}, {"place", l_place}, {"close", l_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_OUTPUT, methods, l_close);
}

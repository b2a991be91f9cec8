/* Msr: reads a CPU's model-specific registers through /dev/cpu/N/msr: 8 bytes at offset = register. */
#include <errno.h>
#include <fcntl.h>

#include "core/base/sys.h"
#include "binding/base/binding.h"

#define PB_MSR "perf.Msr"

struct msr {
	int fd; /* -1 when closed */
};

static struct msr *to_msr(lua_State *L, int i)
{
	return pb_check(L, i, PB_MSR, "Msr");
}

/* core.msr(path): Msr, or nil, message, code. */
static int l_open(lua_State *L)
{
	const char *path = pb_check_path(L, 1);
	struct msr *m = pb_newuserdata(L, sizeof *m);
	int fd;

	m->fd = -1;
	luaL_getmetatable(L, PB_MSR);
	lua_setmetatable(L, -2);
	fd = pf_sys->open(path, O_RDONLY, 0);
	if (fd < 0)
		return pb_fail(L, fd, "%s", path);
	m->fd = fd;
	return 1;
}

static int l_close(lua_State *L)
{
	struct msr *m = to_msr(L, 1);
	int fd = m->fd;

	m->fd = -1;
	if (fd >= 0)
		pf_sys->close(fd);
	return 0;
}

/* msr:read(register): its 64 bits. */
static int l_read(lua_State *L)
{
	struct msr *m = to_msr(L, 1);
	uint64_t reg = pb_check_u64(L, 2, UINT32_MAX), v;
	ssize_t n;

	luaL_argcheck(L, m->fd >= 0, 1, "Msr is closed");
	n = pf_sys->pread(m->fd, &v, sizeof v, (off_t)reg);
	if (n != sizeof v)
		return pb_fail(L, n < 0 ? (int)n : -EIO, "MSR 0x%llx", (unsigned long long)reg);
	return pb_u64(L, v);
}

static int l_fd(lua_State *L)
{
	struct msr *m = to_msr(L, 1);

	luaL_argcheck(L, m->fd >= 0, 1, "Msr is closed");
	return pb_int(L, m->fd);
}

void pb_open_msr(lua_State *L)
{
	static const luaL_Reg methods[] = {{"read", l_read}, {"fd", l_fd}, {"close", l_close}, {NULL, NULL}};

	pb_set_function(L, "msr", l_open);
	pb_class(L, PB_MSR, methods, l_close);
	lua_setfield(L, -2, "Msr");
}

/* Facts about the machine that Lua's own library lacks: directories, identity, limits. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/sys.h"
#include "binding/base/binding.h"

#define PB_HANDLE "perf.Handle"

static void close_directory(void *dir)
{
	closedir(dir);
}

/* core.listdir(path): array of names without . and .., unsorted; or nil, message, code. */
static int l_listdir(lua_State *L)
{
	const char *path = pb_check_path(L, 1);
	struct pb_owned *dir = pb_owner(L, close_directory);
	struct dirent *e;
	int n = 0;

	lua_newtable(L);
	dir->p = opendir(path);
	if (!dir->p)
		return pb_fail(L, errno, "%s", path);
	while ((e = readdir(dir->p))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		lua_pushstring(L, e->d_name);
		lua_rawseti(L, -2, ++n);
	}
	pb_release(dir);
	return 1;
}

/* Handle: a descriptor that is open for reading: of a directory (a cgroup's), or of a CPU's model-specific registers. */
static int *check_handle(lua_State *L)
{
	return pb_check(L, 1, PB_HANDLE, "Handle");
}

static int l_close(lua_State *L)
{
	int *fd = check_handle(L);

	if (*fd >= 0)
		pf_sys->close(*fd);
	*fd = -1;
	return 0;
}

static int l_fd(lua_State *L)
{
	const int *fd = check_handle(L);

	luaL_argcheck(L, *fd >= 0, 1, "Handle is closed");
	return pb_int(L, *fd);
}

/* handle:read(register): its 64 bits. The file has 8 bytes at the offset of each register's number. */
static int l_read(lua_State *L)
{
	const int *fd = check_handle(L);
	uint64_t reg = pb_check_u64(L, 2, UINT32_MAX), v;
	ssize_t n;

	luaL_argcheck(L, *fd >= 0, 1, "Msr is closed");
	n = pf_sys->pread(*fd, &v, sizeof v, (off_t)reg);
	if (n != sizeof v)
		return pb_fail(L, n < 0 ? (int)n : -EIO, "MSR 0x%llx", (unsigned long long)reg);
	return pb_u64(L, v);
}

static int open_handle(lua_State *L, int flags)
{
	const char *path = pb_check_path(L, 1);
	int *fd = pb_new(L, sizeof *fd, PB_HANDLE);

	*fd = pf_sys->open(path, O_RDONLY | flags, 0);
	return *fd < 0 ? pb_fail(L, *fd, "%s", path) : 1;
}

/* core.opendir(path), core.msr(path): a Handle; or nil, message, code. */
static int l_opendir(lua_State *L)
{
	return open_handle(L, O_DIRECTORY);
}

static int l_msr(lua_State *L)
{
	return open_handle(L, 0);
}

static int l_euid(lua_State *L)
{
	return pb_int(L, (lua_Integer)geteuid());
}

static int l_pid(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)getpid());
	lua_pushinteger(L, (lua_Integer)syscall(SYS_gettid));
	return 2;
}

/* core.rlimit(name): soft and hard limit of "nofile" or "memlock"; math.huge if unlimited. */
static int l_rlimit(lua_State *L)
{
	static const char *const names[] = {"nofile", "memlock", NULL};
	static const int resources[] = {RLIMIT_NOFILE, RLIMIT_MEMLOCK};
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)resources[luaL_checkoption(L, 1, NULL, names)], &r) < 0)
		return pb_fail(L, errno, "getrlimit");
	lua_pushnumber(L, r.rlim_cur == RLIM_INFINITY ? (lua_Number)__builtin_inf() : (lua_Number)r.rlim_cur);
	lua_pushnumber(L, r.rlim_max == RLIM_INFINITY ? (lua_Number)__builtin_inf() : (lua_Number)r.rlim_max);
	return 2;
}

/* core.uname(): kernel release and machine. */
static int l_uname(lua_State *L)
{
	struct utsname u;

	if (uname(&u) < 0)
		return pb_fail(L, errno, "uname");
	lua_pushstring(L, u.release);
	lua_pushstring(L, u.machine);
	return 2;
}

/* core.cwd(): the current directory; or nil, message, code. */
static int l_cwd(lua_State *L)
{
	char dir[PATH_MAX];

	if (!getcwd(dir, sizeof dir))
		return pb_fail(L, -errno, "getcwd");
	return pb_text(L, dir);
}

static int l_page_size(lua_State *L)
{
	return pb_int(L, (lua_Integer)sysconf(_SC_PAGESIZE));
}

void pb_open_host(lua_State *L)
{
	static const luaL_Reg functions[] = {{"listdir", l_listdir}, {"euid", l_euid},   {"pid", l_pid},
					     {"rlimit", l_rlimit},   {"uname", l_uname}, {"page_size", l_page_size},
					     {"opendir", l_opendir}, {"msr", l_msr}, {"cwd", l_cwd},     {NULL, NULL}};
	static const luaL_Reg methods[] = {{"fd", l_fd}, {"read", l_read}, {"close", l_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_HANDLE, methods, l_close);
}

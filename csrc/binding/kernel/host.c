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

#define PB_DIRECTORY "perf.Directory"
#define PB_LISTING "perf.Listing"

struct directory {
	DIR *dir;
};

static int close_directory(lua_State *L)
{
	struct directory *d = pb_check(L, 1, PB_LISTING, "listing");

	if (d->dir)
		closedir(d->dir);
	d->dir = NULL;
	return 0;
}

/* core.listdir(path): array of names without . and .., unsorted; or nil, message, code. */
static int l_listdir(lua_State *L)
{
	const char *path = pb_check_path(L, 1);
	struct directory *d = pb_newuserdata(L, sizeof *d);
	struct dirent *e;
	int n = 0;

	d->dir = NULL;
	luaL_getmetatable(L, PB_LISTING);
	lua_setmetatable(L, -2);
	lua_newtable(L);
	d->dir = opendir(path);
	if (!d->dir)
		return pb_fail(L, errno, "%s", path);
	while ((e = readdir(d->dir))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		lua_pushstring(L, e->d_name);
		lua_rawseti(L, -2, ++n);
	}
	closedir(d->dir);
	d->dir = NULL;
	return 1;
}

/* core.opendir(path): an object that holds a descriptor of the directory (a cgroup's): :fd(), :close(). */
static int l_dir_close(lua_State *L)
{
	int *fd = pb_check(L, 1, PB_DIRECTORY, "Directory");

	if (*fd >= 0)
		pf_sys->close(*fd);
	*fd = -1;
	return 0;
}

static int l_dir_fd(lua_State *L)
{
	const int *fd = pb_check(L, 1, PB_DIRECTORY, "Directory");

	luaL_argcheck(L, *fd >= 0, 1, "Directory is closed");
	return pb_int(L, *fd);
}

static int l_opendir(lua_State *L)
{
	const char *path = pb_check_path(L, 1);
	int *fd = pb_newuserdata(L, sizeof *fd);

	*fd = -1;
	luaL_getmetatable(L, PB_DIRECTORY);
	lua_setmetatable(L, -2);
	*fd = pf_sys->open(path, O_RDONLY | O_DIRECTORY, 0);
	return *fd < 0 ? pb_fail(L, *fd, "%s", path) : 1;
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
					     {"opendir", l_opendir}, {"cwd", l_cwd},     {NULL, NULL}};
	static const luaL_Reg methods[] = {{"fd", l_dir_fd}, {"close", l_dir_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_class(L, PB_DIRECTORY, methods, l_dir_close);
	pb_class(L, PB_LISTING, (const luaL_Reg[]){{NULL, NULL}}, close_directory);
	lua_pop(L, 2);
}

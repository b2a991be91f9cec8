/* perf.ext.symbols: names for the addresses of a process, by elfutils' libdwfl.
 *
 * A Resolver first gets the modules (of a live process, of one file at its own addresses, or of the mappings in a recording), and
 * then resolves addresses. libdwfl reads a module's symbols and line tables at the first address in it.
 *
 * If $DEBUGINFOD_URLS names servers, libdwfl would ask them for missing debug information. Here it searches only this machine
 * unless the caller allows the network. */
#include "ext/symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/symbols/build_id.h"

static struct px_resolver *to_resolver(lua_State *L, int i)
{
	return pb_check(L, i, PX_RESOLVER, "Resolver");
}

struct px_resolver *px_check_resolver(lua_State *L, int i)
{
	struct px_resolver *r = to_resolver(L, i);

	luaL_argcheck(L, r->dwfl != NULL, i, "Resolver is closed");
	return r;
}

int px_open_regular(const char *path, int flags)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags), err = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		err = errno;
	else if (!S_ISREG(st.st_mode))
		err = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	if (err) {
		close(fd);
		return -err;
	}
	return fd;
}

int px_dwfl_fail(lua_State *L, const char *what)
{
	const char *why = dwfl_errmsg(-1);

	lua_pushnil(L);
	lua_pushfstring(L, "%s: %s", what, why ? why : "no reason given");
	lua_pushliteral(L, "ENOEXEC");
	return 3;
}

/* Open the file that a process has mapped at an address, though its name was deleted. The kernel lets root do so. */
static int open_mapped(int pid, Dwarf_Addr base)
{
	char path[64], line[4200];
	unsigned long from, to;
	int fd = -ENOENT;
	FILE *maps;

	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && fd == -ENOENT && fgets(line, sizeof line, maps))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from == base) {
			snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", pid, from, to);
			fd = px_open_regular(path, 0);
		}
	if (maps)
		fclose(maps);
	return fd;
}

/* A module of a process is in the process's file system, which may be a container's. */
static int find_elf(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base, char **file_name, Elf **elf)
{
	char path[4200];
	int pid = (int)(intptr_t)*userdata, fd;

	if (pid && name[0] == '/' && strlen(name) < 4096) {
		snprintf(path, sizeof path, "/proc/%d/root%s", pid, name);
		fd = px_open_regular(path, 0);
		if (fd < 0)
			fd = open_mapped(pid, base);
		if (fd >= 0) {
			*file_name = strdup(name);
			return fd;
		}
	}
	return dwfl_linux_proc_find_elf(mod, userdata, name, base, file_name, elf);
}

/* ext.resolver(network): a Resolver without modules; network lets libdwfl ask debuginfod servers */
static int l_resolver(lua_State *L)
{
	int network = lua_toboolean(L, 1);
	struct px_resolver *r = pb_new(L, sizeof *r, PX_RESOLVER);

	r->callbacks.find_elf = find_elf;
	r->callbacks.find_debuginfo = network ? dwfl_standard_find_debuginfo : dwfl_build_id_find_debuginfo;
	r->callbacks.section_address = dwfl_offline_section_address;
	r->callbacks.debuginfo_path = &r->debuginfo_path;
	r->dwfl = dwfl_begin(&r->callbacks);
	return r->dwfl ? 1 : px_dwfl_fail(L, "libdwfl");
}

static int l_close(lua_State *L)
{
	struct px_resolver *r = to_resolver(L, 1);
	Dwfl *dwfl = r->dwfl;

	r->dwfl = NULL;
	if (dwfl)
		dwfl_end(dwfl);
	return 0;
}

/* resolver:report_module(path, start, end, pid): between begin and finish, a file whose code a process has mapped; "[vdso: PID]" is read
 * from the process's memory. */
static int l_report_module(lua_State *L)
{
	struct px_resolver *r = px_check_resolver(L, 1);
	Dwfl_Module *mod = dwfl_report_module(r->dwfl, px_check_cstring(L, 2), px_check_addr(L, 3), px_check_addr(L, 4));
	void **userdata;

	if (!mod)
		return px_dwfl_fail(L, lua_tostring(L, 2));
	dwfl_module_info(mod, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
	*userdata = (void *)(intptr_t)pb_check_u64(L, 5, INT32_MAX);
	return pb_bool(L, 1);
}

/* resolver:report_path(path): one file, at its own addresses */
static int l_report_path(lua_State *L)
{
	struct px_resolver *r = px_check_resolver(L, 1);
	const char *path = px_check_cstring(L, 2);
	Dwfl_Module *mod;
	int fd = px_open_regular(path, 0);

	if (fd < 0)
		return pb_fail(L, fd, "%s", path);
	dwfl_report_begin(r->dwfl);
	mod = dwfl_report_elf(r->dwfl, path, path, fd, 0, true);
	if (!mod)
		close(fd);
	dwfl_report_end(r->dwfl, NULL, NULL);
	if (!mod)
		return px_dwfl_fail(L, path);
	return pb_bool(L, 1);
}

/* Whether a recording's build id is the file's. A record has room for 20 bytes, and holds the first ones of a longer id. */
static int is_build_id(const struct pf_build_id *id, const char *want, size_t n)
{
	return memcmp(want, id->bytes, n < id->size ? n : id->size) == 0 && (n == id->size || (n == 20 && n < id->size));
}

/* resolver:report_map(path, addr, pgoff, build_id or nil): between begin and finish, the file of one executable mapping */
static int l_report_map(lua_State *L)
{
	struct px_resolver *r = px_check_resolver(L, 1);
	const char *path = px_check_cstring(L, 2);
	uint64_t addr = px_check_addr(L, 3), pgoff = px_check_addr(L, 4), bias, first;
	size_t want_size;
	const char *want = luaL_optlstring(L, 5, "", &want_size);
	struct pf_build_id id = {.size = 0};
	int fd = px_open_regular(path, 0), err;

	if (fd < 0)
		return pb_fail(L, fd, "%s", path);
	if (want_size && (pf_build_id_of_fd(fd, &id) < 0 || !is_build_id(&id, want, want_size))) {
		close(fd);
		return pb_refuse(L, -ESTALE, "%s: its build id is not that of the mapped file", path);
	}
	err = px_load_bias(fd, addr, pgoff, &bias, &first);
	if (err < 0) {
		close(fd);
		return pb_refuse(L, err, "%s: no segment of this file matches the mapping", path);
	}
	if (!dwfl_report_elf(r->dwfl, path, path, fd, bias + first, false)) {
		close(fd);
		return px_dwfl_fail(L, path);
	}
	return pb_bool(L, 1);
}

/* resolver:begin(), resolver:finish(): before and after calls of report_map; modules that were not reported again are removed */
static int l_begin(lua_State *L)
{
	dwfl_report_begin(px_check_resolver(L, 1)->dwfl);
	return 0;
}

static int l_finish(lua_State *L)
{
	dwfl_report_end(px_check_resolver(L, 1)->dwfl, NULL, NULL);
	return 0;
}

static const char *file_of(Dwfl_Module *mod, Dwarf_Addr *start, Dwarf_Addr *end)
{
	const char *main_file = NULL, *name = dwfl_module_info(mod, NULL, start, end, NULL, NULL, &main_file, NULL);

	/* name is the path by which the module was mapped; main_file the path where it was found, if that differs. */
	if (name && strncmp(name, "[vdso", 5) == 0)
		return "[vdso]";
	return name && name[0] ? name : main_file ? main_file : "?";
}

/* resolver:find(addr, back): {symbol=, offset=, module=, module_offset=, file=, line=} of addr - back, with the offsets of addr;
 * nil if it is in no module */
static int l_find(lua_State *L)
{
	struct px_resolver *r = px_check_resolver(L, 1);
	uint64_t addr = px_check_addr(L, 2), at = addr - pb_check_u64(L, 3, 1);
	Dwfl_Module *mod = dwfl_addrmodule(r->dwfl, at);
	Dwarf_Addr start = 0, end = 0;
	GElf_Off offset = 0;
	GElf_Sym sym;
	const char *symbol, *file = NULL;
	Dwfl_Line *line;
	int number = 0;

	/* For an address behind all modules, libdwfl returns the last one. */
	if (mod)
		dwfl_module_info(mod, NULL, &start, &end, NULL, NULL, NULL, NULL);
	if (!mod || at < start || at >= end)
		return 0;
	lua_createtable(L, 0, 7);
	pb_set_text(L, "module", file_of(mod, &start, &end));
	pb_set_u64(L, "module_offset", addr - start);
	symbol = dwfl_module_addrinfo(mod, at, &offset, &sym, NULL, NULL, NULL);
	if (symbol) {
		lua_pushlstring(L, symbol, strcspn(symbol, "@")); /* without its version */
		lua_setfield(L, -2, "symbol");
		pb_set_u64(L, "offset", offset + (addr - at));
	}
	line = dwfl_module_getsrc(mod, at);
	if (line)
		file = dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL);
	if (file) {
		pb_set_text(L, "file", file);
		pb_set_int(L, "line", number);
	}
	return 1;
}

/* The callback of libdwfl fills an array: it must not call Lua functions, which may not return. */
struct module_list {
	Dwfl_Module **list;
	size_t n, room;
};

static int add_module(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr start, void *arg)
{
	struct module_list *l = arg;

	(void)userdata, (void)name, (void)start;
	if (l->n < l->room)
		l->list[l->n] = mod;
	l->n++;
	return DWARF_CB_OK;
}

/* resolver:modules(): array of {file=, start=, ["end"]=, build_id=} */
static int l_modules(lua_State *L)
{
	struct px_resolver *r = px_check_resolver(L, 1);
	struct module_list count = {NULL, 0, 0}, all;

	dwfl_getmodules(r->dwfl, add_module, &count, 0);
	all = (struct module_list){lua_newuserdata(L, (count.n + 1) * sizeof *all.list), 0, count.n};
	dwfl_getmodules(r->dwfl, add_module, &all, 0);
	lua_createtable(L, (int)count.n, 0);
	for (size_t i = 0; i < count.n; i++) {
		Dwarf_Addr start, end;
		GElf_Addr vaddr;
		GElf_Addr bias;
		const unsigned char *bits;
		int n;

		lua_createtable(L, 0, 4);
		pb_set_text(L, "file", file_of(all.list[i], &start, &end));
		pb_set_i64(L, "start", (int64_t)start);
		pb_set_i64(L, "end", (int64_t)end);
		dwfl_module_getelf(all.list[i], &bias); /* the id is known once the file is open */
		n = dwfl_module_build_id(all.list[i], &bits, &vaddr);
		if (n > 0)
			pb_set_hex(L, "build_id", bits, (size_t)n);
		lua_rawseti(L, -2, (int)i + 1);
	}
	return 1;
}

static int l_is_open(lua_State *L)
{
	return pb_bool(L, to_resolver(L, 1)->dwfl != NULL);
}

PX_EXPORT int luaopen_perf_ext_symbols(lua_State *L);
int luaopen_perf_ext_symbols(lua_State *L)
{
	static const luaL_Reg functions[] = {{"resolver", l_resolver}, {"offset", px_symbol_offset},
					     {"read_owned", px_read_owned}, {NULL, NULL}};
	static const luaL_Reg methods[] = {{"report_module", l_report_module},
					   {"report_path", l_report_path},
					   {"report_map", l_report_map},
					   {"begin", l_begin},
					   {"finish", l_finish},
					   {"find", l_find},
					   {"modules", l_modules},
					   {"frames", px_unwind},
					   {"is_open", l_is_open},
					   {NULL, NULL}};

	px_open(L);
	elf_version(EV_CURRENT);
	px_class(L, PX_RESOLVER, methods, l_close);
	lua_newtable(L);
	pb_register(L, functions);
	px_open_kernel(L);
	pb_set_text(L, "version", dwfl_version(NULL));
	return 1;
}

/* perf.ext.bpf: BPF programs for perf events, loaded by libbpf.
 *
 * libbpf reports the causes of its failures through a print function, of which a process has only one. This module sets it only
 * while a file is opened or loaded, under a lock. Messages from this thread then become part of the error message; messages from
 * other threads go to the previous print function.
 *
 * Object's userdata is made before libbpf's object, and no Lua function is called while the lock is held. */
#include "ext/bpf/bpf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/thread.h"

#define LOG_SIZE 16384    /* the limit for an error message */
#define LOG_MESSAGE 6144 /* the limit for one message of libbpf, which may be a verifier's log of megabytes */

struct log {
	size_t used;
	char text[LOG_SIZE];
};

static atomic_uint log_lock;
static _Thread_local struct log *log_here; /* set while this thread collects messages */
static libbpf_print_fn_t log_before;

static void log_add(struct log *log, const char *s, size_t n)
{
	if (n > sizeof log->text - log->used)
		n = sizeof log->text - log->used;
	memcpy(log->text + log->used, s, n);
	log->used += n;
}

static int log_print(enum libbpf_print_level level, const char *format, va_list args)
{
	struct log *log = log_here;
	char *text;
	int n;

	if (!log)
		return log_before ? log_before(level, format, args) : 0;
	if (level != LIBBPF_WARN)
		return 0;
	n = vasprintf(&text, format, args);
	if (n < 0)
		return 0;
	if (n > LOG_MESSAGE) { /* keep its beginning, which has the place, and its end, which has the reason */
		log_add(log, text, 512);
		log_add(log, "\n[...]\n", 7);
		log_add(log, text + n - (LOG_MESSAGE - 512), LOG_MESSAGE - 512);
	} else {
		log_add(log, text, (size_t)n);
	}
	free(text);
	return 0;
}

static void log_begin(struct log *log)
{
	const int inherited = pf_lock(&log_lock, PF_LOCK_PAUSE);

	log_here = log;
	if (!inherited)
		log_before = libbpf_set_print(log_print);
}

static void log_end(void)
{
	libbpf_set_print(log_before);
	log_before = NULL;
	log_here = NULL;
	pf_unlock(&log_lock);
}

/* libbpf has additional error numbers: map each to the nearest errno. */
static int to_errno(int err)
{
	err = err < 0 ? -err : err;
	switch (err) {
	case LIBBPF_ERRNO__LIBELF:
	case LIBBPF_ERRNO__FORMAT:
	case LIBBPF_ERRNO__ENDIAN:
		return ENOEXEC;
	case LIBBPF_ERRNO__PROG2BIG:
		return E2BIG;
	case LIBBPF_ERRNO__VERIFY:
		return EACCES;
	default:
		return err < __LIBBPF_ERRNO__START ? err : EINVAL;
	}
}

/* nil, "what: reason", code, libbpf's messages without the last newline */
static int fail_with_log(lua_State *L, int err, const char *what, const struct log *log)
{
	char reason[160];
	size_t n = log->used;

	while (n > 0 && (log->text[n - 1] == '\n' || log->text[n - 1] == ' '))
		n--;
	libbpf_strerror(err, reason, sizeof reason);
	lua_pushnil(L);
	lua_pushfstring(L, "%s: %s", what, reason);
	pb_push_errno(L, to_errno(err));
	lua_pushlstring(L, log->text, n);
	return 4;
}

static struct px_bpf *to_object(lua_State *L, int i)
{
	return pb_check(L, i, PX_BPF_OBJECT, "BPF object");
}

struct px_bpf *px_bpf_check(lua_State *L, int i)
{
	struct px_bpf *o = to_object(L, i);

	luaL_argcheck(L, o->obj != NULL, i, "BPF object is closed");
	if (pf_inherited(o->generation))
		pb_refuse_inherited(L, i, "BPF object");
	return o;
}

/* ext.open(path, [bytes]): an Object that is parsed but not loaded yet; or nil, message, code, log. bytes: the file's content, if it is
 * in no file; then path is its name. */
static int l_open(lua_State *L)
{
	const char *path = px_check_cstring(L, 1);
	size_t size = 0;
	const char *bytes = luaL_optlstring(L, 2, NULL, &size);
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = path);
	struct px_bpf *o;
	struct log *log;
	int err;

	lua_settop(L, 2);
	log = lua_newuserdata(L, sizeof *log);
	log->used = 0;
	o = pb_new(L, sizeof *o, PX_BPF_OBJECT);
	o->generation = pf_fork_generation();
	lua_newtable(L);
	pb_setuservalue(L, -2);
	log_begin(log);
	o->obj = bytes ? bpf_object__open_mem(bytes, size, &opts) : bpf_object__open_file(path, NULL);
	err = o->obj ? 0 : -errno;
	log_end();
	return o->obj ? 1 : fail_with_log(L, err, "open", log);
}

/* obj:load(): load the maps and the programs into the kernel. true, or nil, message, code, log. */
static int l_load(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct log *log;
	int err;

	luaL_argcheck(L, !o->loaded, 1, "BPF object is loaded already");
	log = lua_newuserdata(L, sizeof *log);
	log->used = 0;
	log_begin(log);
	err = bpf_object__load(o->obj);
	log_end();
	if (err < 0)
		return fail_with_log(L, err, "load", log);
	o->loaded = 1;
	return pb_bool(L, 1);
}

/*** The programs and maps of a BPF object file.
 * @classmod BpfObject */

/*** Close the object. The kernel keeps a program that an event runs. Idempotent. */
/* The programs' tables may outlive the object: remove their descriptors, which are closed with it. */
static int l_close(lua_State *L)
{
	struct px_bpf *o = to_object(L, 1);
	struct bpf_object *obj = o->obj;

	o->obj = NULL;
	if (!obj)
		return 0;
	bpf_object__close(obj);
	pb_getuservalue(L, 1);
	if (lua_istable(L, -1)) {
		lua_pushnil(L);
		while (lua_next(L, -2)) {
			lua_pushnil(L);
			lua_setfield(L, -2, "fd"); /* an existing field: cannot fail */
			lua_pop(L, 1);
		}
	}
	return 0;
}

static struct bpf_program *find_program(lua_State *L, const struct px_bpf *o, int arg)
{
	const char *name = luaL_checkstring(L, arg);
	struct bpf_program *p = bpf_object__find_program_by_name(o->obj, name);

	if (!p)
		luaL_argerror(L, arg, lua_pushfstring(L, "no program '%s' in this BPF object", name));
	return p;
}

static struct bpf_map *find_map(lua_State *L, const struct px_bpf *o, int arg)
{
	const char *name = luaL_checkstring(L, arg);
	struct bpf_map *m = bpf_object__find_map_by_name(o->obj, name);

	if (!m)
		luaL_argerror(L, arg, lua_pushfstring(L, "no map '%s' in this BPF object", name));
	return m;
}

/* {name=, type=, section=, fd=, id=, object=}: fd and id only after it is loaded. Always the same table. */
static void push_program(lua_State *L, int object, const struct bpf_program *p)
{
	struct bpf_prog_info info;
	uint32_t size = sizeof info;
	const char *type = libbpf_bpf_prog_type_str(bpf_program__type(p));
	int fd = bpf_program__fd(p);

	pb_getuservalue(L, object);
	lua_getfield(L, -1, bpf_program__name(p));
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		lua_createtable(L, 0, 6);
		pb_set_text(L, "name", bpf_program__name(p));
		pb_set_text(L, "type", type ? type : "?");
		pb_set_text(L, "section", bpf_program__section_name(p));
		lua_pushvalue(L, object);
		lua_setfield(L, -2, "object");
		lua_pushvalue(L, -1);
		lua_setfield(L, -3, bpf_program__name(p));
	}
	lua_remove(L, -2);
	if (fd >= 0) {
		pb_set_int(L, "fd", fd);
		memset(&info, 0, sizeof info);
		if (bpf_obj_get_info_by_fd(fd, &info, &size) == 0)
			pb_set_u64(L, "id", info.id);
	}
}

/*** A program: {name=, type=, section=, fd=, id=}.
 * @tparam string name
 * @treturn table `{name=, type=, section=, fd=, id=, object=}`, without `fd` once the object is closed
 * @raise for an unknown name */
static int l_program(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);

	push_program(L, 1, find_program(L, o, 2));
	return 1;
}

/*** All programs, in the file's order.
 * @treturn {table,...} as `program` */
static int l_programs(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct bpf_program *p;
	int n = 0;

	lua_newtable(L);
	bpf_object__for_each_program(p, o->obj) {
		push_program(L, 1, p);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

/*** A BpfMap.
 * @tparam string name
 * @treturn BpfMap
 * @raise for an unknown name */
static int l_map(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);

	px_bpf_push_map(L, 1, find_map(L, o, 2));
	return 1;
}

/*** All maps.
 * @treturn {table,...} as `BpfMap:info` */
static int l_maps(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct bpf_map *m;
	int n = 0;

	lua_newtable(L);
	bpf_object__for_each_map(m, o->obj) {
		px_bpf_push_map_info(L, m);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

/* obj:set_autoload(program, yes): before load */
static int l_set_autoload(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct bpf_program *p = find_program(L, o, 2);

	return pb_result(L, bpf_program__set_autoload(p, lua_toboolean(L, 3)), "set_autoload");
}

/* obj:set_max_entries(map, n): before load */
static int l_set_max_entries(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct bpf_map *m = find_map(L, o, 2);
	uint64_t n = pb_check_u64(L, 3, UINT32_MAX);

	return pb_result(L, bpf_map__set_max_entries(m, (uint32_t)n), "set_max_entries");
}

/*** Whether the object is open.
 * @treturn boolean */
static int l_is_open(lua_State *L)
{
	return pb_bool(L, to_object(L, 1)->obj != NULL);
}

PX_EXPORT int luaopen_perf_ext_bpf(lua_State *L);
int luaopen_perf_ext_bpf(lua_State *L)
{
	static const luaL_Reg methods[] = {{"load", l_load},
					   {"program", l_program},
					   {"programs", l_programs},
					   {"map", l_map},
					   {"maps", l_maps},
					   {"global", px_bpf_global},
					   {"set_global", px_bpf_set_global},
					   {"set_autoload", l_set_autoload},
					   {"set_max_entries", l_set_max_entries},
					   {"is_open", l_is_open},
					   {NULL, NULL}};

	px_open(L);
	px_class(L, PX_BPF_OBJECT, methods, l_close);
	px_bpf_open_map(L);
	lua_newtable(L);
	pb_set_function(L, "open", l_open);
	lua_pushfstring(L, "%d.%d", (int)libbpf_major_version(), (int)libbpf_minor_version());
	lua_setfield(L, -2, "version");
	return 1;
}

/* Maps, which BPF programs and Lua share.
 *
 * Keys and values of 4 and 8 bytes are integers (unsigned, in the host's byte order), others strings of their size. A per-CPU map
 * has an array of values, [1] for CPU 0, one for each possible CPU; in the kernel's buffer each value begins at a multiple of 8
 * bytes. An iteration first takes all keys and then one value after the other, so the loop may change the map, and ends even if a
 * program keeps adding keys. */
#include "ext/bpf/bpf.h"
#include "binding/event/event.h"

#include <errno.h>
#include <string.h>

#define MAP "perf.bpf.Map"
#define ENOTSUPP 524 /* internal to the kernel: errno.h does not define it */

/* Facts from libbpf, and the object that must be open for fd to be valid. */
struct map {
	struct px_bpf *owner;
	int fd;
	uint32_t key_size, value_size, max_entries;
	uint32_t cpus;      /* 0 unless the map is per CPU */
	size_t buffer_size; /* for one value, or for those of all CPUs */
	int holds_fds;      /* values are written as descriptors; a read returns ids, or fails */
};

void px_bpf_push_bytes(lua_State *L, const void *bytes, size_t size)
{
	uint64_t v64;
	uint32_t v32;

	if (size == sizeof v32) {
		memcpy(&v32, bytes, sizeof v32);
		pb_push_u64(L, v32);
	} else if (size == sizeof v64) {
		memcpy(&v64, bytes, sizeof v64);
		pb_push_u64(L, v64);
	} else {
		lua_pushlstring(L, bytes, size);
	}
}

void px_bpf_to_bytes(lua_State *L, int arg, const char *what, void *bytes, size_t size)
{
	uint64_t v = 0;
	uint32_t v32;
	int negative;

	if (size == 4 || size == 8) {
		if (!pb_to_u64(L, -1, &v, &negative))
			luaL_argerror(L, arg, lua_pushfstring(L, "%s: integer of %d bits expected, got %s", what, (int)size * 8,
							      luaL_typename(L, -1)));
		if (size == 4 && (negative ? (int64_t)v < INT32_MIN : v > UINT32_MAX))
			luaL_argerror(L, arg, lua_pushfstring(L, "%s: does not fit into 32 bits", what));
		v32 = (uint32_t)v;
		memcpy(bytes, size == 4 ? (const void *)&v32 : (const void *)&v, size);
		return;
	}
	if (lua_type(L, -1) != LUA_TSTRING)
		luaL_argerror(L, arg, lua_pushfstring(L, "%s: string of %d bytes expected, got %s", what, (int)size,
						      luaL_typename(L, -1)));
	if (pb_rawlen(L, -1) != size)
		luaL_argerror(L, arg, lua_pushfstring(L, "%s: string of %d bytes expected, got one of %d", what, (int)size,
						      (int)pb_rawlen(L, -1)));
	memcpy(bytes, lua_tostring(L, -1), size);
}

static int is_per_cpu(enum bpf_map_type type)
{
	return type == BPF_MAP_TYPE_PERCPU_HASH || type == BPF_MAP_TYPE_PERCPU_ARRAY ||
	       type == BPF_MAP_TYPE_LRU_PERCPU_HASH || type == BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE;
}

static size_t slot_size(const struct map *m)
{
	return m->cpus ? ((size_t)m->value_size + 7) / 8 * 8 : m->value_size;
}

void px_bpf_push_map(lua_State *L, int object, struct bpf_map *map)
{
	struct px_bpf *owner = px_bpf_check(L, object);
	struct map *m = pb_new(L, sizeof *m, MAP);
	enum bpf_map_type type = bpf_map__type(map);

	lua_createtable(L, 1, 0); /* in Lua 5.1 the uservalue must be a table */
	lua_pushvalue(L, object);
	lua_rawseti(L, -2, 1);
	px_bpf_push_map_info(L, map);
	lua_rawseti(L, -2, 2);
	pb_setuservalue(L, -2);
	m->owner = owner;
	m->fd = bpf_map__fd(map);
	m->key_size = bpf_map__key_size(map);
	m->value_size = bpf_map__value_size(map);
	m->max_entries = bpf_map__max_entries(map);
	m->holds_fds = type == BPF_MAP_TYPE_PERF_EVENT_ARRAY || type == BPF_MAP_TYPE_PROG_ARRAY ||
		       type == BPF_MAP_TYPE_CGROUP_ARRAY;
	if (is_per_cpu(type)) {
		int n = libbpf_num_possible_cpus();

		if (n <= 0)
			luaL_error(L, "cannot tell how many CPUs are possible: %s", strerror(n < 0 ? -n : EINVAL));
		m->cpus = (uint32_t)n;
	}
	m->buffer_size = slot_size(m) * (m->cpus ? m->cpus : 1);
}

/* {name=, type=, key_size=, value_size=, max_entries=, fd=} */
void px_bpf_push_map_info(lua_State *L, const struct bpf_map *map)
{
	const char *type = libbpf_bpf_map_type_str(bpf_map__type(map));

	lua_createtable(L, 0, 6);
	pb_set_text(L, "name", bpf_map__name(map));
	pb_set_text(L, "type", type ? type : "?");
	pb_set_u64(L, "key_size", bpf_map__key_size(map));
	pb_set_u64(L, "value_size", bpf_map__value_size(map));
	pb_set_u64(L, "max_entries", bpf_map__max_entries(map));
	if (bpf_map__fd(map) >= 0)
		pb_set_int(L, "fd", bpf_map__fd(map));
}

static struct map *check_map(lua_State *L, int i)
{
	struct map *m = pb_check(L, i, MAP, "BPF map");

	luaL_argcheck(L, m->owner && m->owner->obj, i, "BPF object of this map is closed");
	luaL_argcheck(L, m->fd >= 0, i, "BPF object of this map is not loaded");
	if (pf_inherited(m->owner->generation))
		pb_refuse_inherited(L, i, "BPF map");
	return m;
}

/* Raises for maps without keys: queues, stacks and ring buffers. */
static struct map *check_keyed(lua_State *L, int i)
{
	struct map *m = check_map(L, i);

	luaL_argcheck(L, m->key_size > 0 && m->value_size > 0, i, "this BPF map has no keys");
	return m;
}

/* A buffer that Lua's collector frees, also after an error. */
static void *scratch(lua_State *L, size_t size)
{
	void *p = lua_newuserdata(L, size);

	memset(p, 0, size);
	return p;
}

static void *check_key(lua_State *L, const struct map *m, int arg)
{
	void *key = scratch(L, m->key_size);

	lua_pushvalue(L, arg);
	px_bpf_to_bytes(L, arg, "key", key, m->key_size);
	lua_pop(L, 1);
	return key;
}

static void push_value(lua_State *L, const struct map *m, const char *bytes)
{
	if (!m->cpus) {
		px_bpf_push_bytes(L, bytes, m->value_size);
		return;
	}
	lua_createtable(L, (int)m->cpus, 0);
	for (uint32_t i = 0; i < m->cpus; i++) {
		px_bpf_push_bytes(L, bytes + i * slot_size(m), m->value_size);
		lua_rawseti(L, -2, (int)i + 1);
	}
}

static int map_fail(lua_State *L, int r, const char *what)
{
	if (r == -ENOTSUPP || r == -EOPNOTSUPP)
		return pb_refuse(L, -EOPNOTSUPP, "%s: not possible from user space on a BPF map of this type", what);
	if (r == -EPERM)
		return pb_refuse(L, r, "%s: needs CAP_BPF, or the map is read-only", what);
	if (r == -ENOENT)
		return pb_refuse(L, r, "%s: no such key", what);
	return pb_fail(L, r, "%s", what);
}

/*** A map of a BPF object. Keys and values of 4 and 8 bytes are integers, others strings of their size; a per-CPU map has an
 * array of values, `[1]` for CPU 0. Descriptors (an Event, a program) can be put into maps of the types that hold them.
 * @classmod BpfMap */

/*** The value of a key.
 * @tparam integer|string key
 * @treturn integer|string|table @fails "ENOENT" for an unknown key */
static int l_get(lua_State *L)
{
	struct map *m = check_keyed(L, 1);
	void *key, *value;

	lua_settop(L, 2);
	key = check_key(L, m, 2);
	value = scratch(L, m->buffer_size);

	if (bpf_map_lookup_elem(m->fd, key, value) < 0)
		return map_fail(L, -errno, "get");
	push_value(L, m, value);
	return 1;
}

/* For maps that hold descriptors: push the descriptor of an Event or of a program's table. */
static void push_fd_of(lua_State *L, const struct map *m, int arg)
{
	struct pf_counter *ev = m->holds_fds ? pb_test(L, arg, PB_EVENT) : NULL;

	if (ev) {
		luaL_argcheck(L, ev->fd >= 0, arg, "Event is closed");
		lua_getfield(L, arg, "is_inherited"); /* this library has its own fork generation, not the core's */
		lua_pushvalue(L, arg);
		lua_call(L, 1, 1);
		if (lua_toboolean(L, -1))
			pb_refuse_inherited(L, arg, "Event");
		lua_pop(L, 1);
		lua_pushinteger(L, ev->fd);
	} else if (m->holds_fds && lua_istable(L, arg)) {
		lua_getfield(L, arg, "fd");
	} else {
		lua_pushvalue(L, arg);
	}
}

/*** Set the value of a key.
 * @tparam integer|string key
 * @tparam any value integer, string, or for a map per CPU an array, or one value for every CPU; an Event or a program
 * @treturn boolean true @fails */
static int l_set(lua_State *L)
{
	struct map *m = check_keyed(L, 1);
	void *key;
	char *value;

	lua_settop(L, 3);
	key = check_key(L, m, 2);
	value = scratch(L, m->buffer_size);
	if (m->cpus && lua_istable(L, 3) && pb_rawlen(L, 3) != m->cpus)
		return luaL_argerror(L, 3, lua_pushfstring(L, "array of %d values expected, one for each possible CPU; got %d",
							   (int)m->cpus, (int)pb_rawlen(L, 3)));
	for (uint32_t i = 0; i < (m->cpus ? m->cpus : 1); i++) {
		if (m->cpus && lua_istable(L, 3))
			lua_rawgeti(L, 3, (int)i + 1);
		else
			push_fd_of(L, m, 3);
		px_bpf_to_bytes(L, 3, "value", value + i * slot_size(m), m->value_size);
		lua_pop(L, 1);
	}
	if (bpf_map_update_elem(m->fd, key, value, BPF_ANY) < 0)
		return map_fail(L, -errno, "set");
	return pb_bool(L, 1);
}

/*** Remove a key.
 * @tparam integer|string key
 * @treturn boolean true @fails "ENOENT" for an unknown key, "EINVAL" for an array */
static int l_delete(lua_State *L)
{
	struct map *m = check_keyed(L, 1);
	void *key;

	lua_settop(L, 2);
	key = check_key(L, m, 2);
	if (bpf_map_delete_elem(m->fd, key) < 0)
		return map_fail(L, -errno, "delete");
	return pb_bool(L, 1);
}

/* The iterator. Upvalues: the map, the keys as strings of bytes, the position. Keys that were deleted meanwhile are skipped. */
static int next_pair(lua_State *L)
{
	lua_Integer at = lua_tointeger(L, lua_upvalueindex(3));
	struct map *m;
	char *value;

	lua_settop(L, 0);
	lua_pushvalue(L, lua_upvalueindex(1));
	m = check_keyed(L, 1);
	value = scratch(L, m->buffer_size);
	for (;;) {
		lua_settop(L, 2);
		lua_rawgeti(L, lua_upvalueindex(2), (int)++at);
		if (lua_isnil(L, -1))
			return 1;
		if (bpf_map_lookup_elem(m->fd, lua_tostring(L, -1), value) == 0)
			break;
		if (errno != ENOENT)
			return luaL_error(L, "pairs: this BPF map cannot be read: %s", strerror(errno));
	}
	lua_pushinteger(L, at);
	lua_replace(L, lua_upvalueindex(3));
	px_bpf_push_bytes(L, lua_tostring(L, -1), m->key_size);
	push_value(L, m, value);
	return 2;
}

/*** Iterate over keys and values; each key comes once.
 * @treturn function iterator
 * @raise if the map cannot be read */
/* If a key is deleted while the keys are collected, the kernel starts again from the first key. So each key is kept only
 * once, and the number of steps is bounded. */
static int l_pairs(lua_State *L)
{
	struct map *m = check_keyed(L, 1);
	char *key = scratch(L, m->key_size), *next = scratch(L, m->key_size);
	uint64_t steps = (uint64_t)m->max_entries * 4 + 16;
	int n = 0, list, seen;
	const void *from = NULL;

	lua_newtable(L);
	list = lua_gettop(L);
	lua_newtable(L);
	seen = lua_gettop(L);
	while (steps-- > 0) {
		if (bpf_map_get_next_key(m->fd, from, next) < 0) {
			if (errno == ENOENT)
				break;
			return luaL_error(L, "pairs: this BPF map's keys cannot be listed: %s",
					  errno == ENOTSUPP ? "not possible on a map of this type" : strerror(errno));
		}
		lua_pushlstring(L, next, m->key_size);
		lua_pushvalue(L, -1);
		lua_rawget(L, seen);
		if (lua_isnil(L, -1)) {
			lua_pop(L, 1);
			lua_pushvalue(L, -1);
			lua_pushboolean(L, 1);
			lua_rawset(L, seen);
			lua_rawseti(L, list, ++n);
		} else {
			lua_pop(L, 2);
		}
		memcpy(key, next, m->key_size);
		from = key;
	}
	lua_pushvalue(L, 1);
	lua_pushvalue(L, list);
	lua_pushinteger(L, 0);
	lua_pushcclosure(L, next_pair, 3);
	return 1;
}

/*** The type and the sizes of the map.
 * @treturn table `{name=, type=, key_size=, value_size=, max_entries=, fd=}`, sizes in bytes */
static int l_info(lua_State *L)
{
	pb_check(L, 1, MAP, "BPF map");
	pb_getuservalue(L, 1);
	lua_rawgeti(L, -1, 2);
	return 1;
}

/*** The file descriptor, which the object owns.
 * @treturn integer */
static int l_fd(lua_State *L)
{
	return pb_int(L, check_map(L, 1)->fd);
}

void px_bpf_open_map(lua_State *L)
{
	static const luaL_Reg methods[] = {{"get", l_get},     {"set", l_set},   {"delete", l_delete}, {"pairs", l_pairs},
					   {"info", l_info},   {"fd", l_fd},     {NULL, NULL}};

	px_class(L, MAP, methods, NULL);
	luaL_getmetatable(L, MAP);
	lua_getfield(L, -1, "__index");
	lua_getfield(L, -1, "pairs");
	lua_setfield(L, -3, "__pairs");
	lua_pop(L, 2);
}

/* Global variables of a BPF program, found by the type information (BTF) that clang -g puts into the file: each section
 * (.data, .bss, .rodata) is an array map of one value, and its DATASEC type gives the offset of each variable.
 *
 * Before loading, libbpf holds the value that the kernel will get. Afterwards it is read as a map, and written through a mapping
 * of the map's pages, so that neighbouring variables do not change. */
#include "ext/bpf/bpf.h"

#include <bpf/btf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct variable {
	struct bpf_map *map;
	const char *section;
	size_t offset, size, whole; /* whole: the section's bytes */
	char *initial;              /* the section, before loading */
};

/* Whether a DATASEC has the variable. Sets offset and size. */
static int in_section(const struct btf *btf, const struct btf_type *section, const char *name, struct variable *out)
{
	const struct btf_var_secinfo *row = btf_var_secinfos(section);

	for (unsigned i = 0; i < btf_vlen(section); i++, row++) {
		const struct btf_type *var = btf__type_by_id(btf, row->type);
		const char *var_name = var ? btf__name_by_offset(btf, var->name_off) : NULL;

		if (var_name && strcmp(var_name, name) == 0) {
			out->offset = row->offset;
			out->size = row->size;
			return 1;
		}
	}
	return 0;
}

static int find(struct bpf_object *obj, const char *name, struct variable *out)
{
	const struct btf *btf = bpf_object__btf(obj);

	for (unsigned id = 1; id < btf__type_cnt(btf); id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);

		if (!t || !btf_is_datasec(t) || !in_section(btf, t, name, out))
			continue;
		out->section = btf__name_by_offset(btf, t->name_off);
		out->map = out->section ? bpf_object__find_map_by_name(obj, out->section) : NULL;
		if (!out->map)
			continue;
		out->whole = bpf_map__value_size(out->map);
		out->initial = (char *)(uintptr_t)bpf_map__initial_value(out->map, &out->whole);
		if (out->initial && out->offset <= out->whole && out->size <= out->whole - out->offset)
			return 1;
	}
	return 0;
}

static void check(lua_State *L, const struct px_bpf *o, struct variable *v)
{
	const char *name = px_check_cstring(L, 2);

	if (!bpf_object__btf(o->obj))
		luaL_argerror(L, 2, "this BPF object has no type information: compile it with clang -g");
	if (!find(o->obj, name, v))
		luaL_argerror(L, 2, lua_pushfstring(L, "no global variable '%s' in this BPF object", name));
}

/*** The value of a global variable.
 * @function BpfObject:global
 * @tparam string name
 * @treturn integer|string of 1, 2, 4 and 8 bytes an unsigned integer, else its bytes @fails */
int px_bpf_global(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct variable v;
	const char *bytes;
	uint16_t word;

	check(L, o, &v);
	bytes = v.initial;
	if (o->loaded) {
		char *now = lua_newuserdata(L, v.whole);
		uint32_t key = 0;

		if (bpf_map_lookup_elem(bpf_map__fd(v.map), &key, now) < 0)
			return pb_fail(L, -errno, "global");
		bytes = now;
	}
	bytes += v.offset;
	if (v.size == 1) {
		lua_pushinteger(L, (unsigned char)*bytes);
	} else if (v.size == sizeof word) {
		memcpy(&word, bytes, sizeof word);
		lua_pushinteger(L, word);
	} else {
		px_bpf_push_bytes(L, bytes, v.size);
	}
	return 1;
}

/* Write into the kernel's section. Returns 0 or -errno. */
static int write_loaded(const struct variable *v, const void *bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (v->whole + page - 1) / page * page;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(v->map), 0);

	if (p == MAP_FAILED)
		return -errno;
	memcpy(p + v->offset, bytes, v->size);
	munmap(p, size);
	return 0;
}

/*** Set a global variable. Constants (.rodata) can only be set by the options of `perf.bpf.load`.
 * @function BpfObject:set_global
 * @tparam string name
 * @tparam integer|string value as `global` returns it
 * @treturn boolean true @fails */
int px_bpf_set_global(lua_State *L)
{
	struct px_bpf *o = px_bpf_check(L, 1);
	struct variable v;
	char *bytes;
	uint16_t word;
	int r = 0;

	lua_settop(L, 3);
	check(L, o, &v);
	if (o->loaded && strncmp(v.section, ".rodata", 7) == 0)
		return luaL_argerror(L, 2, lua_pushfstring(L, "'%s' is a constant: set it by the option 'globals' of perf.bpf.load",
							   lua_tostring(L, 2)));
	bytes = lua_newuserdata(L, v.size ? v.size : 1);
	if ((v.size == 1 || v.size == 2) && lua_type(L, 3) != LUA_TSTRING) {
		word = lua_isboolean(L, 3) ? (uint16_t)lua_toboolean(L, 3)
					   : (uint16_t)pb_check_u64(L, 3, v.size == 1 ? UINT8_MAX : UINT16_MAX);
		if (v.size == 1)
			bytes[0] = (char)(unsigned char)word;
		else
			memcpy(bytes, &word, sizeof word);
	} else {
		lua_pushvalue(L, 3);
		px_bpf_to_bytes(L, 3, "value", bytes, v.size);
	}
	if (o->loaded)
		r = write_loaded(&v, bytes);
	else
		memcpy(v.initial + v.offset, bytes, v.size);
	if (r == -ENOTSUP || r == -524 || r == -EINVAL || r == -ENODEV)
		return pb_refuse(L, -EOPNOTSUPP, "set_global: this kernel does not share a BPF program's variables");
	return pb_result(L, r, "set_global");
}

/* The features of a perf.data file as Lua values: a function for each shape of core/data_feature.h that pushes one value,
 * and leaves the cursor bad when the section does not hold it. */
#include <string.h>

#include "core/data/format.h"
#include "core/data/swap.h"
#include "binding/data/data.h"
#include "binding/record/record.h"

static void set_u32(lua_State *L, struct pf_cursor *c, const char *field)
{
	lua_pushnumber(L, (lua_Number)pf_cursor_u32(c));
	lua_setfield(L, -2, field);
}

static void set_u64(lua_State *L, struct pf_cursor *c, const char *field)
{
	pb_push_u64(L, pf_cursor_u64(c));
	lua_setfield(L, -2, field);
}

static void push_string(lua_State *L, struct pf_cursor *c)
{
	size_t n;
	const char *text = pf_cursor_string(c, &n);

	lua_pushlstring(L, text, n);
}

static void set_string(lua_State *L, struct pf_cursor *c, const char *field)
{
	push_string(L, c);
	lua_setfield(L, -2, field);
}

static void push_strings(lua_State *L, struct pf_cursor *c)
{
	uint64_t n = pf_cursor_count(c, pf_cursor_u32(c), 4);

	lua_newtable(L);
	for (uint64_t i = 1; i <= n && !c->bad; i++) {
		push_string(L, c);
		lua_rawseti(L, -2, (int)i);
	}
}

static void push_nrcpus(lua_State *L, struct pf_cursor *c)
{
	lua_createtable(L, 0, 2);
	set_u32(L, c, "available");
	set_u32(L, c, "online");
}

void pb_push_build_id(lua_State *L, const unsigned char *bytes, size_t n)
{
	pb_push_hex(L, bytes, n < 20 ? n : 20);
}

#define BUILD_ID_SIZE_SET (1u << 15) /* misc: the byte behind the id says how much of it counts */

void pb_push_build_id_record(lua_State *L, const unsigned char *body, size_t n, uint16_t misc, int swapped)
{
	struct pf_cursor c = {body, body + n, swapped, 0};
	uint32_t pid = pf_cursor_u32(&c);
	const unsigned char *id = pf_cursor_bytes(&c, 24);

	lua_createtable(L, 0, 4);
	lua_pushnumber(L, (lua_Number)(int32_t)pid);
	lua_setfield(L, -2, "pid");
	lua_pushinteger(L, misc);
	lua_setfield(L, -2, "misc");
	if (!id)
		return;
	pb_push_build_id(L, id, misc & BUILD_ID_SIZE_SET ? id[20] : 20);
	lua_setfield(L, -2, "build_id");
	lua_pushlstring(L, (const char *)c.at, strnlen((const char *)c.at, (size_t)(c.end - c.at)));
	lua_setfield(L, -2, "filename");
}

static void push_build_ids(lua_State *L, struct pf_cursor *c)
{
	int i = 0;

	lua_newtable(L);
	while (c->at < c->end) {
		const unsigned char *p = pf_cursor_bytes(c, sizeof(struct pf_header));
		struct pf_header h;

		if (!p)
			return;
		memcpy(&h, p, sizeof h);
		if (c->swapped)
			pf_swap_header(&h);
		if (h.size < sizeof h + 28) {
			c->bad = 1;
			return;
		}
		p = pf_cursor_bytes(c, h.size - sizeof h);
		if (!p)
			return;
		pb_push_build_id_record(L, p, h.size - sizeof h, h.misc, c->swapped);
		lua_rawseti(L, -2, ++i);
	}
}

void pb_push_ids(lua_State *L, const uint64_t *ids, uint64_t n)
{
	lua_createtable(L, n < 65536 ? (int)n : 0, 0);
	for (uint64_t i = 0; i < n; i++) {
		pb_push_u64(L, ids[i]);
		lua_rawseti(L, -2, (int)i + 1);
	}
}

static void push_event_desc(lua_State *L, struct pf_cursor *c)
{
	uint32_t n = pf_cursor_u32(c), size = pf_cursor_u32(c);

	lua_newtable(L);
	if (size < PF_ATTR_SIZE_VER0)
		c->bad = 1;
	for (uint32_t i = 1; i <= n && !c->bad; i++) {
		const unsigned char *p = pf_cursor_bytes(c, size);
		uint64_t nids = pf_cursor_u32(c);
		struct pf_attr a;

		memset(&a, 0, sizeof a);
		if (!p)
			return;
		memcpy(&a, p, size < sizeof a ? size : sizeof a);
		if (c->swapped)
			pf_swap_attr(&a);
		lua_createtable(L, 0, 3);
		pb_push_attr(L, &a);
		lua_setfield(L, -2, "attr");
		set_string(L, c, "name");
		nids = pf_cursor_count(c, nids, 8);
		lua_newtable(L);
		for (uint64_t k = 1; k <= nids; k++) {
			pb_push_u64(L, pf_cursor_u64(c));
			lua_rawseti(L, -2, (int)k);
		}
		lua_setfield(L, -2, "ids");
		lua_rawseti(L, -2, (int)i);
	}
}

static void push_cpu_topology(lua_State *L, struct pf_cursor *c, uint64_t ncpus)
{
	lua_newtable(L);
	push_strings(L, c);
	lua_setfield(L, -2, "cores");
	push_strings(L, c);
	lua_setfield(L, -2, "threads");
	/* How many CPUs follow, only nrcpus says; what follows them begins where they end. */
	uint64_t left = (uint64_t)(c->end - c->at) / 8, n = ncpus;

	if (n == 0 || n > left)
		n = left;
	lua_newtable(L);
	for (uint64_t i = 1; i <= n && !c->bad; i++) {
		lua_createtable(L, 0, 2);
		set_u32(L, c, "core_id");
		set_u32(L, c, "socket_id");
		lua_rawseti(L, -2, (int)i);
	}
	if (!c->bad && c->at < c->end) {
		push_strings(L, c);
		lua_setfield(L, -3, "dies");
		for (uint64_t i = 1; i <= n && !c->bad; i++) {
			lua_rawgeti(L, -1, (int)i);
			set_u32(L, c, "die_id");
			lua_pop(L, 1);
		}
	}
	lua_setfield(L, -2, "cpus");
}

static void push_numa_node(lua_State *L, struct pf_cursor *c)
{
	set_u32(L, c, "node");
	set_u64(L, c, "mem_total");
	set_u64(L, c, "mem_free");
	set_string(L, c, "cpus");
}

static void push_pmu(lua_State *L, struct pf_cursor *c)
{
	set_u32(L, c, "type");
	set_string(L, c, "name");
}

static void push_group(lua_State *L, struct pf_cursor *c)
{
	set_string(L, c, "name");
	set_u32(L, c, "leader");
	set_u32(L, c, "members");
}

static void push_auxtrace(lua_State *L, struct pf_cursor *c)
{
	set_u64(L, c, "offset");
	set_u64(L, c, "size");
}

static void push_cache(lua_State *L, struct pf_cursor *c)
{
	set_u32(L, c, "level");
	set_u32(L, c, "line_size");
	set_u32(L, c, "sets");
	set_u32(L, c, "ways");
	set_string(L, c, "type");
	set_string(L, c, "size");
	set_string(L, c, "cpus");
}

static void push_mem_node(lua_State *L, struct pf_cursor *c)
{
	uint64_t words, k = 0;

	set_u64(L, c, "node");
	set_u64(L, c, "size");
	words = pf_cursor_u64(c);
	words = pf_cursor_count(c, words / 64 + (words % 64 != 0), 8);
	lua_newtable(L); /* the numbers of the blocks of memory that are there */
	for (uint64_t i = 0; i < words; i++) {
		uint64_t bits = pf_cursor_u64(c);

		for (unsigned b = 0; b < 64; b++)
			if (bits >> b & 1) {
				pb_push_u64(L, i * 64 + b);
				lua_rawseti(L, -2, (int)++k);
			}
	}
	lua_setfield(L, -2, "blocks");
}

static void push_hybrid(lua_State *L, struct pf_cursor *c)
{
	set_string(L, c, "pmu");
	set_string(L, c, "cpus");
}

static void push_caps(lua_State *L, struct pf_cursor *c)
{
	uint64_t n = pf_cursor_count(c, pf_cursor_u32(c), 8);

	lua_newtable(L);
	for (uint64_t i = 0; i < n && !c->bad; i++) {
		push_string(L, c);
		push_string(L, c);
		lua_rawset(L, -3);
	}
}

static void push_pmu_caps(lua_State *L, struct pf_cursor *c)
{
	push_caps(L, c);
	lua_setfield(L, -2, "caps");
	set_string(L, c, "name");
}

/* An array of n tables that fill fills, of at least size bytes each. */
static void push_array(lua_State *L, struct pf_cursor *c, uint64_t n, size_t size,
		       void (*fill)(lua_State *L, struct pf_cursor *c))
{
	lua_newtable(L);
	n = pf_cursor_count(c, n, size);
	for (uint64_t i = 1; i <= n && !c->bad; i++) {
		lua_newtable(L);
		fill(L, c);
		lua_rawseti(L, -2, (int)i);
	}
}

static void push_mem_topology(lua_State *L, struct pf_cursor *c)
{
	lua_newtable(L);
	set_u64(L, c, "version");
	set_u64(L, c, "block_size");
	push_array(L, c, pf_cursor_u64(c), 24, push_mem_node);
	lua_setfield(L, -2, "nodes");
}

static void push_compressed(lua_State *L, struct pf_cursor *c)
{
	lua_newtable(L);
	set_u32(L, c, "version");
	set_u32(L, c, "type");
	set_u32(L, c, "level");
	set_u32(L, c, "ratio");
	set_u32(L, c, "mmap_len");
}

static void push_sample_time(lua_State *L, struct pf_cursor *c)
{
	lua_newtable(L);
	set_u64(L, c, "first");
	set_u64(L, c, "last");
}

static void push_clock_data(lua_State *L, struct pf_cursor *c)
{
	lua_newtable(L);
	set_u32(L, c, "version");
	set_u32(L, c, "clockid");
	set_u64(L, c, "wall_ns");
	set_u64(L, c, "clock_ns");
}

static void push_cache_levels(lua_State *L, struct pf_cursor *c)
{
	pf_cursor_u32(c); /* its version, always 1 */
	push_array(L, c, pf_cursor_u32(c), 28, push_cache);
}

static void push_e_machine(lua_State *L, struct pf_cursor *c)
{
	lua_newtable(L);
	set_u32(L, c, "machine");
	set_u32(L, c, "flags");
}

void pb_push_feature(lua_State *L, struct pf_cursor *c, enum pf_feature_shape shape, uint64_t ncpus)
{
	luaL_checkstack(L, 12, "feature");
	switch (shape) {
	case PF_SHAPE_BYTES:
		lua_pushlstring(L, (const char *)c->at, (size_t)(c->end - c->at));
		return;
	case PF_SHAPE_FLAG:
		lua_pushboolean(L, 1);
		return;
	case PF_SHAPE_STRING:
		push_string(L, c);
		return;
	case PF_SHAPE_STRINGS:
		push_strings(L, c);
		return;
	case PF_SHAPE_U64:
		pb_push_u64(L, pf_cursor_u64(c));
		return;
	case PF_SHAPE_NRCPUS:
		push_nrcpus(L, c);
		return;
	case PF_SHAPE_BUILD_ID:
		push_build_ids(L, c);
		return;
	case PF_SHAPE_EVENT_DESC:
		push_event_desc(L, c);
		return;
	case PF_SHAPE_CPU_TOPOLOGY:
		push_cpu_topology(L, c, ncpus);
		return;
	case PF_SHAPE_NUMA_TOPOLOGY:
		push_array(L, c, pf_cursor_u32(c), 24, push_numa_node);
		return;
	case PF_SHAPE_PMU_MAPPINGS:
		push_array(L, c, pf_cursor_u32(c), 8, push_pmu);
		return;
	case PF_SHAPE_GROUP_DESC:
		push_array(L, c, pf_cursor_u32(c), 12, push_group);
		return;
	case PF_SHAPE_AUXTRACE:
		push_array(L, c, pf_cursor_u64(c), 16, push_auxtrace);
		return;
	case PF_SHAPE_CACHE:
		push_cache_levels(L, c);
		return;
	case PF_SHAPE_SAMPLE_TIME:
		push_sample_time(L, c);
		return;
	case PF_SHAPE_MEM_TOPOLOGY:
		push_mem_topology(L, c);
		return;
	case PF_SHAPE_COMPRESSED:
		push_compressed(L, c);
		return;
	case PF_SHAPE_CAPS:
		push_caps(L, c);
		return;
	case PF_SHAPE_PMU_CAPS:
		push_array(L, c, pf_cursor_u32(c), 8, push_pmu_caps);
		return;
	case PF_SHAPE_CLOCK_DATA:
		push_clock_data(L, c);
		return;
	case PF_SHAPE_HYBRID_TOPOLOGY:
		push_array(L, c, pf_cursor_u32(c), 8, push_hybrid);
		return;
	case PF_SHAPE_E_MACHINE:
		push_e_machine(L, c);
		return;
	}
	lua_pushnil(L);
}

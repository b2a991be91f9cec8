/* Records that a recorder makes itself (core/record/synthesize.h), as strings; and numbers as bytes of this machine. */
#include "core/record/synthesize.h"

#include <string.h>

#include "core/record/layout.h"
#include "binding/kernel/attr.h"

static uint64_t field(lua_State *L, const char *name)
{
	uint64_t v = 0;
	int negative;

	lua_getfield(L, 1, name);
	if (!lua_isnil(L, -1) && !pb_to_u64(L, -1, &v, &negative))
		luaL_argerror(L, 1, lua_pushfstring(L, "field '%s': integer expected", name));
	lua_pop(L, 1);
	return v;
}

static const char *text(lua_State *L, const char *name)
{
	const char *s;

	lua_getfield(L, 1, name);
	s = lua_tostring(L, -1);
	if (!s)
		luaL_argerror(L, 1, lua_pushfstring(L, "field '%s': string expected", name));
	return s; /* the table keeps it */
}

/* core.synth{type = "comm" | "mmap2" | "kernel_map" | "lost_samples" | "lost", trailer =, ...}: the bytes of a record. */
static int l_synth(lua_State *L)
{
	unsigned char out[PF_SYNTH_MAX];
	const char *type;
	size_t trailer, n;

	luaL_checktype(L, 1, LUA_TTABLE);
	type = text(L, "type");
	trailer = (size_t)field(L, "trailer") & 63;
	if (strcmp(type, "comm") == 0) {
		n = pf_synth_comm(out, (int32_t)field(L, "pid"), (int32_t)field(L, "tid"), text(L, "comm"), trailer);
	} else if (strcmp(type, "kernel_map") == 0) {
		n = pf_synth_kernel_map(out, field(L, "addr"), field(L, "len"), field(L, "pgoff"), text(L, "filename"), trailer);
	} else if (strcmp(type, "mmap2") == 0) {
		const struct pf_synth_map m = {
			.pid = (int32_t)field(L, "pid"),
			.tid = (int32_t)field(L, "tid"),
			.addr = field(L, "addr"),
			.len = field(L, "len"),
			.pgoff = field(L, "pgoff"),
			.ino = field(L, "ino"),
			.maj = (uint32_t)field(L, "maj"),
			.min = (uint32_t)field(L, "min"),
			.prot = (uint32_t)field(L, "prot"),
			.flags = (uint32_t)field(L, "flags"),
			.filename = text(L, "filename"),
		};
		n = pf_synth_map(out, &m, trailer);
	} else if (strcmp(type, "lost_samples") == 0) {
		n = pf_synth_lost_samples(out, field(L, "id"), field(L, "lost"), trailer);
	} else if (strcmp(type, "lost") == 0) {
		n = pf_synth_lost(out, field(L, "id"), field(L, "lost"), trailer);
	} else {
		return luaL_argerror(L, 1, "no such type");
	}
	lua_pushlstring(L, (const char *)out, n);
	return 1;
}

/* core.trailer(attr): the bytes that sample_id_all adds to a record of that event. */
static int l_trailer(lua_State *L)
{
	struct pf_attr attr;
	struct pf_layout l;

	pb_check_attr(L, 1, &attr);
	pf_layout_init(&l, &attr, PF_ARCH_OTHER);
	return pb_int(L, l.trailer_size);
}

/* core.number_bytes(v, width): an unsigned number of 1, 2, 4 or 8 bytes in this machine's order. */
static int l_number_bytes(lua_State *L)
{
	uint64_t v = pb_check_u64(L, 1, UINT64_MAX);
	lua_Integer width = luaL_checkinteger(L, 2);
	unsigned char b[8];

	luaL_argcheck(L, width == 1 || width == 2 || width == 4 || width == 8, 2, "1, 2, 4 or 8 expected");
	for (int i = 0; i < width; i++)
		b[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? i : (int)width - 1 - i] = (unsigned char)(v >> 8 * i);
	lua_pushlstring(L, (const char *)b, (size_t)width);
	return 1;
}

void pb_open_synth(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"synth", l_synth}, {"trailer", l_trailer}, {"number_bytes", l_number_bytes}, {NULL, NULL}};
	pb_register(L, functions);
}

/* perf.ext.outside: the compiled BPF programs of csrc/bpf/outside/snapshot.c, which clang makes when this is built. */
#include "ext/base/ext.h"

#include <stdint.h>

/* PX_SNAPSHOT: the path of the object file, from the Makefile. */
extern const char px_snapshot[] __attribute__((visibility("hidden")));
extern const uint64_t px_snapshot_size __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n.balign 8\n.global px_snapshot\n.hidden px_snapshot\npx_snapshot:\n.incbin \"" PX_SNAPSHOT "\"\n"
	"1:\n.balign 8\n.global px_snapshot_size\n.hidden px_snapshot_size\npx_snapshot_size:\n.8byte 1b - px_snapshot\n"
	".popsection\n");

/* ext.program(): the object file, as perf.ext.bpf loads it. */
static int l_program(lua_State *L)
{
	return pb_bytes(L, px_snapshot, (size_t)px_snapshot_size);
}

PX_EXPORT int luaopen_perf_ext_outside(lua_State *L);
int luaopen_perf_ext_outside(lua_State *L)
{
	lua_newtable(L);
	pb_set_function(L, "program", l_program);
	return 1;
}

/* The module: base/binding.h lists its parts. */
#include "binding/base/binding.h"

__attribute__((visibility("default"))) int luaopen_perf_core(lua_State *L);

int luaopen_perf_core(lua_State *L)
{
	lua_newtable(L);
#define X(name) pb_open_##name(L);
	PB_OPEN(X)
#undef X
	return 1;
}

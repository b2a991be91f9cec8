/* Lua modules that are also built into this library: those that read and print the program's results and records, and those that
 * write the messages about its mistakes and about refusals. They are loaded at their first use. Their files cannot be read then
 * if the program has called chroot, has no free descriptor, or has changed package.path. So a searcher loads the text that is
 * built in. */
#include <string.h>

#include "binding/base/binding.h"
#include "binding/embed.h"

#define FILES(FILE) \
	FILE(api_check, "perf.api.check", "lua/perf/api/check.lua") \
	FILE(base_argument, "perf.base.argument", "lua/perf/base/argument.lua") \
	FILE(base_attempt, "perf.base.attempt", "lua/perf/base/attempt.lua") \
	FILE(base_brief, "perf.base.brief", "lua/perf/base/brief.lua") \
	FILE(base_clock, "perf.base.clock", "lua/perf/base/clock.lua") \
	FILE(base_format, "perf.base.format", "lua/perf/base/format.lua") \
	FILE(base_json, "perf.base.json", "lua/perf/base/json.lua") \
	FILE(base_keys, "perf.base.keys", "lua/perf/base/keys.lua") \
	FILE(base_memo, "perf.base.memo", "lua/perf/base/memo.lua") \
	FILE(base_mistake, "perf.base.mistake", "lua/perf/base/mistake.lua") \
	FILE(base_suggest, "perf.base.suggest", "lua/perf/base/suggest.lua") \
	FILE(base_table_text, "perf.base.table_text", "lua/perf/base/table_text.lua") \
	FILE(base_utf8, "perf.base.utf8", "lua/perf/base/utf8.lua") \
	FILE(counts, "perf.counts", "lua/perf/counts/init.lua") \
	FILE(counts_arithmetic, "perf.counts.arithmetic", "lua/perf/counts/arithmetic.lua") \
	FILE(counts_readings, "perf.counts.readings", "lua/perf/counts/readings.lua") \
	FILE(counts_readings_by_c_api, "perf.counts.readings_by_c_api", "lua/perf/counts/readings_by_c_api.lua") \
	FILE(counts_readings_by_ffi, "perf.counts.readings_by_ffi", "lua/perf/counts/readings_by_ffi.lua") \
	FILE(event_merge, "perf.event.merge", "lua/perf/event/merge.lua") \
	FILE(event_refusal, "perf.event.refusal", "lua/perf/event/refusal/init.lua") \
	FILE(measure_abandoned, "perf.measure.abandoned", "lua/perf/measure/abandoned.lua") \
	FILE(record, "perf.record", "lua/perf/record/init.lua") \
	FILE(record_cdata, "perf.record.cdata", "lua/perf/record/cdata.lua") \
	FILE(record_limits, "perf.record.limits", "lua/perf/record/limits.lua")

#define EMBED(name, module, path) PB_EMBED(lua_##name, path)
FILES(EMBED)

/* A searcher, which comes after those of Lua. Upvalue 1: the text before "perf/" in the library's chunk names, so that
 * the chunk has the name that it would have if it were loaded from its file. */
static int l_search(lua_State *L)
{
#define ENTRY(name, module, path) {module, path, pb_file_lua_##name, pb_file_lua_##name##_end},
	static const struct {
		const char *module, *path, *from, *to;
	} files[] = {FILES(ENTRY)};
	const char *module = luaL_checkstring(L, 1);

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		if (strcmp(files[i].module, module) != 0)
			continue;
		lua_pushfstring(L, "%s%s", lua_tostring(L, lua_upvalueindex(1)), files[i].path + sizeof "lua/" - 1);
		if (luaL_loadbuffer(L, files[i].from, (size_t)(files[i].to - files[i].from), lua_tostring(L, -1)) != 0)
			return lua_error(L);
		return 1;
	}
	return 0;
}

/* core.add_searcher([root]): adds the searcher to package.searchers (package.loaders in Lua 5.1), unless it is there already. The first
 * call in a Lua state makes the searcher, with a root; later calls need none. */
static int l_add_searcher(lua_State *L)
{
	static const char key;
	int n;

	lua_settop(L, 1);
	lua_pushlightuserdata(L, (void *)&key);
	lua_rawget(L, LUA_REGISTRYINDEX);
	if (lua_isnil(L, -1)) {
		luaL_checkstring(L, 1);
		lua_pushlightuserdata(L, (void *)&key);
		lua_pushvalue(L, 1);
		lua_pushcclosure(L, l_search, 1);
		lua_rawset(L, LUA_REGISTRYINDEX);
		lua_pushlightuserdata(L, (void *)&key);
		lua_rawget(L, LUA_REGISTRYINDEX);
	}
	lua_replace(L, 1);
	lua_settop(L, 1);
	lua_getglobal(L, "package");
	if (!lua_istable(L, -1))
		return 0;
	lua_getfield(L, -1, LUA_VERSION_NUM == 501 ? "loaders" : "searchers");
	if (!lua_istable(L, -1))
		return 0;
	n = (int)pb_rawlen(L, -1);
	for (int i = 1; i <= n; i++) {
		lua_rawgeti(L, -1, i);
		if (lua_tocfunction(L, -1) == l_search)
			return 0;
		lua_pop(L, 1);
	}
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, n + 1);
	return 0;
}

void pb_open_lua_files(lua_State *L)
{
	pb_set_function(L, "add_searcher", l_add_searcher);
}

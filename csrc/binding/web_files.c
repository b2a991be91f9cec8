/* The pages, styles and scripts that lie beside the Lua modules which use them. The build includes them unchanged, so that an
 * installed module reads no files but Lua's. */
#include <string.h>

#include "binding/base/binding.h"
#include "binding/embed.h"

#define FILES(FILE)                                                                                                              \
	FILE(page_frame, "perf/base/page.html")                                                                                   \
	FILE(flamegraph_page, "perf/profile/report/flamegraph/page.html")                                                         \
	FILE(flamegraph_style, "perf/profile/report/flamegraph/style.css")                                                        \
	FILE(flamegraph_tree, "perf/profile/report/flamegraph/tree.js")                                                           \
	FILE(flamegraph_table, "perf/profile/report/flamegraph/table.js")                                                         \
	FILE(flamegraph_script, "perf/profile/report/flamegraph/script.js")                                                       \
	FILE(flamegraph_state, "perf/profile/report/flamegraph/state.js")                                                         \
	FILE(bench_page, "perf/bench/page/page.html")                                                                             \
	FILE(bench_style, "perf/bench/page/style.css")                                                                            \
	FILE(bench_script, "perf/bench/page/script.js")                                                                           \
	FILE(heap_page, "perf/heap/page/page.html")                                                                               \
	FILE(heap_style, "perf/heap/page/style.css")                                                                              \
	FILE(heap_script, "perf/heap/page/script.js")                                                                             \
	FILE(status_page, "resty/perf/status/page.html")                                                                          \
	FILE(status_style, "resty/perf/status/style.css")                                                                         \
	FILE(status_script, "resty/perf/status/script.js")

#define EMBED(name, path) PB_EMBED(web_##name, "lua/" path)
FILES(EMBED)

/* core.web_file(path): its contents; the path begins below lua/. */
static int l_web_file(lua_State *L)
{
#define ENTRY(name, path) {path, pb_file_web_##name, pb_file_web_##name##_end},
	static const struct {
		const char *path, *from, *to;
	} files[] = {FILES(ENTRY)};
	const char *path = luaL_checkstring(L, 1);

	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (strcmp(files[i].path, path) == 0)
			return pb_bytes(L, files[i].from, (size_t)(files[i].to - files[i].from));
	return luaL_error(L, "no file %s is built in", path);
}

void pb_open_web_files(lua_State *L)
{
	pb_set_function(L, "web_file", l_web_file);
}

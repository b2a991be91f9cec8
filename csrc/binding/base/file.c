/* Output: a file that appears under its name only when it is complete (core/base/file.h). The userdata is made before the file. */
#include "core/base/file.h"
#include "core/base/thread.h"

#include <string.h>
#include <unistd.h>

#include "binding/base/binding.h"

#define PB_OUTPUT "perf.Output"

static struct pf_output *check_output(lua_State *L)
{
	return pb_check(L, 1, PB_OUTPUT, "Output");
}

static struct pf_output *check_open(lua_State *L)
{
	struct pf_output *o = check_output(L);

	luaL_argcheck(L, o->fd >= 0, 1, "Output is closed");
	if (pf_inherited(o->generation))
		pb_refuse_inherited(L, 1, "Output");
	return o;
}

/* core.output(path): an Output; or nil, message, code. */
static int l_output(lua_State *L)
{
	const char *path = pb_check_path(L, 1);
	struct pf_output *o = pb_new(L, sizeof *o, PB_OUTPUT);
	int r;

	o->fd = -1;
	r = pf_output_open(o, path);
	return r < 0 ? pb_fail(L, r, "%s", path) : 1;
}

/* output:write(bytes, ...): true, or nil, message, code. */
static int l_write(lua_State *L)
{
	struct pf_output *o = check_open(L);
	int n = lua_gettop(L);

	for (int i = 2; i <= n; i++) {
		size_t size;
		const char *bytes = luaL_checklstring(L, i, &size);
		int r = pf_output_write(o, bytes, size);

		if (r < 0)
			return pb_fail(L, r, "%s", o->path);
	}
	return pb_bool(L, 1);
}

/* output:commit(): true; or nil, message, code, and nothing of the file remains. */
static int l_commit(lua_State *L)
{
	struct pf_output *o = check_open(L);
	int r;

	lua_pushstring(L, o->path);
	r = pf_output_commit(o);
	return r < 0 ? pb_fail(L, r, "%s", lua_tostring(L, -1)) : pb_result(L, 0, "");
}

/* output:place(): the path of the unfinished file, for other code to write to. */
static int l_place(lua_State *L)
{
	struct pf_output *o = check_open(L);

	return pb_text(L, o->temp ? o->temp : o->path);
}

static int l_close(lua_State *L)
{
	pf_output_close(check_output(L));
	return 0;
}

/* core.is_terminal(fd). os.execute "test -t 2" would ignore SIGINT while it runs. */
static int l_is_terminal(lua_State *L)
{
	return pb_bool(L, isatty((int)luaL_checkinteger(L, 1)));
}

void pb_open_output(lua_State *L)
{
	static const luaL_Reg functions[] = {{"output", l_output}, {"is_terminal", l_is_terminal}, {NULL, NULL}};
	static const luaL_Reg methods[] = {
		{"write", l_write}, {"commit", l_commit}, {"place", l_place}, {"close", l_close}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_OUTPUT, methods, l_close);
}

/* The keys of a terminal. */
#include "core/process/keys.h"
#include "binding/base/binding.h"

/* core.keys(): reads keys from now on, until core.keys_end(); false if there is no terminal. Only the caller that got true may
 * call the other functions. */
static int l_keys(lua_State *L)
{
	return pb_bool(L, pf_keys_begin());
}

/* core.key(): the next byte that was typed, as a string; or nil and nil, "away", "gone" or "again", see core/process/keys.h. */
static int l_key(lua_State *L)
{
	const int key = pf_keys_next();
	const char byte = (char)key;

	if (key >= 0)
		return pb_bytes(L, &byte, 1);
	lua_pushnil(L);
	if (key == PF_KEYS_NONE)
		return 1;
	lua_pushstring(L, key == PF_KEYS_AWAY ? "away" : key == PF_KEYS_GONE ? "gone" : "again");
	return 2;
}

static int l_keys_end(lua_State *L)
{
	(void)L;
	pf_keys_end();
	return 0;
}

/* core.terminal_size([fd]): the rows and columns of the terminal that fd (default: stdout) refers to; 0 if they are unknown. */
static int l_size(lua_State *L)
{
	int rows, columns;

	pf_keys_size((int)luaL_optinteger(L, 1, 1), &rows, &columns);
	lua_pushinteger(L, rows);
	lua_pushinteger(L, columns);
	return 2;
}

void pb_open_keys(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{"keys", l_keys}, {"key", l_key}, {"keys_end", l_keys_end}, {"terminal_size", l_size}, {NULL, NULL}};

	pb_register(L, functions);
}

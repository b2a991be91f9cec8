/* 64-bit values in a language whose numbers may be doubles:
 *
 *   Lua 5.3+       an integer, two's complement
 *   LuaJIT         a number up to 2^53, beyond it an int64_t or uint64_t cdata
 *   Lua 5.1, 5.2   a number up to 2^53, beyond it a string "0x..."
 *
 * The C API cannot make or read a LuaJIT cdata. Two small functions written with its FFI, kept in the registry, do that. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding/base/binding.h"

#define EXACT (UINT64_C(1) << 53)

#if LUA_VERSION_NUM < 503
static const char key_make, key_split;

static const char ffi_source[] =
	"local ok, ffi = pcall(require, 'ffi')\n"
	"if not ok then return end\n"
	"local i64, u64 = ffi.typeof('int64_t'), ffi.typeof('uint64_t')\n"
	"local two32 = u64(4294967296)\n"
	"return function(hi, lo, signed)\n"
	"  local v = u64(hi) * two32 + u64(lo)\n"
	"  return signed and i64(v) or v\n"
	"end, function(v)\n"
	"  if ffi.istype(i64, v) and v < 0 then\n"
	"    v = u64(v)\n"
	"    return tonumber(v / two32), tonumber(v % two32), true\n"
	"  elseif ffi.istype(i64, v) or ffi.istype(u64, v) then\n"
	"    v = u64(v)\n"
	"    return tonumber(v / two32), tonumber(v % two32), false\n"
	"  end\n"
	"end\n";

static void push_big(lua_State *L, uint64_t v, int is_signed)
{
	char text[24];

	lua_pushlightuserdata(L, (void *)&key_make);
	lua_rawget(L, LUA_REGISTRYINDEX);
	if (lua_isnil(L, -1)) {
		lua_pop(L, 1);
		snprintf(text, sizeof text, "0x%llx", (unsigned long long)v);
		lua_pushstring(L, text);
		return;
	}
	lua_pushnumber(L, (lua_Number)(v >> 32));
	lua_pushnumber(L, (lua_Number)(v & UINT32_MAX));
	lua_pushboolean(L, is_signed);
	lua_call(L, 3, 1);
}

static int split_cdata(lua_State *L, int i, uint64_t *out, int *negative)
{
	int ok;

	lua_pushvalue(L, i);
	lua_pushlightuserdata(L, (void *)&key_split);
	lua_rawget(L, LUA_REGISTRYINDEX);
	if (lua_isnil(L, -1)) {
		lua_pop(L, 2);
		return 0;
	}
	lua_insert(L, -2);
	lua_call(L, 1, 3);
	ok = lua_isnumber(L, -3);
	if (ok) {
		*out = (uint64_t)lua_tonumber(L, -3) << 32 | (uint64_t)lua_tonumber(L, -2);
		*negative = lua_toboolean(L, -1);
	}
	lua_pop(L, 3);
	return ok;
}
#endif

#if LUA_VERSION_NUM < 503
void pb_push_u64(lua_State *L, uint64_t v)
{
	if (v <= EXACT)
		lua_pushnumber(L, (lua_Number)v);
	else
		push_big(L, v, 0);
}

void pb_push_i64(lua_State *L, int64_t v)
{
	if (v <= (int64_t)EXACT && v >= -(int64_t)EXACT)
		lua_pushnumber(L, (lua_Number)v);
	else
		push_big(L, (uint64_t)v, 1);
}
#endif

static int from_string(const char *s, uint64_t *out)
{
	char *end;
	size_t digits;

	if (s[0] != '0' || (s[1] != 'x' && s[1] != 'X'))
		return 0;
	digits = strspn(s + 2, "0123456789abcdefABCDEF");
	if (digits == 0 || digits > 16 || s[2 + digits])
		return 0;
	*out = strtoull(s, &end, 16);
	return 1;
}

int pb_to_u64(lua_State *L, int i, uint64_t *out, int *negative)
{
	*negative = 0;
	switch (lua_type(L, i)) {
	case LUA_TNUMBER: {
		lua_Number n;
#if LUA_VERSION_NUM >= 503
		if (lua_isinteger(L, i)) {
			lua_Integer v = lua_tointeger(L, i);
			*negative = v < 0;
			*out = (uint64_t)v;
			return 1;
		}
#endif
		n = lua_tonumber(L, i);
		if (!(n >= -9223372036854775808.0 && n < 18446744073709551616.0) || n != floor(n))
			return 0;
		*negative = n < 0;
		*out = n < 0 ? (uint64_t)(int64_t)n : (uint64_t)n;
		return 1;
	}
	case LUA_TSTRING:
		return from_string(lua_tostring(L, i), out);
#if LUA_VERSION_NUM < 503
	case 10: /* LuaJIT's cdata, which has no name in lua.h */
		return split_cdata(L, i, out, negative);
#endif
	default:
		return 0;
	}
}

uint64_t pb_check_u64(lua_State *L, int i, uint64_t max)
{
	uint64_t v = 0;
	int negative;

	if (!pb_to_u64(L, i, &v, &negative))
		luaL_argerror(L, i, lua_pushfstring(L, "integer expected, got %s", luaL_typename(L, i)));
	if (negative || v > max)
		luaL_argerror(L, i, "out of range");
	return v;
}

static uint64_t operand(lua_State *L, int i)
{
	uint64_t v = 0;
	int negative;

	if (!pb_to_u64(L, i, &v, &negative))
		luaL_argerror(L, i, lua_pushfstring(L, "integer expected, got %s", luaL_typename(L, i)));
	return v;
}

/*** The hexadecimal digits of any 64-bit value that this module returns.
 * @function perf.hex
 * @tparam any value number, string "0x...", or 64-bit cdata
 * @treturn string "0x..." */
static int l_hex(lua_State *L)
{
	char text[24];

	snprintf(text, sizeof text, "0x%llx", (unsigned long long)operand(L, 1));
	return pb_text(L, text);
}

/* core.u64(low, high): the value with these two halves of 32 bits. */
static int l_u64(lua_State *L)
{
	uint64_t lo = pb_check_u64(L, 1, UINT32_MAX), hi = pb_check_u64(L, 2, UINT32_MAX);

	return pb_u64(L, hi << 32 | lo);
}

/* core.halves(v): low and high 32 bits of any 64-bit value, as numbers. */
static int l_halves(lua_State *L)
{
	const uint64_t v = operand(L, 1);

	pb_push_u64(L, v & UINT32_MAX); /* a lua_Integer may have 32 bits, with a sign */
	pb_push_u64(L, v >> 32);
	return 2;
}

/* core.bor(a, b, ...), core.band(a, b), core.shl(a, n), core.shr(a, n): 64-bit operations, for every interpreter. */
static int l_bor(lua_State *L)
{
	uint64_t v = 0;

	for (int i = lua_gettop(L); i > 0; i--)
		v |= operand(L, i);
	return pb_u64(L, v);
}

static int l_band(lua_State *L)
{
	return pb_u64(L, operand(L, 1) & operand(L, 2));
}

static int l_shl(lua_State *L)
{
	uint64_t n = pb_check_u64(L, 2, 64);

	return pb_u64(L, n > 63 ? 0 : operand(L, 1) << n);
}

static int l_shr(lua_State *L)
{
	uint64_t n = pb_check_u64(L, 2, 64);

	return pb_u64(L, n > 63 ? 0 : operand(L, 1) >> n);
}

/* core.bytes(widths, number, ...): numbers of 1, 2, 4 or 8 bytes in this machine's order: core.bytes("84", a, b) has 12 bytes. */
static int l_bytes(lua_State *L)
{
	size_t n, at = 0;
	const char *widths = luaL_checklstring(L, 1, &n);
	unsigned char out[16 * 8];

	luaL_argcheck(L, n <= 16 && strspn(widths, "1248") == n, 1, "up to 16 of the digits 1, 2, 4 and 8 expected");
	for (size_t i = 0; i < n; i++) {
		const uint64_t v = operand(L, (int)i + 2);
		const int width = widths[i] - '0';

		for (int k = 0; k < width; k++)
			out[at++] = (unsigned char)(v >> 8 * (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? k : width - 1 - k));
	}
	return pb_bytes(L, out, at);
}

void pb_open_int64(lua_State *L)
{
	static const luaL_Reg functions[] = {{"hex", l_hex},   {"u64", l_u64}, {"halves", l_halves}, {"bor", l_bor}, {"band", l_band},
					     {"shl", l_shl},   {"shr", l_shr}, {"bytes", l_bytes},   {NULL, NULL}};
	pb_register(L, functions);
#if LUA_VERSION_NUM < 503
	if (luaL_loadstring(L, ffi_source) != 0)
		lua_error(L);
	lua_call(L, 0, 2);
	if (!lua_isnil(L, -1)) {
		lua_pushlightuserdata(L, (void *)&key_split);
		lua_insert(L, -2);
		lua_rawset(L, LUA_REGISTRYINDEX);
		lua_pushlightuserdata(L, (void *)&key_make);
		lua_insert(L, -2);
		lua_rawset(L, LUA_REGISTRYINDEX);
	} else {
		lua_pop(L, 2);
	}
#endif
}

/* Functions that all files of the binding share: results of failed calls, 64-bit values, checks of arguments. */
#ifndef PB_BINDING_H
#define PB_BINDING_H

#include <stdint.h>

#include "binding/base/class.h"

/* error.c: pushes nil, "what: reason", "ECODE" for a negative errno. Returns 3. */
int pb_fail(lua_State *L, int err, const char *what, ...) __attribute__((format(printf, 3, 4)));
/* The same without errno's text, where that would mislead: nil, what, "ECODE". */
int pb_refuse(lua_State *L, int err, const char *what, ...) __attribute__((format(printf, 3, 4)));
/* The errno's symbol, or "E<number>" if errno.def lacks it. */
void pb_push_errno(lua_State *L, int err);
/* The same for a failed read of a group. */
int pb_fail_read(lua_State *L, int err);
/* The message for the use of an inherited object in the child of a fork; takes the name of its class. */
#define PB_INHERITED "%s belongs to the parent process: it was opened before a fork; open another one here"
/* Raises that message for argument i. */
void pb_refuse_inherited(lua_State *L, int i, const char *what);
/* true, or pb_fail. */
int pb_result(lua_State *L, int r, const char *what);

/* int64.c: 64-bit values by the rule of the API: never rounded. */
#if LUA_VERSION_NUM >= 503
static inline void pb_push_i64(lua_State *L, int64_t v)
{
	lua_pushinteger(L, v);
}

static inline void pb_push_u64(lua_State *L, uint64_t v)
{
	pb_push_i64(L, (int64_t)v);
}
#else
void pb_push_u64(lua_State *L, uint64_t v);
void pb_push_i64(lua_State *L, int64_t v); /* also for addresses: sign-extended */
#endif
/* The value at i: an integer, a 64-bit cdata or a "0x" string. Negative numbers are two's complement and set *negative.
 * Returns 0 if it is not one of these. */
int pb_to_u64(lua_State *L, int i, uint64_t *out, int *negative);
/* The same for argument i; raises. max is the largest value; a negative value is refused. */
uint64_t pb_check_u64(lua_State *L, int i, uint64_t max);

/* argument.c: a string that can be a path. A string with a zero byte is refused, since the kernel would ignore the rest. */
const char *pb_check_path(lua_State *L, int i);
/* Raises if something is wrong with the options at i of a method. The module's field `mistakes` is a table in which the Lua layer
 * puts functions by the method's name: each returns what is wrong with its argument, or nil. */
#define PB_MISTAKES "perf.mistakes"
void pb_check_options(lua_State *L, int i, const char *method);
/* Push a Lua module, which is loaded at its first use. */
void pb_push_module(lua_State *L, const char *name);
/* Replace the array of names on top of the stack by the end of a message about an unknown name, "; did you mean ...?" or "", which
 * perf.base.suggest returns. */
void pb_push_hint(lua_State *L, const char *name);
/* Push lower-case hexadecimal digits. */
void pb_push_hex(lua_State *L, const unsigned char *bytes, size_t n);

/* pb_TYPE(L, v) pushes a value and returns 1, for the end of a function; pb_set_TYPE(L, key, v) sets a field of the table on top of
 * the stack. Text may be NULL: nil. */
#define PB_VALUE(name, type, push)                                                   \
	static inline int pb_##name(lua_State *L, type v)                            \
	{                                                                            \
		push(L, v);                                                          \
		return 1;                                                            \
	}                                                                            \
	static inline void pb_set_##name(lua_State *L, const char *key, type v)      \
	{                                                                            \
		push(L, v);                                                          \
		lua_setfield(L, -2, key);                                            \
	}
PB_VALUE(bool, int, lua_pushboolean)
PB_VALUE(int, lua_Integer, lua_pushinteger)
PB_VALUE(number, lua_Number, lua_pushnumber)
PB_VALUE(u64, uint64_t, pb_push_u64)
PB_VALUE(i64, int64_t, pb_push_i64)
PB_VALUE(text, const char *, lua_pushstring)
PB_VALUE(function, lua_CFunction, lua_pushcfunction)
PB_VALUE(pointer, void *, lua_pushlightuserdata)

#define PB_BYTES(name, push)                                                                    \
	static inline int pb_##name(lua_State *L, const void *bytes, size_t n)                  \
	{                                                                                       \
		push(L, bytes, n);                                                              \
		return 1;                                                                       \
	}                                                                                       \
	static inline void pb_set_##name(lua_State *L, const char *key, const void *bytes, size_t n) \
	{                                                                                       \
		push(L, bytes, n);                                                              \
		lua_setfield(L, -2, key);                                                       \
	}
PB_BYTES(bytes, lua_pushlstring)
PB_BYTES(hex, pb_push_hex)

static inline int pb_nil(lua_State *L)
{
	lua_pushnil(L);
	return 1;
}

/* The parts of the module. pb_open_NAME adds functions and classes to the module's table, which is on top of the stack. A file that
 * adds methods to another's class comes after that. The parts of PB_OPEN are opened at once: a measurement needs them, or their objects
 * must be older than all others. The parts of PB_OPEN_LATER are opened together, when a name is used that the table does not have. */
#define PB_OPEN(X) \
	X(error) X(int64) X(attr) X(event) X(memory) X(meter) X(counts) X(guard) X(measure) X(defs) X(lifetime) X(lua_files)
#define PB_OPEN_LATER(X)                                                                                                        \
	X(record) X(ring) X(ring_wait) X(ring_lost) X(ring_output) X(ring_source) X(packed) X(layouts) X(data) X(data_source)  \
	X(data_write) X(tally) X(process) X(keys) X(terminate) X(output) X(accounting) X(chunks) X(channel) X(thread) X(bpf)   \
	X(profiler) X(web_files) X(peek) X(outside) X(heap) X(host) X(trace)

#define X(name) void pb_open_##name(lua_State *L);
PB_OPEN(X)
PB_OPEN_LATER(X)
#undef X

#endif

/* Classes of userdata: their metatables and the check of an argument, for the binding and the extensions. */
#ifndef PB_CLASS_H
#define PB_CLASS_H

#include <string.h>

#include "binding/base/compat.h"

/* Pushes the metatable tname. The finalizer is also __close, so it must be idempotent; NULL if there is nothing to release. */
static inline void pb_class(lua_State *L, const char *tname, const luaL_Reg *methods, lua_CFunction collect)
{
	static const char *const names[] = {"__gc", "__close"};

	luaL_newmetatable(L, tname);
	for (size_t i = 0; collect && i < sizeof names / sizeof *names; i++) {
		lua_pushcfunction(L, collect);
		lua_setfield(L, -2, names[i]);
	}
	lua_newtable(L);
	pb_register(L, methods);
	lua_setfield(L, -2, "__index");
	lua_pushstring(L, tname);
	lua_setfield(L, -2, "__name");
}

/* The same, for a class that only the registry has. */
static inline void pb_new_class(lua_State *L, const char *tname, const luaL_Reg *methods, lua_CFunction collect)
{
	pb_class(L, tname, methods, collect);
	lua_pop(L, 1);
}

/* Add methods to a class whose metatable is that field of the table on top of the stack. */
static inline void pb_extend(lua_State *L, const char *field, const luaL_Reg *methods)
{
	lua_getfield(L, -1, field);
	lua_getfield(L, -1, "__index");
	pb_register(L, methods);
	lua_pop(L, 2);
}

/* Push a zeroed userdata of that class, without a uservalue yet. */
static inline void *pb_new(lua_State *L, size_t size, const char *tname)
{
	void *p = memset(pb_newuserdata(L, size), 0, size);

	luaL_getmetatable(L, tname);
	lua_setmetatable(L, -2);
	return p;
}

/* A userdata that owns what C allocated, so that the collector releases it after a Lua error. pb_release does so at once. */
#define PB_OWNED "perf.Owned"
struct pb_owned {
	void *p;
	void (*drop)(void *p);
};

static inline void pb_release(struct pb_owned *o)
{
	if (o->p)
		o->drop(o->p);
	o->p = NULL;
}

static inline int pb_collect_owned(lua_State *L)
{
	struct pb_owned *o = pb_test(L, 1, PB_OWNED);

	if (o)
		pb_release(o);
	return 0;
}

/* Push an owner of nothing yet. */
static inline struct pb_owned *pb_owner(lua_State *L, void (*drop)(void *p))
{
	struct pb_owned *o = pb_newplain(L, sizeof *o);

	*o = (struct pb_owned){NULL, drop};
	luaL_getmetatable(L, PB_OWNED);
	if (lua_isnil(L, -1)) { /* registered when it is complete: memory may be refused at each step */
		lua_createtable(L, 0, 1);
		lua_replace(L, -2);
		lua_pushcfunction(L, pb_collect_owned);
		lua_setfield(L, -2, "__gc");
		lua_pushvalue(L, -1);
		lua_setfield(L, LUA_REGISTRYINDEX, PB_OWNED);
	}
	lua_setmetatable(L, -2);
	return o;
}

/* While a reader reads bytes of a ring or a file, Lua may allocate, the collector may run, and a finalizer may close the ring or
 * the file. So the reader holds the object: its memory is then freed when the hold ends, or, if an error ended the reader, when
 * the object is collected. Holds nest. */
struct pb_hold {
	unsigned char held, closed; /* closed: while it was held */
};

static inline int pb_hold(struct pb_hold *h)
{
	const int outer = h->held;

	h->held = 1;
	return outer;
}

/* End a hold. outer: the result of pb_hold. Returns whether the caller must free the memory now. */
static inline int pb_unhold(struct pb_hold *h, int outer)
{
	h->held = outer != 0;
	return h->closed && !outer;
}

/* The userdata at i; raises "CLASS expected, got TYPE" for any other value. */
static inline void *pb_check(lua_State *L, int i, const char *tname, const char *what)
{
	void *p = pb_test(L, i, tname);

	if (!p)
		luaL_argerror(L, i, lua_pushfstring(L, "%s expected, got %s", what, luaL_typename(L, i)));
	return p;
}

#endif

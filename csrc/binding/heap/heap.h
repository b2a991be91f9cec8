/* Snapshots of a Lua state's objects. */
#ifndef PB_HEAP_H
#define PB_HEAP_H

#include "binding/heap/learn.h"
#include "core/heap/process.h"

/* Take a heap of L's state, or if child is not NULL start a child that takes it. Returns 0, or -errno, with the reason in *why if it is
 * the interpreter; call pf_heap_free after either. Changes nothing in the state. */
int pb_heap_take(lua_State *L, struct pf_heap *h, struct pf_heap_child *child, const char **why);
/* Learn the structures of the interpreter. It takes up to 40 ms, once for a process and the children of its forks. Returns 0 or -errno,
 * as pb_heap_take does; *known: whether they were known before. */
int pb_heap_find_layout(int *known, const char **why);
/* The number of the object that is the value at index i; 0 if the heap has no object of its type at its address. */
uint32_t pb_heap_object(lua_State *L, int i, const struct pf_heap *h);

/* The Snapshot at index 1; the number of one of its objects at index 2. Raise an error. */
struct pf_heap *pb_heap_check(lua_State *L);
uint32_t pb_heap_check_object(lua_State *L, const struct pf_heap *h);
/* Methods of Snapshot, in largest.c. */
int pb_heap_choose(lua_State *L);
int pb_heap_go_on(lua_State *L);
int pb_heap_references(lua_State *L);

#endif

/* The parts of perf.ext.bpf: bpf.c (objects, programs), bpf_map.c (maps), bpf_global.c (global variables). */
#ifndef PX_BPF_H
#define PX_BPF_H

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "ext/base/ext.h"

#define PX_BPF_OBJECT "perf.bpf.Object"

/* Owns everything that libbpf made from one file. Maps keep it alive by their uservalue. obj is NULL when closed. Its uservalue
 * maps the name of a program to the table that the caller has. */
struct px_bpf {
	struct bpf_object *obj;
	int loaded;
	uint32_t generation; /* pf_fork_generation at the opening */
};

/* The object at i; raises if it is closed, or was opened by the parent before a fork. */
struct px_bpf *px_bpf_check(lua_State *L, int i);

/* bpf_map.c: push the map userdata; the object is at index object. */
void px_bpf_push_map(lua_State *L, int object, struct bpf_map *map);
void px_bpf_push_map_info(lua_State *L, const struct bpf_map *map);
void px_bpf_open_map(lua_State *L);

/* A key, value or variable of size bytes: 4 and 8 bytes are integers, others strings. px_bpf_to_bytes takes the value from the top
 * of the stack, and raises an error for argument arg if it does not fit. */
void px_bpf_push_bytes(lua_State *L, const void *bytes, size_t size);
void px_bpf_to_bytes(lua_State *L, int arg, const char *what, void *bytes, size_t size);

/* bpf_global.c: obj:global(name), obj:set_global(name, value). */
int px_bpf_global(lua_State *L);
int px_bpf_set_global(lua_State *L);

#endif

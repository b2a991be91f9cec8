/* Profiler: a sampler, and this interpreter's engine, which finds the stacks. Its uservalue keeps the Event alive. */
#ifndef PB_PROFILER_H
#define PB_PROFILER_H

#include "core/profile/allocations.h"
#include "binding/event/event.h"
#include "binding/stack/stack.h"

#define PB_PROFILER "perf.Profiler"

/* One in each Lua state, from the loading of the module to the state's close. */
struct pb_lifetime {
	lua_State *main; /* its main thread; NULL if Lua 5.1 does not have it */
	struct pb_profiler *running; /* the first of those that run, linked by `next` */
	int closing;
	unsigned marks; /* the number of running profilers that use marks in compiled code */
	/* Those that are or were in front of the state's allocator, the newest first. */
	struct pf_allocator *allocators;
	uint64_t counters; /* of collections, so far */
};

struct pb_profiler {
	struct pf_sampler s;
	struct pb_stack stack;
	struct pb_lifetime *lifetime; /* ends with its Lua state */
	struct pb_profiler *next;
	uint64_t counter; /* of collections; 0: none, or it could not go on */
	int safe_point; /* its stacks are taken at safe points, not unwound */
	uint64_t every; /* of allocations: bytes between two samples, on average; 0: it has an event */
	struct pf_allocations allocations;
};

/* The Profiler at index 1. */
struct pb_profiler *pb_check_profiler(lua_State *L);

/* profile/allocator.c. count_collections: begin to count them while the profiler runs; raises an error if there is no memory. add: put
 * the profiler in front of the allocator of L's state. remove: the opposite. Both return 0 or -ENOMEM; that of remove means that
 * collections could not be counted to the end. close: the state closes, and no profiler runs. */
void pb_count_collections(lua_State *L, struct pb_profiler *p);
int pb_allocator_add(lua_State *L, struct pb_profiler *p);
int pb_allocator_remove(lua_State *L, struct pb_profiler *p);
void pb_allocators_close(lua_State *L, struct pb_lifetime *life);

/* profile/result.c: profiler:result(), profiler:snapshot() and core.moment. */
int pb_profiler_result(lua_State *L);
int pb_profiler_snapshot(lua_State *L);
int pb_profiler_live(lua_State *L);
int pb_profiler_resume(lua_State *L);
int pb_moment(lua_State *L);

#endif

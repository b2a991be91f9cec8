/* Profiler: a sampler, and this interpreter's engine, which finds the stacks. Its uservalue keeps the Event alive. */
#ifndef PB_PROFILER_H
#define PB_PROFILER_H

#include "core/profile/allocations.h"
#include "binding/event/event.h"
#include "binding/memory/allocator.h"
#include "binding/stack/stack.h"

#define PB_PROFILER "perf.Profiler"

/* One in each Lua state, from the loading of the module to the state's close. */
struct pb_lifetime {
	lua_State *main; /* its main thread; NULL if Lua 5.1 does not have it */
	struct pb_profiler *running; /* the first of those that run, linked by `next` */
	int closing;
	/* The number of running profilers that use marks in compiled code, of the process with this pf_fork_generation. */
	unsigned marks;
	uint32_t marks_generation;
	struct pb_allocators *allocators;
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

/* profile/collections.c: begin to count the collections while the profiler runs; raises an error if there is no memory. Pushes the object
 * whose finalizer counts the next collection. The finalizer searches the list of running profilers, so the caller must keep the object
 * until the profiler is in that list. */
void pb_count_collections(lua_State *L, struct pb_profiler *p);

/* profile/result.c: profiler:result(), snapshot(), resume(), and core.moment. */
int pb_profiler_result(lua_State *L);
int pb_profiler_snapshot(lua_State *L);
int pb_profiler_resume(lua_State *L);
int pb_moment(lua_State *L);

#endif

/* Profiler: a sampler, and this interpreter's engine, which finds the stacks. Its uservalue keeps the Event alive. */
#ifndef PB_PROFILER_H
#define PB_PROFILER_H

#include "core/profile/sampler.h"
#include "binding/event/event.h"
#include "binding/stack/stack.h"

#define PB_PROFILER "perf.Profiler"

/* One in each Lua state, from the loading of the module to the state's close. */
struct pb_lifetime {
	lua_State *main; /* its main thread; NULL if Lua 5.1 does not have it */
	struct pb_profiler *running; /* the first of those that run, linked by `next` */
	int closing;
	unsigned marks; /* the number of running profilers that use marks in compiled code */
};

struct pb_profiler {
	struct pf_sampler s;
	struct pb_stack stack;
	struct pb_lifetime *lifetime; /* ends with its Lua state */
	struct pb_profiler *next;
	int marks;      /* it uses marks */
	int safe_point; /* its stacks are taken at safe points, not unwound */
};

/* The Profiler at index 1. */
struct pb_profiler *pb_check_profiler(lua_State *L);

/* profile/result.c: profiler:result() and core.moment. */
int pb_profiler_result(lua_State *L);
int pb_moment(lua_State *L);

#endif

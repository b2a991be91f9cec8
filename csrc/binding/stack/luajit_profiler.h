#ifndef PB_LUAJIT_PROFILER_H
#define PB_LUAJIT_PROFILER_H

#include "binding/stack/stack.h"

#if PB_LUAJIT
/* Start LuaJIT's own profiler in this mode, with the callback pb_luajit_on_profile and p as its data. Returns 0, or -errno with the
 * reason in *why: -EBUSY if the program uses it. The caller has claimed the process. Start and stop discard all compiled code if the
 * mode is "l" or "f". */
int pb_luajit_profiler_start(lua_State *L, const char *mode, struct pb_stack *p, const char **why);
void pb_luajit_profiler_stop(lua_State *L, const struct pb_stack *p);
/* Request the callback at the next safe point. May be called in a signal handler, like the two below. */
void pb_luajit_profiler_ask(void);
/* Does LuaJIT's profiler run for p, or for any of ours if p is NULL? Does it run, for anyone, in the state with this global state? */
int pb_luajit_profiler_ours(const struct pb_stack *p);
int pb_luajit_profiler_runs(uint64_t global);

/* luajit.c */
void pb_luajit_on_profile(void *data, lua_State *L, int samples, int vmstate);
#endif
#endif

/* What the files of the profiler share.
 *
 *   profiler.c             the userdata: start, stop, what was found
 *   profiler_walk.c        a Lua stack as frames of the core's
 *   profiler_luajit.c      how a signal gets to a safe point, and what the interpreter was at: LuaJIT, by its own profiler's hook
 *   profiler_luajit_function.c    which C function ran when the signal came
 *   profiler_puc.c         the same for PUC Lua, by lua_sethook
 *   profiler_coroutine.c   functions in place of the library's that tell who resumed and who made a coroutine */
#ifndef PB_PROFILER_H
#define PB_PROFILER_H

#include "../core/sampler.h"
#include "binding.h"

#if LUA_VERSION_NUM == 501 && defined __has_include
#if __has_include(<luajit.h>)
#include <luajit.h>
#endif
#endif
#ifdef LUAJIT_VERSION_NUM
#define PB_LUAJIT 1
#else
#define PB_LUAJIT 0
#endif

/* What a profiler's uservalue keeps alive. */
enum { PB_KEPT_EVENT = 1, PB_KEPT_CELL, PB_KEPT_THREAD, PB_KEPT_LIFETIME };

enum { PB_COROUTINES_ALONE, PB_COROUTINES_RESUMER, PB_COROUTINES_CREATOR };

/* A resumption that is going on, or that an error has ended; see profiler_coroutine.c. */
struct pb_resumption {
	lua_State *L, *from;
	struct pb_resumption *outer;
};

/* One of each Lua state, from the loading of the module to the state's close. */
struct pb_lifetime {
	lua_State *main; /* its main thread; NULL where Lua 5.1 did not tell */
	struct pb_profiler *running;
	int closing;
};

struct pb_profiler {
	struct pf_sampler s;
	int may_ask; /* whether a system call of the signal's handler is no event of its own */
	int coroutines;
	int tells;    /* whether it is to be told who resumes whom */
	int creators; /* reference to the table of nodes by thread */
	struct pb_cell *cell;           /* by which the functions find it */
	struct pb_lifetime *lifetime;   /* of its state */
	char hidden[2][256]; /* sources whose functions are not shown, nor the pcall that they call by: the profiler's own */
};

/* The innermost resumption of this process's one profiled thread that is going on, NULL outside of any. For signal handlers of that
 * thread too. */
struct pb_resumption *pb_resumption(void);

/* The frames of L's stack from a level on, the innermost first: how many. */
unsigned pb_walk(struct pb_profiler *p, lua_State *L, int level, uint32_t *frames);

/* LuaJIT, profiler_luajit_function.c: learn in a C function how to tell which one runs; its code's address, 0 where it is not known, for the
 * words of the thread that runs; memory that may not be there, 0 or -EFAULT, with a system call. */
void pb_function_learn(lua_State *L);
uint64_t pb_function_running(const uintptr_t *L);
int pb_safe_copy(void *dst, const void *src, size_t n);

/* What tells C functions apart. */
uint64_t pb_function_address(lua_State *L, int i);

/* The engine of this interpreter, for whom has claimed the process's sampler. start: 0, or -errno with the reason in *why; p is at
 * index 1. stop comes after pf_sampler_stop. The owner of trigger may be NULL: whichever profiler samples the calling thread. */
int pb_engine_start(lua_State *L, struct pb_profiler *p, const char **why);
void pb_engine_stop(lua_State *L, struct pb_profiler *p);
enum pf_state pb_engine_classify(void *owner, uint64_t *function);
void pb_engine_trigger(void *owner);

/* terminate.c: has a signal asked for the process's end that no hook has come for yet? Then ask for the hook again; for a signal's
 * handler. */
void pb_terminate_remind(void);

/* Put what p needs in the place of the coroutine library's functions, p at index 1; put those back. */
void pb_coroutines_take(lua_State *L, struct pb_profiler *p);
void pb_coroutines_give_back(lua_State *L, struct pb_profiler *p);

/* Is the function on top one that has taken the place of the library's? Then it becomes that. */
int pb_stands_in(lua_State *L);

/* Adds the stack that made the thread L to the n frames of its own: how many then. */
unsigned pb_creator(struct pb_profiler *p, lua_State *L, uint32_t *frames, unsigned n);

#endif

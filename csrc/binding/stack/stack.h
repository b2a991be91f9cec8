/* Finds out which code a Lua thread runs, and brings it to a safe point, where its stack can be walked.
 *
 *   unwind.c           a Lua stack from the registers of the thread
 *   learn_*.c          what the unwinder has to know of the interpreter's structures
 *   line_marks.c       LuaJIT: marks in compiled code that distinguish its lines
 *   walk.c             a Lua stack at a safe point
 *   luajit.c           LuaJIT: how a signal gets to a safe point (the hook of its own profiler), and what the interpreter did
 *   luajit_profiler.c  LuaJIT: its own profiler, without timer and signal
 *   luajit_function.c  LuaJIT: which C function ran when the signal came
 *   puc.c              PUC Lua: how a signal gets to a safe point (lua_sethook)
 *   stacks.c           the stacks of a profile, as values of Lua
 *   strings.c          the interpreter's table of strings
 *   coroutine.c        replacements of the coroutine library's functions, which record what resumed and made a coroutine */
#ifndef PB_STACK_H
#define PB_STACK_H

#include "core/stack/places.h"
#include "core/stack/sampling.h"
#include "binding/base/binding.h"

#if LUA_VERSION_NUM == 501 && defined __has_include
#if __has_include(<luajit.h>)
#include <luajit.h>
#endif
#endif
#ifdef LUAJIT_VERSION_NUM
#define PB_LUAJIT 1
#include "core/stack/unwind_luajit.h"
#define pb_layout pf_luajit_layout
#define pb_unwind_by pf_unwind_luajit
#else
#define PB_LUAJIT 0
#include "core/stack/unwind_puc.h"
#define pb_layout pf_puc_layout
#define pb_unwind_by pf_unwind_puc
#endif

/* The uservalue of the object that samples keeps these alive, by index. */
enum { PB_KEPT_EVENT = 1, PB_KEPT_CELL, PB_KEPT_THREAD, PB_KEPT_LIFETIME };

enum { PB_COROUTINES_ALONE, PB_COROUTINES_RESUMER, PB_COROUTINES_CREATOR };

/* A resumption that is active, or that an error has ended; see stack/coroutine.c. */
struct pb_resumption {
	lua_State *L, *from;
	struct pb_resumption *outer;
};

struct pb_stack {
	struct pf_sampling *at;
	struct pb_layout layout; /* for the unwinder, with the address of the global state */
	uint64_t global;
	lua_State *main; /* the main thread of its Lua state; NULL if Lua 5.1 does not have it */
	int may_ask;     /* the event does not count the system call by which the signal handler finds the C function */
	int coroutines;
	int tells;    /* the replacements record which thread resumes which */
	uint32_t marks; /* it uses marks in compiled code: pf_fork_generation at its start; else 0 */
	int creators; /* reference to the table of nodes by thread */
	struct pb_cell *cell; /* through which the replacements reach it */
	struct pf_hidden hidden; /* the profiler's own sources */
};

/* The innermost active resumption of the profiled thread; NULL outside of any. May be called in a signal handler of that
 * thread. */
struct pb_resumption *pb_resumption(void);

/* Collect the frames of L's stack from a level on, innermost first. Returns their number. */
unsigned pb_walk(struct pb_stack *p, lua_State *L, int level, uint32_t *frames);

/* LuaJIT, stack/luajit_function.c. pb_function_learn, called within a C function, learns how to find the C function that runs;
 * pb_function_running finds the address of its code from the words of the thread, 0 if it is unknown. */
void pb_function_learn(lua_State *L);
uint64_t pb_function_running(const uintptr_t *L);

/* An address that identifies a C function: at safe points, and in the unwinder, which gives all functions that coroutine.wrap
 * returns the same one (0 before its layout is learned). */
uint64_t pb_function_address(lua_State *L, int i);
uint64_t pb_unwind_function(lua_State *L, int i);

/* The engine of this interpreter, for the sampler that has claimed the process. start: 0, or -errno with the reason in
 * *why; p is at index 1. Call stop after pf_sampler_stop, before pf_sampling_disclaim. classify and trigger are called in the
 * signal handler, with the struct pb_stack; trigger also with NULL, for the one that samples the calling thread. */
int pb_engine_start(lua_State *L, struct pb_stack *p, const char **why);
void pb_engine_stop(lua_State *L, struct pb_stack *p);
enum pf_state pb_engine_classify(void *owner, uint64_t *function);
void pb_engine_trigger(void *owner);
/* Does the Lua state with this global state have an engine, so that compiled code stops for a trigger? */
int pb_engine_stops(uint64_t global);

/* stack/unwind.c: the unwinder of this interpreter. start: learns its layout, unless it is known. Returns 0, or -ENOTSUP with
 * the reason in *why; may raise for lack of memory. learn_more: it was started; the program may have turned the compiler on since.
 * The other two are called in a signal handler: the function `unwind` of a
 * sampler whose owner is the struct pb_stack, and the Lua thread that was interrupted, NULL if it is unknown. */
int pb_unwind_start(lua_State *L, struct pb_stack *p, const char **why);
void pb_unwind_learn_more(lua_State *L, struct pb_stack *p);
void pb_unwind(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u);
/* The same in a function that the interpreter calls, which needs no safe point. */
void pb_unwind_callback(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u);
lua_State *pb_running_thread(const struct pb_stack *p, const struct pf_registers *r, const struct pf_memory *m);

/* stack/line_marks.c: mark each change of the line in code that this state compiles from now on. p has been started. set: the same
 * again, in the signal handler. give: end it, unless LuaJIT's own profiler runs in this state. */
void pb_marks_take(const struct pb_stack *p);
void pb_marks_set(const struct pb_stack *p);
void pb_marks_give(const struct pb_stack *p);

/* If it is not NULL, the signal handler calls it for each sample: with the registers, or, whenever it requests a safe point, with
 * none. */
extern void (*volatile pb_on_trigger)(const struct pb_stack *p, const struct pf_registers *r, const struct pf_memory *m);

/* Replace the coroutine library's functions that p needs, p at index 1; restore the library's functions. */
void pb_coroutines_take(lua_State *L, struct pb_stack *p);
void pb_coroutines_give_back(lua_State *L, struct pb_stack *p);

/* stack/stacks.c: set fields of the table on top of the stack:
 *
 *   frames    array of {kind, func, source, line, lastline, linedefined, address, builtin, image, state, zone}
 *   parent, frame, weight, count    arrays by node: a stack, as its caller's node (0: none) and its innermost frame
 *   allocated, allocated_count      the same as weight and count, if `sums` are given, from which those then come: by the numbers
 *                                   of the stacks' sums
 *   failures  samples without a whole stack, by reason; nil if there are none. counts: by enum pf_unwind_failure */
void pb_set_stacks(lua_State *L, const struct pf_stacks *s, const struct pf_sum *sums);
void pb_set_failures(lua_State *L, const uint64_t *counts);

/* stack/strings.c: the table of strings of L's state, whose global state has this address; NULL if it is not found. Not while the state
 * is profiled; may raise for lack of memory. And whether its allocator is called for this table. */
const void *pb_strings_find(lua_State *L, uint64_t global);
int pb_strings_resize(const void *strings, const void *old, size_t size);

/* If the function on top is one of our replacements, exchange it for the function that it replaces. Returns 1 if it called that
 * function, so that the stack has a frame of each; 0 if that function runs on our frame, or if this is not a replacement. */
int pb_stands_in(lua_State *L);

/* Appends the stack that made the thread L to the n frames of L. Returns the new number of frames. */
unsigned pb_creator(struct pb_stack *p, lua_State *L, uint32_t *frames, unsigned n);

#endif

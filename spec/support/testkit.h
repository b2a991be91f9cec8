/*
 * testkit: exact triggers for the specs, a Lua C module that only the tests load.
 *
 *   testkit.c          work that costs a known number of faults, calls, switches, moves
 *   testkit_look.c     clocks, accounting, descriptors, mappings; the n-th allocation that fails
 *   testkit_process.c  child processes that run a Lua function; privileges, limits, seccomp
 *   testkit_threads.c  threads that do a known amount of work; cells for breakpoints
 *   testkit_memory.c   this process's own memory, to damage what stands in a ring
 *   testkit_state.c    another Lua state in this process; this one on another thread
 *   testkit_pages.c    made-up pages of counters, and what is read from them
 *   testkit_files.c    directories
 *   testkit_probe.c    what this machine lets one do, asked of the kernel and not of the module
 *   testkit_faults.c   memory that cannot be read; a program that handles its own faults
 *   testkit_chunks.c   nginx's cache of chunks
 *   testkit_labels.c   labels of resty.perf's turns, as another process reads them
 *   testkit_unwind.c   the unwinder without a profiler: where a C function is called, and where a clock's signals come
 *
 * It uses only those parts of the C API that Lua 5.1 to 5.4 and LuaJIT have in common.
 */
#ifndef TESTKIT_H
#define TESTKIT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

/* The number of the mmap whose arguments are in registers: SYS_mmap takes a struct on 32-bit machines. */
#ifdef SYS_mmap2
#define TK_MMAP SYS_mmap2
#else
#define TK_MMAP SYS_mmap
#endif

/* Adds the functions of list to the table on the top of the stack. */
void tk_register(lua_State *L, const luaL_Reg *list);
/* Makes a metatable with these methods (and __index, and __gc = its method close), once in a state. */
void tk_metatable(lua_State *L, const char *name, const luaL_Reg *methods);
/* Returns nil, a message, and errno's number. */
int tk_refused(lua_State *L, const char *what, int err);
/* Pushes an unsigned number as exactly as the interpreter can hold it. */
void tk_push_u64(lua_State *L, uint64_t v);
/* An argument that is a count: 0 or more. */
size_t tk_check_count(lua_State *L, int arg);

/* The triggers, for threads too. */
void tk_touch_pages(size_t n);
void tk_syscalls(size_t n);
void tk_spin(uint64_t ns);
uint64_t tk_clock(clockid_t id);

/* Called after each query of SIGTRAP's action, if this module is in LD_PRELOAD: see link_in_race. */
void tk_race(void);
/* Whether PERF_MEMORY_AS_IS is set: see testkit.c. */
extern bool tk_memory_as_is;
/* Faults in all mapped pages, or without `all` only those that may be absent; returns the number of mappings. */
int tk_populate(int all);
void tk_watch_forks(void);
/* fork without pthread_atfork's handlers, in both processes. */
void tk_forked(void);
/* Makes malloc keep 4 MB, unless it has as many in one piece. */
void tk_grow_heap(void);

void tk_open_look(lua_State *L);
void tk_open_process(lua_State *L);
void tk_open_threads(lua_State *L);
void tk_open_probe(lua_State *L);
void tk_open_pages(lua_State *L);
void tk_open_files(lua_State *L);
void tk_open_state(lua_State *L);
void tk_open_memory(lua_State *L);
void tk_open_hot(lua_State *L);
void tk_open_unwind(lua_State *L);
void tk_open_faults(lua_State *L);
void tk_open_chunks(lua_State *L);
void tk_open_labels(lua_State *L);
void tk_open_flood(lua_State *L);

#endif

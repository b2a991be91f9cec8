/*
 * A second Lua state in this process, on this thread or another; and this state on another thread. See testkit.h.
 */
#include "testkit.h"

#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct run {
    const char *path, *cpath, *code;
    char result[256];
    int ok;
};

static void open_libraries(lua_State *L, const struct run *r)
{
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_pushstring(L, r->path);
    lua_setfield(L, -2, "path");
    lua_pushstring(L, r->cpath);
    lua_setfield(L, -2, "cpath");
    lua_pop(L, 1);
}

static void run_code(lua_State *L, struct run *r)
{
    const char *text;

    r->ok = luaL_loadstring(L, r->code) == 0 && lua_pcall(L, 0, 1, 0) == 0;
    text = lua_tostring(L, -1);
    snprintf(r->result, sizeof r->result, "%s", text ? text : "nil");
    lua_pop(L, 1);
}

static void run_in(lua_State *L, struct run *r)
{
    open_libraries(L, r);
    run_code(L, r);
    lua_close(L);
}

static void *run_state(void *arg)
{
    run_in(luaL_newstate(), arg);
    return NULL;
}

/*
 * state(code [, threaded]): runs code in a new Lua state that finds the same modules, on a new thread if threaded. Returns
 * whether it succeeded, and its result or error as a string.
 */
static struct run run_of(lua_State *L)
{
    struct run r = { NULL, NULL, luaL_checkstring(L, 1), "", 0 };

    lua_getglobal(L, "package");
    lua_getfield(L, -1, "path");
    lua_getfield(L, -2, "cpath");
    r.path = lua_tostring(L, -2);
    r.cpath = lua_tostring(L, -1);
    return r;
}

static int push_result(lua_State *L, const struct run *r)
{
    lua_pushboolean(L, r->ok);
    lua_pushstring(L, r->result);
    return 2;
}

static int run_in_thread(lua_State *L, void *(*start)(void *), struct run *r)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, start, r);

    if (err)
        return tk_refused(L, "pthread_create", err);
    pthread_join(thread, NULL);
    return push_result(L, r);
}

static int kit_state(lua_State *L)
{
    struct run r = run_of(L);

    if (lua_toboolean(L, 2))
        return run_in_thread(L, run_state, &r);
    run_state(&r);
    return push_result(L, &r);
}

/* --- states beside this one --------------------------------------------------------------- */

enum { BESIDE = 8 };

static lua_State *beside[BESIDE + 1];

static lua_State **check_beside(lua_State *L)
{
    const size_t i = tk_check_count(L, 1);

    luaL_argcheck(L, i >= 1 && i <= BESIDE, 1, "no such state");
    return &beside[i];
}

/* beside(i, code): as state(code), but in the i-th state beside this one, which is opened at its first use and stays
 * open. */
static int kit_beside(lua_State *L)
{
    lua_State **state = check_beside(L);
    struct run r;

    lua_remove(L, 1);
    r = run_of(L);
    if (*state == NULL) {
        *state = luaL_newstate();
        open_libraries(*state, &r);
    }
    run_code(*state, &r);
    return push_result(L, &r);
}

/* close_beside(i): closes the i-th state. Returns whether it was open. */
static int kit_close_beside(lua_State *L)
{
    lua_State **state = check_beside(L);

    lua_pushboolean(L, *state != NULL);
    if (*state != NULL)
        lua_close(*state);
    *state = NULL;
    return 1;
}

/* --- blocks at the end of memory -------------------------------------------------------- */

enum { EDGES = 4096, EDGE_LEAST = 40, EDGE_MOST = 160 };

static struct {
    char *from; /* each slot is a page, and one that cannot be read */
    size_t used, page;
    int on;
} edges;

/* As malloc's, but while `on` the blocks of some sizes end where memory ends. */
static void *edge_alloc(void *ud, void *old, size_t osize, size_t nsize)
{
    const size_t at = (size_t)((char *)old - edges.from), slot = 2 * edges.page;
    const int is_edge = old != NULL && at < EDGES * slot;
    char *block = NULL;

    (void)ud;
    if (nsize != 0 && edges.on && edges.used < EDGES && nsize >= EDGE_LEAST && nsize <= EDGE_MOST) {
        block = edges.from + edges.used++ * slot;
        if (mprotect(block, edges.page, PROT_READ | PROT_WRITE) < 0)
            return NULL;
        block += edges.page - (nsize + 7) / 8 * 8;
    } else if (nsize != 0) {
        block = is_edge || old == NULL ? malloc(nsize) : realloc(old, nsize);
        if (!is_edge || block == NULL)
            return block;
    }
    if (old != NULL && block != NULL)
        memcpy(block, old, osize < nsize ? osize : nsize);
    if (is_edge)
        mprotect(edges.from + at / slot * slot, edges.page, PROT_NONE);
    else
        free(old);
    return block;
}

/* edge_state(code): as state(code). Where the code calls edges(true), blocks of about 100 bytes are followed by no memory. */
static int kit_edge_state(lua_State *L)
{
    struct run r = run_of(L);

    edges.page = (size_t)sysconf(_SC_PAGESIZE);
    edges.used = 0;
    edges.from = mmap(NULL, 2 * EDGES * edges.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (edges.from == MAP_FAILED)
        return luaL_error(L, "mmap failed");
    run_in(lua_newstate(edge_alloc, NULL), &r);
    edges.on = 0;
    munmap(edges.from, 2 * EDGES * edges.page);
    return push_result(L, &r);
}

static int kit_edges(lua_State *L)
{
    edges.on = lua_toboolean(L, 1);
    return 0;
}

/* --- a library that is loaded late -------------------------------------------------------- */

/* kit_collects(n): makes a table, at which the collector works, while the function has n > 0 bytes of the C stack that it does
 * not set. */
__attribute__((visibility("default"))) int kit_collects(lua_State *L);
int kit_collects(lua_State *L)
{
    char unset[luaL_checkinteger(L, 1)];

    __asm__ volatile("" : : "r"(unset) : "memory");
    lua_gc(L, LUA_GCRESTART, 0);
    lua_createtable(L, 0, 0);
    lua_gc(L, LUA_GCSTOP, 0);
    __asm__ volatile("" : : "r"(unset) : "memory");
    return 1;
}

/* --- a noted allocator --------------------------------------------------------------------- */

static struct {
    lua_Alloc alloc;
    void *ud;
} noted;

/* note_alloc(): notes the state's allocator for the functions below, as a library or a host does. It stays noted. */
static int kit_note_alloc(lua_State *L)
{
    noted.alloc = lua_getallocf(L, &noted.ud);
    return 0;
}

static void *call_noted(void *ud, void *block, size_t osize, size_t nsize)
{
    (void)ud;
    return noted.alloc(noted.ud, block, osize, nsize);
}

/* wrap_noted(): from now on the state's allocator is one that calls the noted one. */
static int kit_wrap_noted(lua_State *L)
{
    lua_setallocf(L, call_noted, NULL);
    return 0;
}

/* noted_block(): makes a block by the noted allocator, and frees it. */
static int kit_noted_block(lua_State *L)
{
    void *block = noted.alloc(noted.ud, NULL, 0, 100);

    noted.alloc(noted.ud, block, block ? 100 : 0, 0);
    lua_pushboolean(L, block != NULL);
    return 1;
}

/* free_by_noted(n, size): n times, makes a block by the state's allocator, and frees it by the noted one. Returns how many different
 * blocks these were, at most. */
static int kit_free_by_noted(lua_State *L)
{
    const size_t n = tk_check_count(L, 1), size = tk_check_count(L, 2);
    void *ud, *before = NULL;
    const lua_Alloc alloc = lua_getallocf(L, &ud);
    lua_Integer different = 0;

    for (size_t i = 0; i < n; i++) {
        void *block = alloc(ud, NULL, 0, size);

        different += block != before;
        before = block;
        noted.alloc(noted.ud, block, block ? size : 0, 0);
    }
    lua_pushinteger(L, different);
    return 1;
}

static void *run_noted(void *arg)
{
    run_in(lua_newstate(noted.alloc, noted.ud), arg);
    return NULL;
}

/* noted_state(code): as state(code, true), but with the noted allocator. */
static int kit_noted_state(lua_State *L)
{
    struct run r = run_of(L);

    return run_in_thread(L, run_noted, &r);
}

static void *call_top(void *arg)
{
    lua_State *co = arg;

    lua_pushboolean(co, lua_pcall(co, 0, 1, 0) == 0);
    return NULL;
}

/* elsewhere(fn): calls fn on another thread and waits for it. Returns whether it succeeded, and its result or error. */
static int kit_elsewhere(lua_State *L)
{
    lua_State *co = lua_newthread(L);
    pthread_t thread;
    int err;

    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    err = pthread_create(&thread, NULL, call_top, co);
    if (err)
        return tk_refused(L, "pthread_create", err);
    pthread_join(thread, NULL);
    lua_insert(co, -2);
    lua_xmove(co, L, 2);
    return 2;
}

static int resume(lua_State *co)
{
#if LUA_VERSION_NUM >= 504
    int n;
    return lua_resume(co, NULL, 0, &n);
#elif LUA_VERSION_NUM >= 502
    return lua_resume(co, NULL, 0);
#else
    return lua_resume(co, 0);
#endif
}

/* Calls a global function without arguments; returns 0 if it succeeded. */
static int call_global(lua_State *L, const char *name)
{
    lua_getglobal(L, name);
    return lua_pcall(L, 0, 1, 0);
}

static void touch(size_t pages)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *p = mmap(NULL, pages * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return;
    madvise((void *)(uintptr_t)p, pages * size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < pages; i++)
        p[i * size] = 1;
    munmap((void *)(uintptr_t)p, pages * size);
}

/*
 * host(code, pages): acts as a C program with a Lua state, such as a server. Runs code, which defines start, work, steps and
 * stop; calls start; then four times: touches pages itself, calls work, touches pages, resumes a coroutine of steps, which
 * yields; at the end calls stop. Returns whether all succeeded, and stop's result or the error.
 */
static int kit_host(lua_State *L)
{
    struct run r = run_of(L);
    size_t pages = tk_check_count(L, 2);
    lua_State *H = luaL_newstate(), *co;
    const char *text;

    open_libraries(H, &r);
    r.ok = luaL_loadstring(H, r.code) == 0 && lua_pcall(H, 0, 0, 0) == 0 && call_global(H, "start") == 0;
    if (r.ok) {
        co = lua_newthread(H);
        lua_getglobal(co, "steps");
        for (int i = 0; i < 4 && r.ok; i++) {
            touch(pages);
            r.ok = call_global(H, "work") == 0;
            if (r.ok)
                lua_pop(H, 1);
            touch(pages);
            r.ok = r.ok && resume(co) == LUA_YIELD;
            lua_settop(co, 0);
        }
        r.ok = r.ok && call_global(H, "stop") == 0;
    }
    text = lua_tostring(H, -1);
    snprintf(r.result, sizeof r.result, "%s", text ? text : "nil");
    lua_close(H);
    return push_result(L, &r);
}

void tk_open_state(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "state", kit_state }, { "host", kit_host }, { "elsewhere", kit_elsewhere },
        { "beside", kit_beside }, { "close_beside", kit_close_beside },
        { "edge_state", kit_edge_state }, { "edges", kit_edges },
        { "note_alloc", kit_note_alloc }, { "wrap_noted", kit_wrap_noted }, { "noted_block", kit_noted_block },
        { "free_by_noted", kit_free_by_noted }, { "noted_state", kit_noted_state }, { NULL, NULL },
    };

    tk_register(L, functions);
}

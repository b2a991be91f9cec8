/* Threads that do a known amount of work or stand still, and cells of memory for breakpoints. See testkit.h. */
#include "testkit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORKERS "testkit.workers"
#define CELL "testkit.cell"

struct job {
    size_t pages, calls;
    uint64_t spin_ns;
};

static void do_job(const struct job *job)
{
    tk_touch_pages(job->pages);
    tk_syscalls(job->calls);
    if (job->spin_ns > 0)
        tk_spin(job->spin_ns);
}

/* Reads {pages=, syscalls=, spin_ns=} at arg. */
static struct job check_job(lua_State *L, int arg)
{
    struct job job = { 0, 0, 0 };

    luaL_checktype(L, arg, LUA_TTABLE);
    lua_getfield(L, arg, "pages");
    job.pages = (size_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, arg, "syscalls");
    job.calls = (size_t)luaL_optinteger(L, -1, 0);
    lua_getfield(L, arg, "spin_ns");
    job.spin_ns = (uint64_t)luaL_optinteger(L, -1, 0);
    lua_pop(L, 3);
    return job;
}

/*
 * The threads wait for a round to begin; a round ends when all have done the job. Round 0 is their start: after it, every tid is
 * known.
 */
struct workers {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t count, done;
    unsigned round;
    bool stop, open;
    struct job job;
    struct worker {
        pthread_t thread;
        long tid;
        struct workers *all;
    } *list;
};

static void *work(void *arg)
{
    struct worker *self = arg;
    struct workers *w = self->all;
    unsigned seen = 0;

    pthread_mutex_lock(&w->lock);
    self->tid = syscall(SYS_gettid);
    for (;;) {
        struct job job;

        w->done++;
        pthread_cond_broadcast(&w->changed);
        while (!w->stop && w->round == seen)
            pthread_cond_wait(&w->changed, &w->lock);
        if (w->stop)
            break;
        seen = w->round;
        job = w->job;
        pthread_mutex_unlock(&w->lock);
        do_job(&job);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void wait_all(struct workers *w)
{
    while (w->done < w->count)
        pthread_cond_wait(&w->changed, &w->lock);
}

static struct workers *check_workers(lua_State *L)
{
    struct workers *w = luaL_checkudata(L, 1, WORKERS);

    luaL_argcheck(L, w->open, 1, "closed workers");
    return w;
}

/*
 * Joins a thread and waits until the kernel has removed it from the process. The kernel wakes pthread_join earlier, and a program
 * that lists the threads at that moment would find one more.
 */
static void join_thread(pthread_t thread, long tid)
{
    pthread_join(thread, NULL);
    while (syscall(SYS_tgkill, getpid(), tid, 0) == 0)
        usleep(100);
}

/* workers:close(): ends the threads and joins them */
static int workers_close(lua_State *L)
{
    struct workers *w = luaL_checkudata(L, 1, WORKERS);

    if (!w->open)
        return 0;
    w->open = false;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    for (size_t i = 0; i < w->count; i++)
        join_thread(w->list[i].thread, w->list[i].tid);
    free(w->list);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    return 0;
}

/* workers(n): starts n threads that wait for work */
static int kit_workers(lua_State *L)
{
    size_t n = tk_check_count(L, 1);
    struct workers *w;

    luaL_argcheck(L, n >= 1 && n <= 64, 1, "1 to 64 threads");
    w = lua_newuserdata(L, sizeof *w);
    memset(w, 0, sizeof *w);
    luaL_getmetatable(L, WORKERS);
    lua_setmetatable(L, -2);
    w->list = calloc(n, sizeof *w->list);
    if (w->list == NULL)
        return luaL_error(L, "no memory");
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->open = true;
    while (w->count < n) {
        struct worker *one = &w->list[w->count];

        one->all = w;
        if (pthread_create(&one->thread, NULL, work, one) != 0)
            return luaL_error(L, "no more threads");
        w->count++; /* close and wait_all use only the threads that run */
    }
    pthread_mutex_lock(&w->lock);
    wait_all(w);
    pthread_mutex_unlock(&w->lock);
    return 1;
}

/* workers:tids(): the threads' ids */
static int workers_tids(lua_State *L)
{
    struct workers *w = check_workers(L);

    lua_newtable(L);
    for (size_t i = 0; i < w->count; i++) {
        lua_pushinteger(L, (lua_Integer)w->list[i].tid);
        lua_rawseti(L, -2, (int)i + 1);
    }
    return 1;
}

/* workers:work{pages=, syscalls=, spin_ns=}: each thread does that, and this returns when all have */
static int workers_work(lua_State *L)
{
    struct workers *w = check_workers(L);
    struct job job = check_job(L, 2);

    pthread_mutex_lock(&w->lock);
    w->job = job;
    w->done = 0;
    w->round++;
    pthread_cond_broadcast(&w->changed);
    wait_all(w);
    pthread_mutex_unlock(&w->lock);
    return 0;
}

struct once {
    pthread_t thread;
    long tid;
    const struct job *job;
};

static void *work_once(void *arg)
{
    struct once *once = arg;

    once->tid = syscall(SYS_gettid);
    do_job(once->job);
    return NULL;
}

/* threads(n, {pages=, syscalls=, spin_ns=}): starts n threads that do that each and end */
static int kit_threads(lua_State *L)
{
    size_t n = tk_check_count(L, 1);
    struct job job = check_job(L, 2);
    struct once list[64];
    size_t made = 0;

    luaL_argcheck(L, n <= 64, 1, "64 threads at most");
    for (; made < n; made++) {
        list[made].job = &job;
        if (pthread_create(&list[made].thread, NULL, work_once, &list[made]) != 0)
            break;
    }
    for (size_t i = 0; i < made; i++)
        join_thread(list[i].thread, list[i].tid);
    return made == n ? 0 : luaL_error(L, "no more threads");
}

/* --- a thread that stands still --------------------------------------------------------------- */

static pthread_mutex_t park_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t park_changed = PTHREAD_COND_INITIALIZER;
static bool parked;

static void set_parked(bool now)
{
    parked = now;
    pthread_cond_broadcast(&park_changed);
}

static void wait_parked(bool wanted)
{
    while (parked != wanted)
        pthread_cond_wait(&park_changed, &park_lock);
}

/*
 * park(): the calling thread stands still until another one calls unpark(); one thread at a time. until_parked(): waits until a
 * thread does. Such a thread holds no lock of the C library, so another one may make a child by clone(2): see split.
 */
static int kit_park(lua_State *L)
{
    (void)L;
    pthread_mutex_lock(&park_lock);
    set_parked(true);
    wait_parked(false);
    pthread_mutex_unlock(&park_lock);
    return 0;
}

static int kit_until_parked(lua_State *L)
{
    (void)L;
    pthread_mutex_lock(&park_lock);
    wait_parked(true);
    pthread_mutex_unlock(&park_lock);
    return 0;
}

static int kit_unpark(lua_State *L)
{
    (void)L;
    pthread_mutex_lock(&park_lock);
    set_parked(false);
    pthread_mutex_unlock(&park_lock);
    return 0;
}

/* --- cells --------------------------------------------------------------------------------- */

/* Memory for breakpoints: eight aligned bytes, far from anything else that is written. */
struct cell {
    _Alignas(64) unsigned char pad[64];
};

static unsigned char *cell_bytes(lua_State *L)
{
    /* Userdata is only aligned to 8 or 16 bytes, so there is room for two cells. */
    uintptr_t p = (uintptr_t)luaL_checkudata(L, 1, CELL);

    return (unsigned char *)((p + 63) & ~(uintptr_t)63);
}

/* cell(): makes eight zero bytes at a multiple of 64 */
static int kit_cell(lua_State *L)
{
    memset(lua_newuserdata(L, 2 * sizeof(struct cell)), 0, 2 * sizeof(struct cell));
    luaL_getmetatable(L, CELL);
    lua_setmetatable(L, -2);
    return 1;
}

static int cell_addr(lua_State *L)
{
    tk_push_u64(L, (uintptr_t)cell_bytes(L));
    return 1;
}

static size_t cell_offset(lua_State *L, int arg, size_t width)
{
    lua_Integer offset = luaL_optinteger(L, arg, 0);

    luaL_argcheck(L, offset >= 0 && (size_t)offset + width <= 64, arg, "offset 0 to 56");
    return (size_t)offset;
}

/* cell:poke(value [, times [, offset]]): writes eight bytes that many times (1) */
static int cell_poke(lua_State *L)
{
    uint64_t v = (uint64_t)luaL_checkinteger(L, 2);
    size_t times = lua_isnoneornil(L, 3) ? 1 : tk_check_count(L, 3);
    volatile uint64_t *at = (volatile uint64_t *)(void *)(cell_bytes(L) + cell_offset(L, 4, 8));

    while (times-- > 0)
        *at = v;
    return 0;
}

/* cell:poke8(value [, times [, offset]]): writes one byte that many times (1) */
static int cell_poke8(lua_State *L)
{
    unsigned char v = (unsigned char)luaL_checkinteger(L, 2);
    size_t times = lua_isnoneornil(L, 3) ? 1 : tk_check_count(L, 3);
    volatile unsigned char *at = cell_bytes(L) + cell_offset(L, 4, 1);

    while (times-- > 0)
        *at = v;
    return 0;
}

/* cell:peek([times [, offset]]): reads eight bytes that many times (1); returns the value */
static int cell_peek(lua_State *L)
{
    size_t times = lua_isnoneornil(L, 2) ? 1 : tk_check_count(L, 2);
    const volatile uint64_t *at = (volatile uint64_t *)(void *)(cell_bytes(L) + cell_offset(L, 3, 8));
    uint64_t v = 0;

    while (times-- > 0)
        v = *at;
    tk_push_u64(L, v);
    return 1;
}

static int cell_close(lua_State *L)
{
    (void)L;
    return 0;
}

static const luaL_Reg functions[] = {
    { "workers", kit_workers }, { "threads", kit_threads }, { "cell", kit_cell },
    { "park", kit_park }, { "until_parked", kit_until_parked }, { "unpark", kit_unpark }, { NULL, NULL },
};
static const luaL_Reg workers_methods[] = {
    { "tids", workers_tids }, { "work", workers_work }, { "close", workers_close }, { NULL, NULL },
};
static const luaL_Reg cell_methods[] = {
    { "addr", cell_addr }, { "poke", cell_poke }, { "poke8", cell_poke8 }, { "peek", cell_peek },
    { "close", cell_close }, { NULL, NULL },
};

void tk_open_threads(lua_State *L)
{
    tk_metatable(L, WORKERS, workers_methods);
    tk_metatable(L, CELL, cell_methods);
    tk_register(L, functions);
}

/* Triggers of exact size. See testkit.h. */
#include "testkit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void tk_register(lua_State *L, const luaL_Reg *list)
{
    for (; list->name != NULL; list++) {
        lua_pushcfunction(L, list->func);
        lua_setfield(L, -2, list->name);
    }
}

void tk_metatable(lua_State *L, const char *name, const luaL_Reg *methods)
{
    if (luaL_newmetatable(L, name)) {
        tk_register(L, methods);
        lua_pushvalue(L, -1);
        lua_setfield(L, -2, "__index");
        lua_getfield(L, -1, "close");
        lua_setfield(L, -2, "__gc");
    }
    lua_pop(L, 1);
}

int tk_refused(lua_State *L, const char *what, int err)
{
    lua_pushnil(L);
    lua_pushfstring(L, "%s: %s", what, strerror(err));
    lua_pushinteger(L, err);
    return 3;
}

void tk_push_u64(lua_State *L, uint64_t v)
{
#if LUA_VERSION_NUM >= 503
    lua_pushinteger(L, (lua_Integer)v);
#else
    lua_pushnumber(L, (lua_Number)v);
#endif
}

size_t tk_check_count(lua_State *L, int arg)
{
    lua_Number n = luaL_checknumber(L, arg);

    luaL_argcheck(L, n >= 0 && n <= 9007199254740992.0, arg, "a count, 0 or more");
    return (size_t)n;
}

/* --- work of exact size -------------------------------------------------------------------- */

/*
 * n minor faults: fresh private pages, never huge ones, each written once. The system calls are direct: a sanitizer's mmap would
 * touch pages itself, and so would its check of each access.
 */
__attribute__((no_sanitize("address"))) void tk_touch_pages(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *p;
    long at;

    if (n == 0)
        return;
    at = syscall(TK_MMAP, NULL, n * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    if (at == -1)
        abort();
    syscall(SYS_madvise, at, n * page, MADV_NOHUGEPAGE);
    p = (volatile char *)at;
    for (size_t i = 0; i < n; i++)
        p[i * page] = 1;
    syscall(SYS_munmap, at, n * page);
}

/* n system calls and nothing else (some C libraries cache getpid, none caches getppid). */
void tk_syscalls(size_t n)
{
    while (n-- > 0)
        syscall(SYS_getppid);
}

uint64_t tk_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Uses at least ns of this thread's CPU time. */
void tk_spin(uint64_t ns)
{
    uint64_t end = tk_clock(CLOCK_THREAD_CPUTIME_ID) + ns;
    volatile unsigned sink = 0;

    do {
        for (unsigned i = 0; i < 1000; i++)
            sink = sink + i;
    } while (tk_clock(CLOCK_THREAD_CPUTIME_ID) < end);
}

/* touch_pages(n): causes n minor faults */
static int kit_touch_pages(lua_State *L)
{
    tk_touch_pages(tk_check_count(L, 1));
    return 0;
}

/* reads(n [, count]): calls read(2) n times for `count` (0) bytes of descriptor -1, which fails */
static int kit_reads(lua_State *L)
{
    size_t n = tk_check_count(L, 1), count = (size_t)luaL_optinteger(L, 2, 0);

    for (size_t i = 0; i < n; i++)
        (void)syscall(SYS_read, -1L, NULL, count);
    return 0;
}

/* syscalls(n): calls getppid(2) n times */
static int kit_syscalls(lua_State *L)
{
    tk_syscalls(tk_check_count(L, 1));
    return 0;
}

/* spin(ns): uses at least that much CPU time of this thread */
static int kit_spin(lua_State *L)
{
    tk_spin(tk_check_count(L, 1));
    return 0;
}

static long voluntary_switches(void)
{
    struct rusage u;

    return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nvcsw : -1;
}

/*
 * sleeps(n [, ns]): makes n voluntary switches, each by a nap of ns (1 ms). If a task is preempted between the start of its timer
 * and the switch, the timer may have expired: then the task does not leave its CPU, and naps again.
 */
static int kit_sleeps(lua_State *L)
{
    size_t n = tk_check_count(L, 1);
    size_t ns = lua_isnoneornil(L, 2) ? 1000000u : tk_check_count(L, 2);
    struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

    while (n > 0) {
        long before = voluntary_switches();

        nanosleep(&t, NULL);
        n -= before < 0 || voluntary_switches() != before;
    }
    return 0;
}

/*
 * map_exec([path]): maps and unmaps an executable page, of that file or of no file, which writes one mmap record; returns its
 * address. It reads the page first: the kernel takes a build id only from a page that is in memory, and the first page of a file
 * that was not used for a long time may not be there.
 */
static int kit_map_exec(lua_State *L)
{
    const char *path = luaL_optstring(L, 1, NULL);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char first[4096];
    void *p;

    if (path && fd < 0)
        return tk_refused(L, path, errno);
    if (path && pread(fd, first, sizeof first, 0) < 0) {
        close(fd);
        return tk_refused(L, path, EIO);
    }
    p = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE | (path ? 0 : MAP_ANONYMOUS), fd, 0);
    if (path)
        close(fd);
    if (p == MAP_FAILED)
        return tk_refused(L, "mmap", errno);
    munmap(p, page);
    tk_push_u64(L, (uintptr_t)p);
    return 1;
}

/* A function for breakpoints and uprobes; testkit.so exports it by this name. */
__attribute__((visibility("default"), noinline)) void testkit_probe(void);
void testkit_probe(void)
{
    __asm__ volatile("" ::: "memory");
}

/* probe(n): calls the exported function testkit_probe n times */
static int kit_probe(lua_State *L)
{
    size_t n = tk_check_count(L, 1);

    while (n-- > 0)
        testkit_probe();
    return 0;
}

/* probe_place(): the function's address, its file, its symbol's name */
static int kit_probe_place(lua_State *L)
{
    Dl_info info;
    void (*fn)(void) = testkit_probe;
    void *addr;

    memcpy(&addr, &fn, sizeof addr);
    if (dladdr(addr, &info) == 0)
        return luaL_error(L, "dladdr knows nothing of testkit_probe");
    tk_push_u64(L, (uintptr_t)addr);
    lua_pushstring(L, info.dli_fname);
    lua_pushliteral(L, "testkit_probe");
    return 3;
}

/* --- CPUs ---------------------------------------------------------------------------------- */

static cpu_set_t all_cpus; /* the mask that the process had at its start */

/* cpus(): the CPUs that this process may use, as an array */
static int kit_cpus(lua_State *L)
{
    int n = 0;

    lua_newtable(L);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all_cpus))
            continue;
        lua_pushinteger(L, (lua_Integer)cpu);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int set_mask(lua_State *L, const cpu_set_t *set)
{
    if (sched_setaffinity(0, sizeof *set, set) != 0)
        return tk_refused(L, "sched_setaffinity", errno);
    lua_pushboolean(L, 1);
    return 1;
}

/* pin(cpu): keeps this thread on that CPU until unpin() */
static int kit_pin(lua_State *L)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(tk_check_count(L, 1), &set);
    return set_mask(L, &set);
}

/* unpin(): allows the CPUs that the process had at its start */
static int kit_unpin(lua_State *L)
{
    return set_mask(L, &all_cpus);
}

/* migrate(n): moves this thread to another CPU n times and leaves it pinned to the last one */
static int kit_migrate(lua_State *L)
{
    size_t n = tk_check_count(L, 1);

    if (CPU_COUNT(&all_cpus) < 2)
        return tk_refused(L, "migrate: one CPU only", EINVAL);
    while (n-- > 0) {
        size_t cpu = (size_t)sched_getcpu();
        cpu_set_t set;

        do
            cpu = (cpu + 1) % CPU_SETSIZE;
        while (!CPU_ISSET(cpu, &all_cpus));
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            return tk_refused(L, "sched_setaffinity", errno);
    }
    lua_pushboolean(L, 1);
    return 1;
}

/* cpu(): the CPU on which this thread runs now */
static int kit_cpu(lua_State *L)
{
    lua_pushinteger(L, sched_getcpu());
    return 1;
}

/* set_comm(name): sets this thread's name */
static int kit_set_comm(lua_State *L)
{
    prctl(PR_SET_NAME, luaL_checkstring(L, 1));
    return 0;
}

/*
 * If the environment has PERF_MEMORY_AS_IS, no page is faulted in before, and malloc keeps its defaults. The soak sets it because
 * it watches whether the process's memory grows: room that is made for exact counts of page faults would look like growth.
 */
bool tk_memory_as_is;

#ifdef __SANITIZE_ADDRESS__
void __sanitizer_purge_allocator(void); /* not every compiler has the header */
#endif

/* Makes room in one piece, which settle() faults in, so that Lua's heap does not grow in a spec that counts. A sanitizer's malloc
 * would not use that piece: it keeps what was freed, and takes pages that were never used instead. So it is told to use again what
 * was freed so far. */
void tk_grow_heap(void)
{
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_purge_allocator();
#else
    void *volatile room = malloc(4 << 20); /* volatile, since a compiler removes a block that is not used */

    free(room);
#endif
}

/* Extends the stack further than any spec will; its pages are faulted in with all others. */
__attribute__((noinline, no_sanitize("address"))) static void grow_stack(void)
{
    volatile char room[512 << 10];

    room[0] = 0;
    __asm__ volatile("" : : "r"(room) : "memory");
}

/*
 * The kernel may unmap pages that are in use, to find out which thread uses them (NUMA balancing) or to make a huge page of them;
 * each comes back by a fault. It does neither in a process that has set a memory policy and has refused huge pages.
 */
static void keep_pages(void)
{
    enum { LOCAL = 4 }; /* MPOL_LOCAL of linux/mempolicy.h */

    syscall(SYS_set_mempolicy, LOCAL, NULL, 0);
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest value that glibc accepts */
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, 4 << 20);
    mallopt(M_ARENA_MAX, 1);
}

static const luaL_Reg functions[] = {
    { "touch_pages", kit_touch_pages },
    { "syscalls", kit_syscalls },
    { "reads", kit_reads },
    { "spin", kit_spin },
    { "sleeps", kit_sleeps },
    { "map_exec", kit_map_exec },
    { "probe", kit_probe },
    { "probe_place", kit_probe_place },
    { "cpus", kit_cpus },
    { "cpu", kit_cpu },
    { "pin", kit_pin },
    { "unpin", kit_unpin },
    { "migrate", kit_migrate },
    { "set_comm", kit_set_comm },
    { NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_testkit(lua_State *L);
int luaopen_testkit(lua_State *L)
{
    static bool opened;

    if (!opened) {
        opened = true;
        sched_getaffinity(0, sizeof all_cpus, &all_cpus);
        tk_memory_as_is = getenv("PERF_MEMORY_AS_IS") != NULL;
        if (!tk_memory_as_is) {
            keep_pages();
            grow_stack();
            tk_grow_heap();
            tk_watch_forks();
            tk_populate(1);
        }
    }
    lua_newtable(L);
    tk_register(L, functions);
    tk_open_look(L);
    tk_open_process(L);
    tk_open_threads(L);
    tk_open_probe(L);
    tk_open_pages(L);
    tk_open_files(L);
    tk_open_state(L);
    tk_open_memory(L);
    tk_open_hot(L);
    tk_open_unwind(L);
    tk_open_faults(L);
    tk_open_chunks(L);
    tk_open_labels(L);
    tk_open_flood(L);
    return 1;
}

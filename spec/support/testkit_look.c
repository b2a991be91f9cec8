/*
 * Looks at this process: clocks, accounting, open descriptors and mappings. Also faults in pages before a spec counts, and makes
 * the n-th allocation fail. See testkit.h.
 */
#include "testkit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* clock_ns([clock]): nanoseconds of "monotonic" (default), "raw", "boottime", "realtime", "tai", "thread", "process" */
static int kit_clock_ns(lua_State *L)
{
    static const char *const names[] = { "monotonic", "raw", "boottime", "realtime",
                                         "tai", "thread", "process", NULL };
    static const clockid_t ids[] = { CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME,
                                     CLOCK_REALTIME, CLOCK_TAI, CLOCK_THREAD_CPUTIME_ID,
                                     CLOCK_PROCESS_CPUTIME_ID };

    tk_push_u64(L, tk_clock(ids[luaL_checkoption(L, 1, "monotonic", names)]));
    return 1;
}

/*
 * rusage([field]): the kernel's accounting of this thread: a table, or one field's number, which allocates nothing and so causes
 * no fault itself
 */
static int kit_rusage(lua_State *L)
{
    const char *only = luaL_optstring(L, 1, NULL);
    struct rusage u;

    getrusage(RUSAGE_THREAD, &u);
    const struct { const char *name; long value; } fields[] = {
        { "minflt", u.ru_minflt },
        { "majflt", u.ru_majflt },
        { "nvcsw", u.ru_nvcsw },
        { "nivcsw", u.ru_nivcsw },
        { "switches", u.ru_nvcsw + u.ru_nivcsw },
        { "utime_ns", u.ru_utime.tv_sec * 1000000000L + u.ru_utime.tv_usec * 1000L },
        { "stime_ns", u.ru_stime.tv_sec * 1000000000L + u.ru_stime.tv_usec * 1000L },
    };
    if (only == NULL)
        lua_newtable(L);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (only != NULL && strcmp(only, fields[i].name) != 0)
            continue;
        tk_push_u64(L, (uint64_t)fields[i].value);
        if (only != NULL)
            return 1;
        lua_setfield(L, -2, fields[i].name);
    }
    return only == NULL ? 1 : luaL_argerror(L, 1, "no such field");
}

/* fds(): {[fd] = the target of its link in /proc/self/fd}, without the descriptor used for reading */
static int kit_fds(lua_State *L)
{
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *e;

    if (dir == NULL)
        return luaL_error(L, "/proc/self/fd: %s", strerror(errno));
    lua_newtable(L); /* an error for lack of memory would leak dir: tests do not fail this one */
    while ((e = readdir(dir)) != NULL) {
        char target[PATH_MAX];
        int fd = atoi(e->d_name);
        ssize_t len;

        if (e->d_name[0] == '.' || fd == dirfd(dir))
            continue;
        len = readlinkat(dirfd(dir), e->d_name, target, sizeof target);
        lua_pushlstring(L, target, len < 0 ? 0 : (size_t)len);
        lua_rawseti(L, -2, fd);
    }
    closedir(dir);
    return 1;
}

/* mappings(): an array of the lines of /proc/self/maps that are rings or other anonymous inodes */
static int kit_mappings(lua_State *L)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    int n = 0;

    if (f == NULL)
        return luaL_error(L, "/proc/self/maps: %s", strerror(errno));
    lua_newtable(L);
    while (fgets(line, sizeof line, f) != NULL) {
        if (strstr(line, "anon_inode:") == NULL && strstr(line, "[perf_event]") == NULL)
            continue;
        line[strcspn(line, "\n")] = '\0';
        lua_pushstring(L, line);
        lua_rawseti(L, -2, ++n);
    }
    fclose(f);
    return 1;
}

/* page_size() */
static int kit_page_size(lua_State *L)
{
    lua_pushinteger(L, sysconf(_SC_PAGESIZE));
    return 1;
}

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/*
 * Faults in the pages of a range. Before Linux 5.14 (EINVAL) each page is touched by an atomic "or" of 0, which keeps what
 * another thread may just have written.
 */
__attribute__((no_sanitize("address"))) static int populate(uintptr_t at, uintptr_t end, int write)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (madvise((void *)at, end - at, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 1;
    if (errno != EINVAL)
        return 0;
    for (; at < end; at += page) {
        if (write)
            __atomic_fetch_or((unsigned char *)at, 0, __ATOMIC_RELAXED);
        else
            (void)*(volatile unsigned char *)at;
    }
    return 1;
}

/*
 * LuaJIT's machine code. Reading it would map the page of zeros, and the next trace would fault when it is written. No machine
 * code runs during a C function; but another thread's state may run its own, or change its protection to write it.
 */
static int populate_code(uintptr_t at, uintptr_t end)
{
    struct stat threads; /* a directory has two more links than it has subdirectories */
    int done;

    if (stat("/proc/self/task", &threads) != 0 || threads.st_nlink > 3 ||
        mprotect((void *)at, end - at, PROT_READ | PROT_WRITE) != 0)
        return 0;
    done = populate(at, end, 1);
    mprotect((void *)at, end - at, PROT_READ | PROT_EXEC);
    return done;
}

/* The mappings whose pages are present, in the order of their addresses: to fault in all again would take milliseconds. */
static struct {
    struct range { uintptr_t from, to; } list[2][1024];
    size_t n;
    int latest; /* index of the newer list */
} present;

/* A fork makes pages copy-on-write, and the child has no page tables for files. */
void tk_forked(void)
{
    present.n = 0;
}

void tk_watch_forks(void)
{
    pthread_atfork(NULL, tk_forked, tk_forked);
}

/* Whether no page has been taken away, as by madvise(2) or because memory was short. */
static int has_all_pages(uintptr_t at, uintptr_t end)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char in[2048];

    while (at < end) {
        const size_t n = (end - at) / page < sizeof in ? (end - at) / page : sizeof in;

        if (mincore((void *)at, n * page, in) != 0)
            return 0;
        for (size_t i = 0; i < n; i++) {
            if (!(in[i] & 1))
                return 0;
        }
        at += n * page;
    }
    return 1;
}

/*
 * The first use of a page of code or data would add a fault to a spec that counts. So every page that is mapped now is faulted
 * in; without all, only those that may be absent. Returns the number of mappings. Large files, a sanitizer's shadow memory and
 * the stacks of other threads, each of which follows an inaccessible page, are left out; the heap may have any size.
 */
int tk_populate(int all)
{
    const uintptr_t most_of_file = (uintptr_t)64 << 20, most = (uintptr_t)1 << 30;
#ifdef __SANITIZE_ADDRESS__
    const int stacks = 1; /* its heap lies behind inaccessible pages too */
#else
    const int stacks = 0;
#endif
    FILE *f = tk_memory_as_is ? NULL : fopen("/proc/self/maps", "re");
    const struct range *old = present.list[present.latest], *const old_end = old + present.n;
    struct range *const next = present.list[!present.latest];
    uintptr_t guard = 0; /* the end of the last inaccessible mapping */
    char line[PATH_MAX + 128];
    size_t kept = 0;
    int n = 0;

    if (f == NULL)
        return 0;
    tk_clock(CLOCK_MONOTONIC); /* the vdso's pages, which cannot be populated and are absent after a fork */
    sched_getcpu();
    while (fgets(line, sizeof line, f) != NULL) {
        uintptr_t from, to;
        unsigned long inode;
        char r, w, x, p;

        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %c%c%c%c %*s %*s %lu", &from, &to, &r, &w, &x, &p, &inode) != 7)
            continue;
        if (r != 'r' && w != 'w')
            guard = to;
        if (r != 'r' || p != 'p' || strstr(line, "[v") != NULL || to - from > (inode != 0 ? most_of_file : most) ||
            (from == guard && inode == 0 && !stacks))
            continue;
        while (old < old_end && old->from < from)
            old++;
        if (!all && old < old_end && old->from == from && old->to == to && has_all_pages(from, to))
            n++;
        else if (w == '-' && x == 'x' && inode == 0)
            n += populate_code(from, to);
        else
            n += populate(from, to, w == 'w');
        if (kept < sizeof present.list[0] / sizeof *next)
            next[kept++] = (struct range){ from, to };
    }
    fclose(f);
    present.latest = !present.latest;
    present.n = kept;
    return n;
}

/*
 * settle([quick]): faults in all that is mapped now, so that the code that follows counts only its own faults; with quick,
 * only what may be absent
 */
static int kit_settle(lua_State *L)
{
    tk_grow_heap();
    lua_pushinteger(L, tk_populate(!lua_toboolean(L, 1)));
    return 1;
}

/* --- allocations that fail ----------------------------------------------------------------- */

struct failing_alloc {
    lua_Alloc alloc;
    void *ud;
    size_t count; /* allocations and growths so far */
    size_t limit; /* the first one that fails; 0: none */
    int once;     /* only this one fails */
};

static void *failing_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct failing_alloc *f = ud;

    /* Without a block, osize is the kind of object (5.2+). Shrinking must not fail. */
    if (nsize > (ptr != NULL ? osize : 0)) {
        f->count++;
        if (f->limit != 0 && (f->once ? f->count == f->limit : f->count >= f->limit))
            return NULL;
    }
    return f->alloc(f->ud, ptr, osize, nsize);
}

static int with_failing_alloc(lua_State *L, int once)
{
    struct failing_alloc f = { NULL, NULL, 0, tk_check_count(L, 1), once };
    int status;

    luaL_checktype(L, 2, LUA_TFUNCTION);
    luaL_checkstack(L, 20, "fail_alloc");
    f.alloc = lua_getallocf(L, &f.ud);
    lua_setallocf(L, failing_alloc, &f);
    status = lua_pcall(L, lua_gettop(L) - 2, 1, 0);
    lua_setallocf(L, f.alloc, f.ud);
    tk_push_u64(L, f.count);
    lua_pushboolean(L, status == 0);
    lua_pushvalue(L, -3);
    return 3;
}

/*
 * fail_alloc(n, fn, ...): calls fn, and refuses every allocation from the n-th on (0: none, to count them). Returns the number of
 * allocations, whether fn returned, and its first result or error. fail_alloc_once refuses only the n-th. Lua 5.2 and newer then
 * run a full collection and try again, so it causes a collection at that point; LuaJIT and 5.1 raise an error, and the code that
 * cleans up has memory.
 */
static int kit_fail_alloc(lua_State *L)
{
    return with_failing_alloc(L, 0);
}

static int kit_fail_alloc_once(lua_State *L)
{
    return with_failing_alloc(L, 1);
}

/* If this file is preloaded (LD_PRELOAD), its realloc replaces the C library's, which PUC Lua's allocator calls, and can refuse. */
static struct {
    size_t count, limit;
} reallocs;

__attribute__((visibility("default"))) void *realloc(void *block, size_t size)
{
    static void *(*real)(void *block, size_t size);

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "realloc");
    /* Shrinking must not fail. */
    if (reallocs.limit != 0 && size > malloc_usable_size(block) && ++reallocs.count == reallocs.limit) {
        errno = ENOMEM;
        return NULL;
    }
    return real(block, size);
}

/*
 * fail_realloc(n, fn, ...): calls fn, and refuses the n-th realloc by which a block is made or grows. Returns the number of these,
 * whether fn returned, its first result or error, and the bytes that are still allocated after garbage was collected.
 */
static int kit_fail_realloc(lua_State *L)
{
    const size_t limit = tk_check_count(L, 1);
    size_t before, count;
    int status;

    luaL_checktype(L, 2, LUA_TFUNCTION);
    luaL_checkstack(L, 20, "fail_realloc");
    lua_gc(L, LUA_GCCOLLECT, 0);
    before = mallinfo2().uordblks;
    reallocs.count = 0;
    reallocs.limit = limit;
    status = lua_pcall(L, lua_gettop(L) - 2, 1, 0);
    count = reallocs.count;
    reallocs.limit = 0;
    lua_gc(L, LUA_GCCOLLECT, 0);
    tk_push_u64(L, count);
    lua_pushboolean(L, status == 0);
    lua_pushvalue(L, -3);
    lua_pushinteger(L, (lua_Integer)mallinfo2().uordblks - (lua_Integer)before);
    return 4;
}

/* noted_alloc(fn, ...): notes the state's allocator, calls fn, and then uses the noted one for a block, as libraries do. */
static int kit_noted_alloc(lua_State *L)
{
    void *ud, *block;
    const lua_Alloc noted = lua_getallocf(L, &ud);

    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_call(L, lua_gettop(L) - 1, 0);
    block = noted(ud, NULL, 0, 100);
    noted(ud, block, block ? 100 : 0, 0);
    lua_pushboolean(L, block != NULL);
    return 1;
}

/* The number of threads of this process, with those that have ended but are still in /proc. */
static int threads_in_proc(void)
{
    struct stat s;

    return stat("/proc/self/task", &s) == 0 ? (int)s.st_nlink - 2 : 0;
}

/* Lists the threads: counts all, and those that have not begun to exit. */
static void list_threads(int *all, int *living)
{
    enum { EXITING = 0x4 }; /* PF_EXITING */
    DIR *dir = opendir("/proc/self/task");
    struct dirent *d;

    *all = *living = 0;
    while (dir && (d = readdir(dir)) != NULL) {
        char path[300], text[512];
        const char *after;
        unsigned flags;
        FILE *f;

        if (d->d_name[0] == '.')
            continue;
        ++*all;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", d->d_name);
        f = fopen(path, "r");
        if (!f)
            continue;
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        after = strrchr(text, ')'); /* the name may contain any character; after it: state ppid pgrp session tty tpgid flags */
        *living += after && sscanf(after, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && !(flags & EXITING);
    }
    if (dir)
        closedir(dir);
}

/*
 * living_threads(): the number of threads of this process. A thread that has ended may stay in /proc for a moment, since the
 * kernel wakes pthread_join before it removes the thread: it then has PF_EXITING, and is not counted. If the kernel removes a
 * thread while it lists the threads, the list may end there and lack threads that live: they are listed again.
 */
static int kit_living_threads(lua_State *L)
{
    int before, all, living;

    do {
        before = threads_in_proc();
        list_threads(&all, &living);
    } while (all != before || threads_in_proc() != before);
    lua_pushinteger(L, living);
    return 1;
}

static const luaL_Reg functions[] = {
    { "living_threads", kit_living_threads },
    { "clock_ns", kit_clock_ns },   { "rusage", kit_rusage },       { "fds", kit_fds },
    { "mappings", kit_mappings },   { "page_size", kit_page_size }, { "settle", kit_settle },
    { "fail_alloc", kit_fail_alloc }, { "fail_alloc_once", kit_fail_alloc_once },
    { "fail_realloc", kit_fail_realloc },
    { "noted_alloc", kit_noted_alloc },
    { NULL, NULL },
};

void tk_open_look(lua_State *L)
{
    tk_register(L, functions);
}

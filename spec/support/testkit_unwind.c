/*
 * The unwinder of core/stack/unwind.h without a profiler: where a C function is called, and where signals of a clock find the thread.
 * One of a process; for the thread that learns. Each interpreter gives its own learn and unwind.
 */
#include "testkit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "binding/stack/learn_luajit.h"
#include "binding/stack/learn_puc.h"
#include "core/base/peek.h"
#include "core/stack/c_frames.h"
#include "core/stack/own_thread.h"
#include "core/stack/sampling.h"
#include "core/stack/unwind_trace_walk.h"

enum { PLACES = 2048, STACKS = 16384, DEPTH = 40, NAME = 80, IMITATION = 512 };

struct place {
    struct pf_place at;
    char name[NAME];
    uint8_t resumer; /* 0: of the innermost thread; 1: of the one that resumed it; and so on */
};

struct stack {
    uint64_t hash;
    unsigned n, count;
    int state, failed;
    uint16_t places[DEPTH]; /* indexes; 0: no more room for places */
};

static struct {
    int learned, fd;
    struct pb_layout layout;
    uint64_t global;
    struct sigaction before;
    unsigned n_places, samples, lost;
    uint64_t ns, most_ns, period, random;
    struct place *places;
    struct stack *stacks;
    struct pf_c_seen seen;
    struct pf_trace_seen *walks;
} kit = { .fd = -1 };

static int learn(lua_State *L, const char **why)
{
    const int r = pb_learn(L, pf_own_memory(NULL), &kit.layout, why);

    kit.global = r < 0 ? 0 : pb_global(L, &kit.layout);
    return r;
}

static void unwind(uint64_t global, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u)
{
    pb_unwind_by(&kit.layout, global, r, m, u);
}

/* --- in the signal's handler ------------------------------------------------------------------------------------------ */

static int same_place(const struct place *a, const struct pf_place *p, const char *name, unsigned threads)
{
    return a->at.kind == p->kind && a->at.line == p->line && a->at.end == p->end && a->at.linedefined == p->linedefined &&
           a->resumer == threads && (p->kind == PF_PLACE_LUA ? strcmp(a->name, name) == 0 : a->at.function == p->function);
}

static uint16_t intern(const struct pf_memory *m, const struct pf_place *p, unsigned threads)
{
    char name[NAME] = "";
    size_t n = p->source_size < NAME - 1 ? p->source_size : NAME - 1;

    if (n != 0 && m->read(m, name, p->source, n) < 0)
        strcpy(name, "?");
    for (unsigned i = 1; i <= kit.n_places; i++)
        if (same_place(&kit.places[i], p, name, threads))
            return (uint16_t)i;
    if (kit.n_places + 1 >= PLACES)
        return 0;
    kit.n_places++;
    kit.places[kit.n_places].at = *p;
    kit.places[kit.n_places].resumer = (uint8_t)threads;
    memcpy(kit.places[kit.n_places].name, name, NAME);
    return (uint16_t)kit.n_places;
}

struct found {
    unsigned n, most;
    struct pf_place *places;
};

static int on_place(void *to, const struct pf_place *p)
{
    struct found *f = to;

    if (f->n < f->most)
        f->places[f->n++] = *p;
    return 0;
}

static void add(const struct stack *s)
{
    for (uint64_t i = s->hash; i < s->hash + 64; i++) {
        struct stack *t = &kit.stacks[i % STACKS];

        if (t->count == 0)
            *t = *s;
        else if (t->hash != s->hash || t->n != s->n || t->state != s->state || t->failed != s->failed ||
                 memcmp(t->places, s->places, sizeof t->places) != 0)
            continue;
        t->count++;
        return;
    }
    kit.lost++;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
    struct pf_registers r;
    struct pf_place places[DEPTH];
    struct found f = { 0, DEPTH, places };
    struct pf_unwound u = { .found = on_place, .to = &f, .seen = &kit.seen, .walks = kit.walks };
    struct stack s = { .n = 0 };
    const struct pf_memory *m = pf_own_memory(context);
    const int saved = errno;
    unsigned threads = 0;
    uint64_t from, ns, period;

    (void)sig;
    (void)info;
    /* The clock stops meanwhile. Else the program stands still where the handler takes longer than the period, as in deep stacks. */
    ioctl(kit.fd, PERF_EVENT_IOC_DISABLE, 0);
    pf_own_registers(context, &r);
    from = tk_clock(CLOCK_MONOTONIC);
    unwind(kit.global, &r, m, &u);
    ns = tk_clock(CLOCK_MONOTONIC) - from;
    kit.samples++;
    kit.ns += ns;
    if (ns > kit.most_ns)
        kit.most_ns = ns;
    s.n = u.n;
    s.state = u.state;
    s.failed = u.failed;
    /* Stacks that differ in their depth alone must not be neighbours in the table. */
    s.hash = (uint64_t)(s.state * 31 + s.failed) * 1000003 + s.n;
    for (unsigned i = 0; i < f.n; i++) {
        threads += i > 0 && f.places[i].thread != f.places[i - 1].thread;
        s.places[i] = intern(m, &f.places[i], threads);
        s.hash = (s.hash ^ s.places[i]) * UINT64_C(0x100000001b3);
    }
    s.hash &= UINT64_MAX >> 1;
    add(&s);
    /* A program that repeats itself must not keep step with the samples. */
    kit.random = kit.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    period = kit.period / 2 + (kit.random >> 33) % kit.period;
    ioctl(kit.fd, PERF_EVENT_IOC_PERIOD, &period);
    ioctl(kit.fd, PERF_EVENT_IOC_ENABLE, 0);
    errno = saved;
}

/* --- Lua functions ------------------------------------------------------------------------------------------------------ */

static void push_place(lua_State *L, const struct place *p)
{
    static const char *const kinds[] = { "?", "Lua", "C", "builtin" };

    lua_createtable(L, 0, 7);
    lua_pushstring(L, kinds[p->at.kind <= PF_PLACE_BUILTIN ? p->at.kind : 0]);
    lua_setfield(L, -2, "kind");
    lua_pushinteger(L, p->resumer);
    lua_setfield(L, -2, "resumer");
    if (p->at.kind != PF_PLACE_LUA) {
        lua_pushfstring(L, "%p", (void *)(uintptr_t)p->at.function);
        lua_setfield(L, -2, "code");
        return;
    }
    lua_pushstring(L, p->name);
    lua_setfield(L, -2, "source");
    lua_pushinteger(L, p->at.linedefined);
    lua_setfield(L, -2, "linedefined");
    lua_pushinteger(L, (lua_Integer)p->at.line);
    lua_setfield(L, -2, "line");
    lua_pushinteger(L, (lua_Integer)p->at.end);
    lua_setfield(L, -2, "last");
}

static const char *const state_names[PF_STATES] = { "Lua", "C", "GC", "JIT", "outside", "unsampled", "other", "strings" };

static void push_stack(lua_State *L, const struct stack *s)
{
    static const char *const failures[PF_UNWIND_FAILURES] = { NULL, "no thread", "no base", "no pc",
                                                              "no trace", "broken", "unreadable", "deep", "gone", "no state", "long" };

    lua_createtable(L, 0, 5);
    lua_pushstring(L, state_names[s->state]);
    lua_setfield(L, -2, "state");
    lua_pushstring(L, failures[s->failed]);
    lua_setfield(L, -2, "failed");
    lua_pushinteger(L, (lua_Integer)s->n);
    lua_setfield(L, -2, "n");
    lua_pushinteger(L, (lua_Integer)s->count);
    lua_setfield(L, -2, "count");
    lua_createtable(L, DEPTH, 0);
    for (unsigned i = 0; i < s->n && i < DEPTH; i++) {
        push_place(L, &kit.places[s->places[i]]);
        lua_rawseti(L, -2, (int)i + 1);
    }
    lua_setfield(L, -2, "places");
}

/* learn(): true, the nanoseconds that it took, and on LuaJIT whether it has found where the compiler keeps the number of the exit by
 * which a trace was left; or nil and what was not found */
static int kit_learn(lua_State *L)
{
    const char *why = NULL;
    uint64_t from;
    int r;

    if (!kit.learned) { /* both stay until the process ends */
        /* A profiler that a spec has dropped may still have the signals. If ours came in front of its handler, the library would leave
         * ours there, and ask the kernel for each word in all later profiles of this process, which takes 40 times as long. */
        lua_gc(L, LUA_GCCOLLECT, 0);
        pf_peek_take();
        kit.walks = pf_trace_seen_new();
    }
    kit.learned = 1;
    from = tk_clock(CLOCK_THREAD_CPUTIME_ID);
    r = learn(L, &why);
    from = tk_clock(CLOCK_THREAD_CPUTIME_ID) - from;
    if (r < 0) {
        lua_pushnil(L);
        lua_pushstring(L, why);
        return 2;
    }
    lua_pushboolean(L, 1);
    tk_push_u64(L, from);
#if defined LUAJIT_VERSION
    lua_pushboolean(L, kit.layout.trace_exit != 0);
#else
    lua_pushnil(L);
#endif
    return 3;
}

/* The own memory, of which one read fails. */
struct refusing {
    struct pf_memory m;
    const struct pf_memory *own;
    unsigned refused, reads; /* the number of the read that fails, and how many there were */
};

static int refuse_one(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
    struct refusing *r = (struct refusing *)(uintptr_t)m; /* its first member */

    return ++r->reads == r->refused ? -EFAULT : r->own->read(r->own, to, address, n);
}

static __attribute__((noinline)) void look_here(struct pf_unwound *u)
{
    struct pf_registers r = { .sp = (uintptr_t)__builtin_frame_address(0), .ip = (uintptr_t)__builtin_return_address(0) };

    unwind(kit.global, &r, pf_own_memory(NULL), u);
}

#if defined LUAJIT_VERSION
static void imitate_thread(char *room)
{
    (void)room;
}
#else
/* Make words of the C stack look like a Lua thread, which runs, and whose list of calls cannot be read. */
static void imitate_thread(char *room)
{
    const struct pf_puc_layout *l = &kit.layout;
    const uint64_t words[][2] = { { l->thread.global, kit.global }, { l->thread.error, (uintptr_t)(room + IMITATION) },
        { l->thread.ci, UINT64_C(0x5a5a5a5a5a5a5a58) } };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        memcpy(room + words[i][0], &words[i][1], l->pointer);
    room[l->thread.type] = (char)l->thread.is_thread;
}
#endif

/* The same below a number of bytes of the C stack, which are zero but for the imitation of a thread, if there is room for it, and
 * a pointer to that. */
static __attribute__((noinline)) void look_below(size_t n, struct pf_unwound *u)
{
    char room[n + 1] __attribute__((aligned(16)));

    memset(room, 0, sizeof room);
    if (n >= 2 * IMITATION) {
        char *const imitation = room + 16;

        memcpy(room, &imitation, sizeof imitation);
        imitate_thread(imitation);
    }
    __asm__ volatile("" : : "r"(room) : "memory");
    look_here(u);
    __asm__ volatile("" : : "r"(room) : "memory");
}

/* here([n]): the stack of the caller, itself innermost, with n bytes of the C stack in use. At 1,024 and more, some of them look
 * like a Lua thread of PUC Lua. */
static int kit_here(lua_State *L)
{
    static struct pf_place places[PF_UNWIND_DEEPEST];
    static struct place p;
    struct found f = { 0, PF_UNWIND_DEEPEST, places };
    struct pf_unwound u = { .found = on_place, .to = &f };
    struct stack s = { .count = 1 };
    const struct pf_memory *m = pf_own_memory(NULL);

    __builtin_unwind_init();
    look_below((size_t)luaL_optinteger(L, 1, 0), &u);
    s.state = u.state;
    s.failed = u.failed;
    push_stack(L, &s);
    lua_pushinteger(L, (lua_Integer)u.n);
    lua_setfield(L, -2, "n");
    lua_getfield(L, -1, "places");
    for (unsigned i = 0; i < f.n; i++) {
        size_t n = f.places[i].source_size < NAME - 1 ? f.places[i].source_size : NAME - 1;

        p.resumer = (uint8_t)(p.resumer * (i > 0) + (i > 0 && f.places[i].thread != f.places[i - 1].thread));
        p.at = f.places[i];
        memset(p.name, 0, NAME);
        if (n != 0 && m->read(m, p.name, p.at.source, n) < 0)
            strcpy(p.name, "?");
        push_place(L, &p);
        lua_rawseti(L, -2, (int)i + 1);
    }
    lua_pop(L, 1);
    return 1;
}

/* --- refused reads ------------------------------------------------------------------------------------------------------- */

/* A stack, as a hash of its places. */
struct summary {
    uint64_t hash;
    unsigned n;
    int state, failed;
};

static struct {
    unsigned stacks, cut, states[PF_STATES]; /* cut: stacks that are not whole, although no read is refused */
    unsigned n, missing; /* stacks that changed without a failure; those of them that lack a function */
    struct {
        unsigned read, n, of, state;
        int kept; /* whether the unwinder keeps results */
    } silent[8];
} refusals;

static int add_to_hash(void *to, const struct pf_place *p)
{
    const uint64_t words[] = { p->kind, (uint32_t)p->linedefined, p->line, p->end, p->function, p->thread };
    uint64_t *hash = to;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        *hash = (*hash ^ words[i]) * UINT64_C(0x100000001b3);
    return 0;
}

static struct summary summarize(const struct pf_registers *r, const struct pf_memory *m, struct pf_trace_seen *walks)
{
    struct summary s = { .hash = 0 };
    struct pf_unwound u = { .found = add_to_hash, .to = &s.hash, .seen = &kit.seen, .walks = walks };

    unwind(kit.global, r, m, &u);
    s.n = u.n;
    s.state = u.state;
    s.failed = u.failed;
    return s;
}

static void compare(const struct summary *s, const struct summary *whole, unsigned read, int kept)
{
    if (s->failed || (s->hash == whole->hash && s->n == whole->n && s->state == whole->state))
        return;
    if (refusals.n < sizeof refusals.silent / sizeof *refusals.silent) {
        refusals.silent[refusals.n].read = read;
        refusals.silent[refusals.n].n = s->n;
        refusals.silent[refusals.n].of = whole->n;
        refusals.silent[refusals.n].state = (unsigned)whole->state;
        refusals.silent[refusals.n].kept = kept;
    }
    refusals.n++;
    refusals.missing += s->n < whole->n;
}

/* Unwind a stack. Then unwind it again for each of its reads of memory, with that read refused. */
static void refuse_each(const struct pf_registers *r, const struct pf_memory *own)
{
    struct refusing m = { .m.read = refuse_one, .own = own };
    struct pf_trace_seen *const walks[] = { NULL, kit.walks };
    const struct summary whole = summarize(r, own, NULL);
    struct summary s;

    refusals.stacks++;
    refusals.states[whole.state]++;
    refusals.cut += whole.failed != PF_UNWIND_COMPLETE;
    for (int kept = 0; kept < 2 && whole.failed == PF_UNWIND_COMPLETE; kept++) {
        m.refused = 0;
        do {
            m.refused++;
            m.reads = 0;
            s = summarize(r, &m.m, walks[kept]);
            compare(&s, &whole, m.refused, kept);
        } while (m.reads >= m.refused);
        s = summarize(r, own, walks[kept]); /* the refusals left no wrong result */
        s.failed = PF_UNWIND_COMPLETE;
        compare(&s, &whole, 0, kept);
    }
}

static __attribute__((noinline)) void refuse_here(void)
{
    struct pf_registers r = { .sp = (uintptr_t)__builtin_frame_address(0), .ip = (uintptr_t)__builtin_return_address(0) };

    refuse_each(&r, pf_own_memory(NULL));
}

/* A table: stacks, cut, states (how many by state), silent: descriptions of stacks that changed without a failure; and missing: how many
 * of these lack a function */
static int push_refusals(lua_State *L)
{
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, (lua_Integer)refusals.stacks);
    lua_setfield(L, -2, "stacks");
    lua_pushinteger(L, (lua_Integer)refusals.cut);
    lua_setfield(L, -2, "cut");
    lua_pushinteger(L, (lua_Integer)refusals.missing);
    lua_setfield(L, -2, "missing");
    lua_createtable(L, 0, PF_STATES);
    for (unsigned i = 0; i < PF_STATES; i++) {
        lua_pushinteger(L, (lua_Integer)refusals.states[i]);
        lua_setfield(L, -2, state_names[i]);
    }
    lua_setfield(L, -2, "states");
    lua_createtable(L, 0, 0);
    for (unsigned i = 0; i < refusals.n && i < sizeof refusals.silent / sizeof *refusals.silent; i++) {
        lua_pushfstring(L, "read %d: %d of %d frames, state %s%s", (int)refusals.silent[i].read, (int)refusals.silent[i].n,
                        (int)refusals.silent[i].of, state_names[refusals.silent[i].state],
                        refusals.silent[i].kept ? ", with kept results" : "");
        lua_rawseti(L, -2, (int)i + 1);
    }
    lua_setfield(L, -2, "silent");
    return 1;
}

/* refusals_here(): unwinds the stack of the caller, then again for each read of memory, with that read refused. See
 * push_refusals. */
static int kit_refusals_here(lua_State *L)
{
    if (!kit.learned)
        return luaL_error(L, "learn first");
    memset(&refusals, 0, sizeof refusals);
    __builtin_unwind_init();
    refuse_here();
    return push_refusals(L);
}

/* --- samples of a clock --------------------------------------------------------------------------------------------------- */

/* start(ns): unwind this thread after each ns of its CPU time outside the handler, half more or less, as the kernel's timer allows */
static int kit_start(lua_State *L)
{
    struct perf_event_attr attr = { .size = sizeof attr,
                                    .type = PERF_TYPE_SOFTWARE,
                                    .config = PERF_COUNT_SW_TASK_CLOCK,
                                    .sample_period = tk_check_count(L, 1),
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1,
                                    .wakeup_events = 1,
                                    .disabled = 1 };
    struct sigaction a = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    struct f_owner_ex owner = { F_OWNER_TID, (pid_t)syscall(SYS_gettid) };

    if (!kit.learned || kit.fd >= 0)
        return luaL_error(L, "learn, or stop, first");
    if (!kit.stacks) {
        kit.places = calloc(PLACES, sizeof *kit.places);
        kit.stacks = calloc(STACKS, sizeof *kit.stacks);
    }
    if (!kit.places || !kit.stacks)
        return luaL_error(L, "memory");
    kit.n_places = kit.samples = kit.lost = 0;
    kit.ns = kit.most_ns = 0;
    memset(kit.stacks, 0, STACKS * sizeof *kit.stacks);
    kit.period = attr.sample_period;
    kit.fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 8L);
    if (kit.fd < 0)
        return tk_refused(L, "perf_event_open", errno);
    sigaction(SIGPROF, &a, &kit.before);
    fcntl(kit.fd, F_SETFL, fcntl(kit.fd, F_GETFL) | O_ASYNC);
    fcntl(kit.fd, F_SETSIG, SIGPROF);
    fcntl(kit.fd, F_SETOWN_EX, &owner);
    ioctl(kit.fd, PERF_EVENT_IOC_ENABLE, 0);
    lua_pushboolean(L, 1);
    return 1;
}

/* samples(): how many were taken since the start */
static int kit_samples(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)kit.samples);
    return 1;
}

/* stop(): an array of stacks with their counts; samples, lost, ns (of the mean sample) and most_ns are its fields */
static int kit_stop(lua_State *L)
{
    int n = 0;

    if (kit.fd < 0)
        return luaL_error(L, "start first");
    ioctl(kit.fd, PERF_EVENT_IOC_DISABLE, 0);
    close(kit.fd);
    kit.fd = -1;
    sigaction(SIGPROF, &kit.before, NULL);
    lua_newtable(L);
    for (unsigned i = 0; i < STACKS; i++)
        if (kit.stacks[i].count) {
            push_stack(L, &kit.stacks[i]);
            lua_rawseti(L, -2, ++n);
        }
    tk_push_u64(L, kit.samples);
    lua_setfield(L, -2, "samples");
    tk_push_u64(L, kit.lost);
    lua_setfield(L, -2, "lost");
    tk_push_u64(L, kit.samples ? kit.ns / kit.samples : 0);
    lua_setfield(L, -2, "ns");
    tk_push_u64(L, kit.most_ns);
    lua_setfield(L, -2, "most_ns");
    return 1;
}

/* --- one machine instruction after another ----------------------------------------------------------------------------- */

#if defined __x86_64__ && !defined __ILP32__
enum { TRAP_FLAG = 0x100, RUNS = 65536 };

/* Consecutive machine instructions with the same innermost Lua function and line. */
struct run {
    uint32_t line, n;
    int32_t linedefined, state, failed, more; /* more: frames */
};

static struct {
    struct run *runs;
    unsigned n;
    /* Reads of memory without results of earlier steps and with them, and how often the two stacks differed. */
    uint64_t reads, reads_kept, differences;
    uint64_t count, stride; /* of the machine instructions at which reads are refused */
} steps;

/* The process's own memory, with the reads counted. */
struct counting {
    struct pf_memory m;
    const struct pf_memory *own;
    uint64_t reads;
};

static int count_read(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
    struct counting *c = (struct counting *)(uintptr_t)m; /* its first member */

    c->reads++;
    return c->own->read(c->own, to, address, n);
}

static int on_innermost(void *to, const struct pf_place *p)
{
    struct pf_place *lua = to;

    if (p->kind == PF_PLACE_LUA && !lua->kind)
        *lua = *p;
    return 0;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
    struct pf_place lua = { .line = 0 }, again = { .line = 0 };
    struct pf_unwound u = { .found = on_innermost, .to = &lua, .seen = &kit.seen };
    struct pf_unwound kept = { .found = on_innermost, .to = &again, .seen = &kit.seen, .walks = kit.walks };
    struct counting memory = { .m.read = count_read, .own = pf_own_memory(context) };
    struct pf_registers r;
    struct run now, *last = steps.n ? &steps.runs[steps.n - 1] : NULL;
    const int saved = errno;

    (void)sig;
    (void)info;
    pf_own_registers(context, &r);
    unwind(kit.global, &r, &memory.m, &u);
    steps.reads += memory.reads;
    memory.reads = 0;
    unwind(kit.global, &r, &memory.m, &kept);
    steps.reads_kept += memory.reads;
    steps.differences += u.state != kept.state || u.failed != kept.failed || u.n != kept.n || memcmp(&lua, &again, sizeof lua) != 0;
    now = (struct run){ lua.line, 1, lua.linedefined, u.state, u.failed, (int32_t)u.n };
    if (last && last->line == now.line && last->linedefined == now.linedefined && last->failed == now.failed &&
        last->state == now.state && last->more == now.more)
        last->n++;
    else if (steps.n < RUNS)
        steps.runs[steps.n++] = now;
    errno = saved;
}

static __attribute__((noinline)) void set_trap_flag(uint64_t set)
{
    uint64_t flags = __builtin_ia32_readeflags_u64();

    __builtin_ia32_writeeflags_u64((flags & ~(uint64_t)TRAP_FLAG) | set);
}

/* Call the function below the n arguments at the top of the Lua stack, with a trap after each machine instruction. */
static void call_stepped(lua_State *L, int n, void (*step)(int, siginfo_t *, void *))
{
    static char room[65536];
    const stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
    struct sigaction a = { .sa_sigaction = step, .sa_flags = SA_SIGINFO | SA_ONSTACK }, before;
    stack_t stack_before;
    int status;

    if (!kit.learned)
        luaL_error(L, "learn first");
    sigaltstack(&stack, &stack_before);
    sigaction(SIGTRAP, &a, &before);
    set_trap_flag(TRAP_FLAG);
    status = lua_pcall(L, n, 0, 0);
    set_trap_flag(0);
    sigaction(SIGTRAP, &before, NULL);
    sigaltstack(&stack_before, NULL);
    if (status != 0)
        lua_error(L);
}

static void refuse_at_step(int sig, siginfo_t *info, void *context)
{
    struct pf_registers r;
    const int saved = errno;

    (void)sig;
    (void)info;
    if (steps.count++ % steps.stride == 0) {
        pf_own_registers(context, &r);
        refuse_each(&r, pf_own_memory(context));
    }
    errno = saved;
}

/* refusals(n, fn, ...): calls fn, and at every n-th machine instruction unwinds the stack as refusals_here does. */
static int kit_refusals(lua_State *L)
{
    steps.count = 0;
    steps.stride = tk_check_count(L, 1);
    memset(&refusals, 0, sizeof refusals);
    call_stepped(L, lua_gettop(L) - 2, refuse_at_step);
    return push_refusals(L);
}

/* steps(fn, ...): calls fn with a trap after each machine instruction. Returns an array of the runs of equal places: line, linedefined
 * (of the innermost Lua function), state, failed, depth, and their number of instructions, n. Its fields are reads, the reads of memory by an
 * unwinder that keeps nothing; reads_kept, those by one that keeps results; and differences, how often their stacks differed. */
static int kit_steps(lua_State *L)
{
    if (!steps.runs)
        steps.runs = calloc(RUNS, sizeof *steps.runs);
    if (!steps.runs)
        return luaL_error(L, "memory");
    steps.n = 0;
    steps.reads = steps.reads_kept = steps.differences = 0;
    call_stepped(L, lua_gettop(L) - 1, on_step);
    lua_createtable(L, (int)steps.n, 0);
    for (unsigned i = 0; i < steps.n; i++) {
        const struct run *r = &steps.runs[i];
        const struct { const char *name; int64_t v; } fields[] = { { "line", r->line }, { "n", r->n },
            { "linedefined", r->linedefined }, { "state", r->state }, { "failed", r->failed }, { "depth", r->more } };

        lua_createtable(L, 0, 6);
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++) {
            lua_pushinteger(L, (lua_Integer)fields[k].v);
            lua_setfield(L, -2, fields[k].name);
        }
        lua_rawseti(L, -2, (int)i + 1);
    }
    tk_push_u64(L, steps.reads);
    lua_setfield(L, -2, "reads");
    tk_push_u64(L, steps.reads_kept);
    lua_setfield(L, -2, "reads_kept");
    tk_push_u64(L, steps.differences);
    lua_setfield(L, -2, "differences");
    return 1;
}
#else
static int kit_steps(lua_State *L)
{
    lua_pushnil(L);
    lua_pushliteral(L, "this machine cannot trap each instruction");
    return 2;
}

static int kit_refusals(lua_State *L)
{
    return kit_steps(L);
}
#endif

/* walk(n): walks along bytecode that no compiler makes, of n instructions and some hundred more, from the one after these n. Each
 * instruction is the end of a loop that begins at the first one. The place that the walk looks for is not there. Returns whether it was
 * found, the number of reads, and that of a search for the jumps to the place where the walk begins. */
#if defined LUAJIT_VERSION
static int kit_walk(lua_State *L)
{
    enum { MORE = 600, LOOP_END = 9 /* before the opcode of a jump */, TARGET = 0x8000 };
    const unsigned n = (unsigned)tk_check_count(L, 1), all = n + MORE;
    uint32_t *code = lua_newuserdata(L, all * sizeof *code);
    struct refusing counting = { .m.read = refuse_one, .own = pf_own_memory(NULL) };
    struct pf_luajit_memo memo = { .constants = 0 };
    const struct pf_luajit_view v = { .l = &kit.layout, .m = &counting.m, .global = kit.global, .memo = &memo };
    const struct pf_luajit_function f = { .code = (uintptr_t)code, .n = all, .first = 1 };
    uint64_t jumps[PF_TRACE_JUMPS_MOST];

    if (!kit.learned)
        return luaL_error(L, "learn first");
    for (unsigned i = 0; i < all; i++) /* the targets of the later ones are as far away as possible */
        code[i] = (uint32_t)(kit.layout.op_jump - LOOP_END) | (uint32_t)(TARGET - (i < TARGET ? i : TARGET)) << 16;
    lua_pushboolean(L, pf_trace_walk(&v, &f, f.code + n * sizeof *code, PF_TRACE_AT, f.code + 2).found);
    tk_push_u64(L, counting.reads);
    counting.reads = 0;
    pf_trace_jumps_to(&v, &f, f.code + n * sizeof *code, jumps);
    tk_push_u64(L, counting.reads);
    return 3;
}
#else
static int kit_walk(lua_State *L)
{
    return luaL_error(L, "only LuaJIT has compiled code");
}
#endif

static const luaL_Reg functions[] = {
    { "learn", kit_learn }, { "here", kit_here }, { "start", kit_start },
    { "samples", kit_samples }, { "stop", kit_stop }, { "steps", kit_steps }, { "refusals", kit_refusals },
    { "refusals_here", kit_refusals_here }, { "walk", kit_walk }, { NULL, NULL },
};

void tk_open_unwind(lua_State *L)
{
    lua_newtable(L);
    tk_register(L, functions);
    lua_setfield(L, -2, "unwind");
}

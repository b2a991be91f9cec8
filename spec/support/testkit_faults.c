/* Memory that cannot be read, and a program that handles its own faults. See testkit.h. */
#include "testkit.h"

#include <errno.h>
#include <lualib.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * region(kind): the address of memory of that kind, mapped for good. "unmapped": nothing; "guarded": PROT_NONE; "ending": four
 * readable bytes, "fine", before unmapped ones; "file": a mapped file, behind the file's end.
 */
static int kit_region(lua_State *L)
{
    static const char *const kinds[] = { "unmapped", "guarded", "ending", "file", NULL };
    const int kind = luaL_checkoption(L, 1, NULL, kinds);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p;

    p = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return tk_refused(L, "mmap", errno);
    p += page;
    if (kind == 0) {
        mprotect(p, page, PROT_NONE); /* unmapped memory might be mapped by another thread */
        munmap(p + page, page);
        p += page;
    } else if (kind == 1) {
        mprotect(p, page, PROT_NONE);
    } else if (kind == 2) {
        mprotect(p + page, page, PROT_NONE);
        p += page - 4;
        memcpy(p, "fine", 4);
    } else {
        const int fd = (int)syscall(SYS_memfd_create, "region", 1);

        if (fd < 0 || mmap(p, page, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            return tk_refused(L, "memfd_create", errno);
        close(fd);
    }
    tk_push_u64(L, (uint64_t)(uintptr_t)p);
    return 1;
}

static struct {
    sigjmp_buf back;
    volatile sig_atomic_t signal, code, on_stack, blocks_usr1, count;
    uintptr_t address;
    struct sigaction before[2];
} fault;

static const int signals[] = { SIGSEGV, SIGBUS };

static void on_fault(int sig, siginfo_t *info, void *context)
{
    stack_t stack;
    sigset_t blocked;

    (void)context;
    sigaltstack(NULL, &stack);
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    fault.signal = sig;
    fault.code = info->si_code;
    fault.address = (uintptr_t)info->si_addr;
    fault.on_stack = (stack.ss_flags & SS_ONSTACK) != 0;
    fault.blocks_usr1 = sigismember(&blocked, SIGUSR1);
    fault.count++;
    if (info->si_code > 0)
        siglongjmp(fault.back, 1);
}

/* handle_faults([how]): a handler of the program's own for SIGSEGV and SIGBUS, with SIGUSR1 in its mask. how: "stack" for
 * SA_ONSTACK, "once" for SA_RESETHAND. handle_faults(false): puts the earlier actions back. */
static int kit_handle_faults(lua_State *L)
{
    static const char *const hows[] = { "plain", "stack", "once", NULL };
    static const int flags[] = { 0, SA_ONSTACK, (int)SA_RESETHAND };
    struct sigaction action = { .sa_sigaction = on_fault };

    if (lua_isboolean(L, 1)) {
        for (int i = 0; i < 2; i++)
            sigaction(signals[i], &fault.before[i], NULL);
        return 0;
    }
    action.sa_flags = SA_SIGINFO | flags[luaL_checkoption(L, 1, "plain", hows)];
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    fault.count = 0;
    for (int i = 0; i < 2; i++)
        sigaction(signals[i], &action, &fault.before[i]);
    return 0;
}

/* fault(address): reads a byte there, on an alternate stack if there is one. Returns false if that went well; else what the
 * program's handler saw: signal, code, address, on_stack, blocks_usr1. */
__attribute__((no_sanitize("address"))) static int kit_fault(lua_State *L)
{
    volatile char *at = (volatile char *)(uintptr_t)(uint64_t)luaL_checknumber(L, 1);

    if (sigsetjmp(fault.back, 1) == 0) {
        (void)*at;
        lua_pushboolean(L, 0);
        return 1;
    }
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, fault.signal);
    lua_setfield(L, -2, "signal");
    lua_pushinteger(L, fault.code);
    lua_setfield(L, -2, "code");
    tk_push_u64(L, fault.address);
    lua_setfield(L, -2, "address");
    lua_pushboolean(L, fault.on_stack);
    lua_setfield(L, -2, "on_stack");
    lua_pushboolean(L, fault.blocks_usr1);
    lua_setfield(L, -2, "blocks_usr1");
    return 1;
}

/* send_fault(): SIGSEGV by kill(2); returns how many signals the program's handler has got. */
static int kit_send_fault(lua_State *L)
{
    raise(SIGSEGV);
    lua_pushinteger(L, fault.count);
    return 1;
}

/* --- a chain of handlers -------------------------------------------------------------------------------------------- */

/* Handlers of any signal, each of which passes the signal on to the action that it has replaced. The last one jumps out. */
enum { LINKS = 9, MOST_SEEN = 40, SIGNALS = 32 };

static struct {
    struct sigaction replaced[SIGNALS][LINKS];
    char seen[MOST_SEEN]; /* the numbers of the handlers that got the last signal */
    volatile sig_atomic_t n, same, blocked;
    siginfo_t *info;
    void *context;
    sigjmp_buf back;
} chain;

static void pass_on(int number, int sig, siginfo_t *info, void *context)
{
    const struct sigaction to = chain.replaced[sig][number - 1];
    sigset_t blocked;

    if (chain.n == 0) {
        chain.info = info;
        chain.context = context;
    }
    chain.blocked = 0;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    for (int i = 1; i < SIGNALS; i++)
        chain.blocked += sigismember(&blocked, i);
    chain.same &= chain.info == info && chain.context == context;
    chain.seen[chain.n++] = (char)('0' + number);
    if (to.sa_handler == SIG_DFL || chain.n == MOST_SEEN)
        siglongjmp(chain.back, 1);
    to.sa_sigaction(sig, info, context);
}

#define LINK(number)                                                    \
    static void link_##number(int sig, siginfo_t *info, void *context) \
    {                                                                   \
        pass_on(number, sig, info, context);                            \
    }
LINK(1)
LINK(2)
LINK(3)
LINK(4)
LINK(5)
LINK(6)
LINK(7)
LINK(8)
LINK(9)

static size_t check_link(lua_State *L, int *sig)
{
    const size_t i = tk_check_count(L, 1) - 1;

    *sig = (int)luaL_optinteger(L, 2, SIGSEGV);
    luaL_argcheck(L, i < LINKS, 1, "no such handler");
    luaL_argcheck(L, *sig > 0 && *sig < SIGNALS, 2, "no such signal");
    return i;
}

static void (*const links[])(int, siginfo_t *, void *) = { link_1, link_2, link_3, link_4, link_5, link_6, link_7, link_8, link_9 };

static void install_link(size_t i, int sig, int flags)
{
    struct sigaction action = { .sa_flags = SA_SIGINFO | flags };

    action.sa_sigaction = links[i];
    if (i == 1)
        sigaddset(&action.sa_mask, SIGUSR1);
    sigaction(sig, &action, &chain.replaced[sig][i]);
}

/* link_handler(number [, signal [, once]]): installs that handler, 1 to 9, for SIGSEGV or another signal; once: with
 * SA_RESETHAND. */
static int kit_link_handler(lua_State *L)
{
    int sig;
    const size_t i = check_link(L, &sig);

    install_link(i, sig, lua_toboolean(L, 3) ? (int)SA_RESETHAND : 0);
    return 0;
}

static size_t racing = LINKS;

/* link_in_race(number): installs that handler of SIGTRAP as soon as the library has asked which action is in force. This needs
 * this module in LD_PRELOAD. */
static int kit_link_in_race(lua_State *L)
{
    int sig;

    racing = check_link(L, &sig);
    return 0;
}

void tk_race(void)
{
    const size_t i = racing;

    racing = LINKS;
    if (i < LINKS)
        install_link(i, SIGTRAP, 0);
}

/* unlink_handler(number [, signal]): puts back what that handler has replaced, whatever is in force now. */
static int kit_unlink_handler(lua_State *L)
{
    int sig;
    const size_t i = check_link(L, &sig);

    sigaction(sig, &chain.replaced[sig][i], NULL);
    return 0;
}

static int push_seen(lua_State *L)
{
    lua_pushlstring(L, chain.seen, (size_t)chain.n);
    lua_pushboolean(L, chain.same);
    lua_pushinteger(L, chain.blocked);
    return 3;
}

/* fault_chain(address): reads a byte there. Returns the numbers of the handlers that got the fault, as text; whether all got the
 * same siginfo and context; and how many signals were blocked in the last one. */
__attribute__((no_sanitize("address"))) static int kit_fault_chain(lua_State *L)
{
    volatile char *at = (volatile char *)(uintptr_t)(uint64_t)luaL_checknumber(L, 1);

    chain.n = 0;
    chain.same = 1;
    if (sigsetjmp(chain.back, 1) == 0)
        (void)*at;
    return push_seen(L);
}

/* signal_chain(signal): sends it to this thread; the results are those of fault_chain. */
static int kit_signal_chain(lua_State *L)
{
    const int sig = (int)luaL_checkinteger(L, 1);

    chain.n = 0;
    chain.same = 1;
    if (sigsetjmp(chain.back, 1) == 0)
        raise(sig);
    return push_seen(L);
}

/* --- handlers of signal(2) ------------------------------------------------------------------------------------------ */

static struct {
    void (*replaced)(int);
    volatile sig_atomic_t passes, n;
} plain[SIGNALS];

/* A handler of one argument calls the next one without the other two, whose registers then have any values. */
static void on_plain(int sig)
{
    void (*const to)(int) = plain[sig].replaced;
    void (*garbage)(int, uintptr_t, uintptr_t);

    plain[sig].n++;
    if (!plain[sig].passes)
        return;
    memcpy(&garbage, &to, sizeof to);
    garbage(sig, 1, 2);
}

static int check_signal(lua_State *L)
{
    const int sig = (int)luaL_checkinteger(L, 1);

    luaL_argcheck(L, sig > 0 && sig < SIGNALS, 1, "no such signal");
    return sig;
}

/* plain_handler(signal [, passes]): installs a handler by signal(2). passes: it calls the one that it has replaced. */
static int kit_plain_handler(lua_State *L)
{
    const int sig = check_signal(L);

    plain[sig].passes = lua_toboolean(L, 2);
    plain[sig].n = 0;
    plain[sig].replaced = signal(sig, on_plain);
    return 0;
}

/* plain_count(signal): how many signals the handler has got. */
static int kit_plain_count(lua_State *L)
{
    lua_pushinteger(L, plain[check_signal(L)].n);
    return 1;
}

/* swap_plainly(signal): replaces the handler in force and restores it, both by signal(2), which does not set SA_SIGINFO. */
static int kit_swap_plainly(lua_State *L)
{
    const int sig = check_signal(L);

    signal(sig, signal(sig, SIG_IGN));
    return 0;
}

/* --- faults, and stacks ---------------------------------------------------------------------------------------------- */

/* block_faults(on) */
static int kit_block_faults(lua_State *L)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    pthread_sigmask(lua_toboolean(L, 1) ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
    return 0;
}

/* Make a stack with inaccessible memory below it. Returns 0 or an errno. */
static int make_stack(stack_t *stack, size_t size)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (room == MAP_FAILED)
        return errno;
    mprotect(room, page, PROT_NONE);
    *stack = (stack_t){ .ss_sp = room + page, .ss_size = size };
    return 0;
}

/* alternate_stack(size): of this thread; false: none. Returns the size of the one before, 0: none */
static int kit_alternate_stack(lua_State *L)
{
    stack_t before, stack = { .ss_flags = SS_DISABLE };
    const int e = lua_toboolean(L, 1) ? make_stack(&stack, tk_check_count(L, 1)) : 0;

    if (e)
        return tk_refused(L, "mmap", e);
    sigaltstack(&stack, &before);
    lua_pushinteger(L, before.ss_flags & SS_DISABLE ? 0 : (lua_Integer)before.ss_size);
    return 1;
}

static char *frame_end;

static void on_usr1(int sig)
{
    (void)sig;
    frame_end = __builtin_frame_address(0);
}

/* signal_frame(): the bytes of a stack that the kernel uses for a signal */
static int kit_signal_frame(lua_State *L)
{
    static char room[65536] __attribute__((aligned(16)));
    const stack_t stack = { .ss_sp = room, .ss_size = sizeof room };
    const struct sigaction action = { .sa_handler = on_usr1, .sa_flags = SA_ONSTACK };
    struct sigaction action_before;
    stack_t stack_before;

    sigaltstack(&stack, &stack_before);
    sigaction(SIGUSR1, &action, &action_before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &action_before, NULL);
    sigaltstack(&stack_before, NULL);
    lua_pushinteger(L, room + sizeof room - frame_end);
    return 1;
}

/* touch_below(n, address): n page faults, with words on the C stack above them that look like pointers to that address. */
static int kit_touch_below(lua_State *L)
{
    const size_t n = tk_check_count(L, 1);
    const uint64_t at = (uint64_t)luaL_checknumber(L, 2);
    volatile uint64_t words[64];

    for (size_t i = 0; i < 64; i++)
        words[i] = at + 16 * i;
    tk_touch_pages(n);
    lua_pushboolean(L, words[1] == at + 16);
    return 1;
}

static size_t pages_of_handler;

static void touch_on_usr1(int sig)
{
    (void)sig;
    tk_touch_pages(pages_of_handler);
}

/* touch_in_handler(n [, size]): n page faults in a handler of SIGUSR1 that runs on the alternate stack if there is one. size: it
 * runs on a new one of this size, with SS_AUTODISARM: the thread has no alternate stack while the handler runs. */
static int kit_touch_in_handler(lua_State *L)
{
    const struct sigaction action = { .sa_handler = touch_on_usr1, .sa_flags = SA_ONSTACK };
    struct sigaction before;
    stack_t stack;
    int e;

    pages_of_handler = tk_check_count(L, 1);
    if (!lua_isnoneornil(L, 2)) {
        e = make_stack(&stack, tk_check_count(L, 2));
        if (e)
            return tk_refused(L, "mmap", e);
        stack.ss_flags = (int)(1U << 31); /* SS_AUTODISARM */
        sigaltstack(&stack, NULL);
    }
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    return 0;
}

/* ask_below(address): the system call rt_sigaction, with such words above it */
static int kit_ask_below(lua_State *L)
{
    const uint64_t at = (uint64_t)luaL_checknumber(L, 1);
    volatile uint64_t words[64];
    struct sigaction now;

    for (size_t i = 0; i < 64; i++)
        words[i] = at + 16 * i;
    sigaction(SIGUSR2, NULL, &now);
    lua_pushboolean(L, words[1] == at + 16);
    return 1;
}

/* A page of the Lua stack that has nothing else, and not the frames of the innermost functions; 0: the stack is too small. */
static uintptr_t page_of_stack(lua_State *L, uintptr_t size)
{
    const uintptr_t *const words = (const void *)L;
#if defined LUA_JITLIBNAME
    enum { BASE = 4, TOP, END, LOW }; /* words of lua_State */
    const uintptr_t page = (words[LOW] + size - 1) & ~(size - 1);

    return words[LOW] <= words[BASE] && words[BASE] <= words[TOP] && words[TOP] <= words[END] && page + 2 * size <= words[BASE] ? page : 0;
#else
    enum { TOP = 2, PAGES = 4 };
    uintptr_t value;

    lua_pushlightuserdata(L, &value);
    memcpy(&value, (const char *)words[TOP] - 16, sizeof value);
    lua_pop(L, 1);
    return value == (uintptr_t)&value ? (words[TOP] - PAGES * size) & ~(size - 1) : 0;
#endif
}

/*
 * syscalls_above(n, hides): n system calls. If hides is true, a page of the Lua stack below cannot be read meanwhile. In PUC Lua, the stack
 * must have six pages.
 */
static int kit_syscalls_above(lua_State *L)
{
    const uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = page_of_stack(L, size);
    const size_t n = tk_check_count(L, 1);

    if (lua_toboolean(L, 2)) {
        if (!page)
            return luaL_error(L, "the stack is too small");
        if (mprotect((void *)page, size, PROT_NONE) < 0)
            return tk_refused(L, "mprotect", errno);
    }
    tk_syscalls(n);
    if (lua_toboolean(L, 2))
        mprotect((void *)page, size, PROT_READ | PROT_WRITE);
    return 0;
}

static const luaL_Reg functions[] = {
    { "region", kit_region },         { "handle_faults", kit_handle_faults }, { "fault", kit_fault },
    { "send_fault", kit_send_fault }, { "block_faults", kit_block_faults },   { "alternate_stack", kit_alternate_stack },
    { "signal_frame", kit_signal_frame }, { "link_handler", kit_link_handler }, { "unlink_handler", kit_unlink_handler },
    { "fault_chain", kit_fault_chain }, { "signal_chain", kit_signal_chain },
    { "link_in_race", kit_link_in_race }, { "plain_handler", kit_plain_handler }, { "plain_count", kit_plain_count },
    { "swap_plainly", kit_swap_plainly },
    { "touch_below", kit_touch_below }, { "touch_in_handler", kit_touch_in_handler },
    { "ask_below", kit_ask_below },
    { "syscalls_above", kit_syscalls_above },
    { NULL, NULL },
};

void tk_open_faults(lua_State *L)
{
    tk_register(L, functions);
}

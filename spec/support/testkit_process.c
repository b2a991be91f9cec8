/*
 * Child processes that run a Lua function, and things that a process can give up: its user, limits, system calls. Irreversible
 * calls are meant for a child: kit.fork(function() kit.drop() ... end).
 */
#include "testkit.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD "testkit.child"

/* A child that waits until it is released, then runs its function and sends the result through a pipe. */
struct child {
    pid_t pid; /* 0: waited for */
    int gate;  /* a byte written here releases the child; -1: released */
    int out;   /* the pipe for its result; -1: closed */
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void write_all(int fd, const char *s, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, s, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        s += n;
        len -= (size_t)n;
    }
}

/* The child's main function. The Lua function is at 1, and its arguments follow. */
static void run_child(lua_State *L, int gate, int out)
{
    int nargs = lua_gettop(L) - 2; /* the userdata stays on top */
    int status;
    char go;

    if (read(gate, &go, 1) != 1)
        _exit(254); /* the parent closed the pipe without releasing the child */
    close(gate);
    lua_settop(L, nargs + 1);
    status = lua_pcall(L, nargs, 1, 0);
    if (!lua_isnil(L, -1)) {
        size_t len = 0;
        const char *s;

        lua_getglobal(L, "tostring");
        lua_insert(L, -2);
        if (lua_pcall(L, 1, 1, 0) == 0 && (s = lua_tolstring(L, -1, &len)) != NULL)
            write_all(out, s, len);
    }
    fflush(NULL);
    _exit(status == 0 ? 0 : 255);
}

/* start(fn, ...): makes a child that will call fn after child:go() */
static int kit_start(lua_State *L)
{
    struct child *c;
    int gate[2], out[2], err;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    c = lua_newuserdata(L, sizeof *c);
    *c = (struct child){ 0, -1, -1 };
    luaL_getmetatable(L, CHILD);
    lua_setmetatable(L, -2);
    if (pipe2(gate, O_CLOEXEC) != 0)
        return tk_refused(L, "pipe2", errno);
    if (pipe2(out, O_CLOEXEC) != 0) {
        err = errno;
        close(gate[0]);
        close(gate[1]);
        return tk_refused(L, "pipe2", err);
    }
    fflush(NULL); /* or the child would print it again */
    c->pid = fork();
    if (c->pid == 0) {
        close(gate[1]);
        close(out[0]);
        run_child(L, gate[0], out[1]);
    }
    err = errno;
    close(gate[0]);
    close(out[1]);
    c->gate = gate[1];
    c->out = out[0];
    if (c->pid < 0) {
        c->pid = 0;
        close_fd(&c->gate);
        close_fd(&c->out);
        return tk_refused(L, "fork", err);
    }
    return 1;
}

static struct child *check_child(lua_State *L)
{
    return luaL_checkudata(L, 1, CHILD);
}

static int child_pid(lua_State *L)
{
    lua_pushinteger(L, check_child(L)->pid);
    return 1;
}

static void let_go(struct child *c)
{
    if (c->gate >= 0)
        write_all(c->gate, "g", 1);
    close_fd(&c->gate);
}

static int child_go(lua_State *L)
{
    let_go(check_child(L));
    lua_settop(L, 1);
    return 1;
}

static int reap(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static bool settle_after_forks = true;

/* settle_after_forks(yes): whether each child that has ended is followed by settle(true) */
static int kit_settle_after_forks(lua_State *L)
{
    settle_after_forks = lua_toboolean(L, 1);
    return 0;
}

/*
 * child:wait([seconds]): releases the child and waits until it ends (300 s, then it is killed). Returns its exit status (0: fn
 * returned, 255: fn raised, -n: signal n) and fn's first result or error as a string.
 */
static int child_wait(lua_State *L)
{
    struct child *c = check_child(L);
    int left_ms = (int)(luaL_optnumber(L, 2, 300.0) * 1000.0);
    luaL_Buffer text;

    luaL_argcheck(L, c->pid != 0, 1, "waited for already");
    let_go(c);
    luaL_buffinit(L, &text);
    for (;;) {
        struct pollfd p = { c->out, POLLIN, 0 };
        int ready = poll(&p, 1, left_ms < 1000 ? left_ms : 1000);
        char some[512];
        ssize_t n;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0) {
            left_ms -= 1000;
            if (left_ms > 0)
                continue;
            kill(c->pid, SIGKILL);
            luaL_addstring(&text, " [killed: it did not end in time]");
            break;
        }
        n = read(c->out, some, sizeof some);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        luaL_addlstring(&text, some, (size_t)n);
    }
    luaL_pushresult(&text);
    lua_pushinteger(L, reap(c->pid));
    c->pid = 0;
    close_fd(&c->out);
    if (settle_after_forks)
        tk_populate(0); /* the fork made every page copy-on-write */
    lua_insert(L, -2);
    return 2;
}

/* child:close(): ends it if it still runs */
static int child_close(lua_State *L)
{
    struct child *c = check_child(L);

    close_fd(&c->gate);
    close_fd(&c->out);
    if (c->pid > 0) {
        kill(c->pid, SIGKILL);
        reap(c->pid);
        c->pid = 0;
    }
    return 0;
}

/* fork(fn, ...): runs fn in a child; returns the status and text that child:wait returns */
static int kit_fork(lua_State *L)
{
    int n = kit_start(L);

    if (n != 1)
        return n;
    lua_replace(L, 1);
    lua_settop(L, 1);
    return child_wait(L);
}

/* fork(2), without the C library; number: the pid that the child gets (0: any), for which root may ask */
static pid_t raw_fork(pid_t number)
{
    const struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size;
    } args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1 };

    if (number)
        return (pid_t)syscall(SYS_clone3, &args, sizeof args);
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/*
 * split([raw [, number]]): forks. Returns the child's pid, and in the child 0. raw: by the system call itself, so that no handler
 * of pthread_atfork runs, and the C library does not take its locks first. A lock that another thread holds then, as malloc's, is
 * held in the child for ever: all other threads must be parked (park). number: the pid of the child, of which no process exists;
 * nil, message, code if the kernel refuses it. reap(pid): waits for the child, and returns its status as child:wait does.
 */
static int kit_split(lua_State *L)
{
    pid_t number = (pid_t)luaL_optinteger(L, 2, 0), pid;

    fflush(NULL);
    pid = lua_toboolean(L, 1) ? raw_fork(number) : fork();
    if (pid < 0)
        return tk_refused(L, "fork", errno);
    tk_forked();
    lua_pushinteger(L, pid);
    return 1;
}

static int kit_reap(lua_State *L)
{
    lua_pushinteger(L, reap((pid_t)luaL_checkinteger(L, 1)));
    return 1;
}

/* exit(status): ends this process at once */
static int kit_exit(lua_State *L)
{
    fflush(NULL);
    _exit((int)luaL_checkinteger(L, 1));
}

/* exec(argv...): replaces this program; returns only if the kernel refuses */
static int kit_exec(lua_State *L)
{
    char *argv[64];
    int n = lua_gettop(L);

    luaL_argcheck(L, n >= 1 && n < 64, 1, "1 to 63 words");
    for (int i = 0; i < n; i++) {
        luaL_checkstring(L, i + 1);
        argv[i] = (char *)(uintptr_t)lua_tostring(L, i + 1);
    }
    argv[n] = NULL;
    fflush(NULL);
    execvp(argv[0], argv);
    return tk_refused(L, argv[0], errno);
}

/* fixed_addresses(): the programs that this process executes get no random addresses, if the system permits that */
static int kit_fixed_addresses(lua_State *L)
{
    (void)L;
    personality(ADDR_NO_RANDOMIZE);
    return 0;
}

static int kit_getpid(lua_State *L)
{
    lua_pushinteger(L, getpid());
    return 1;
}

static int kit_gettid(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)syscall(SYS_gettid));
    return 1;
}

static int kit_geteuid(lua_State *L)
{
    lua_pushinteger(L, (lua_Integer)geteuid());
    return 1;
}

/* kill(pid, signal's number) */
static int kit_kill(lua_State *L)
{
    if (kill((pid_t)luaL_checkinteger(L, 1), (int)luaL_checkinteger(L, 2)) != 0)
        return tk_refused(L, "kill", errno);
    lua_pushboolean(L, 1);
    return 1;
}

static volatile sig_atomic_t counted;

static void count_signal(int sig)
{
    (void)sig;
    counted++;
}

static struct sigaction uncounted;

/* count_signals(sig): installs a handler of the host program that counts; count_signals(sig, false): restores the old handler,
 * and returns the number of signals and whether the counting handler was still installed */
static int kit_count_signals(lua_State *L)
{
    int sig = (int)luaL_checkinteger(L, 1);
    struct sigaction now, action = { .sa_handler = count_signal };

    if (!lua_isnone(L, 2)) {
        sigaction(sig, &uncounted, &now);
        lua_pushinteger(L, counted);
        lua_pushboolean(L, now.sa_handler == count_signal);
        return 2;
    }
    counted = 0;
    sigemptyset(&action.sa_mask);
    sigaction(sig, &action, &uncounted);
    return 0;
}

/* no_handler(signal, ignore): the default action, or to ignore it, both with SA_SIGINFO, which means nothing there */
static int kit_no_handler(lua_State *L)
{
    struct sigaction action = { .sa_handler = lua_toboolean(L, 2) ? SIG_IGN : SIG_DFL, .sa_flags = SA_SIGINFO };

    sigaction((int)luaL_checkinteger(L, 1), &action, NULL);
    return 0;
}

/* breakpoint(): this thread gets the SIGTRAP by which arm64's kernel reports a breakpoint instruction, as of __builtin_trap() */
static int kit_breakpoint(lua_State *L)
{
    siginfo_t info;

    (void)L;
    memset(&info, 0, sizeof info);
    info.si_code = TRAP_BRKPT;
    info.si_addr = (void *)(uintptr_t)kit_breakpoint;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), SIGTRAP, &info);
    return 0;
}

/* chdir(path): changes the current directory; returns whether it could */
static int kit_chdir(lua_State *L)
{
    lua_pushboolean(L, chdir(luaL_checkstring(L, 1)) == 0);
    return 1;
}

/* drop([uid]): becomes an ordinary user (65534) for good; stays dumpable, so that the process still owns its /proc/self */
static int kit_drop(lua_State *L)
{
    uid_t id = (uid_t)luaL_optinteger(L, 1, 65534);

    if (setgroups(0, NULL) != 0 || setresgid(id, id, id) != 0 || setresuid(id, id, id) != 0)
        return tk_refused(L, "setresuid", errno);
    prctl(PR_SET_DUMPABLE, 1);
    lua_pushboolean(L, 1);
    return 1;
}

/* refuse(call, errno): makes the system call of this number (or "perf_event_open", "mmap" ...) fail from now on */
static int kit_refuse(lua_State *L)
{
    static const struct { const char *name; long nr; } calls[] = {
        { "perf_event_open", SYS_perf_event_open }, { "ptrace", SYS_ptrace }, { "mmap", TK_MMAP },
        { "ioctl", SYS_ioctl }, { "read", SYS_read }, { "bpf", SYS_bpf },
        { "openat", SYS_openat }, { "fcntl", SYS_fcntl }, { "getrusage", SYS_getrusage },
        { "madvise", SYS_madvise }, { "rt_sigaction", SYS_rt_sigaction },
    };
    long nr = -1;
    int err = (int)luaL_checkinteger(L, 2);

    if (lua_type(L, 1) == LUA_TNUMBER) {
        nr = (long)lua_tointeger(L, 1);
    } else {
        const char *name = luaL_checkstring(L, 1);

        for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
            if (strcmp(name, calls[i].name) == 0)
                nr = calls[i].nr;
        }
        luaL_argcheck(L, nr >= 0, 1, "a call that testkit_process.c lists, or a number");
    }
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)err & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = { sizeof code / sizeof code[0], code };

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0)
        return tk_refused(L, "seccomp", errno);
    lua_pushboolean(L, 1);
    return 1;
}

static volatile sig_atomic_t storm_signals;

static void storm_signal(int signal)
{
    (void)signal;
    storm_signals++;
}

/* storm(us): sends SIGALRM every so many microseconds, which interrupts system calls that wait; 0 ends it. Returns the number of
 * signals so far. */
static int kit_storm(lua_State *L)
{
    const long us = (long)tk_check_count(L, 1);
    const struct itimerval every = { { us / 1000000, us % 1000000 }, { us / 1000000, us % 1000000 } };
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = storm_signal;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    tk_push_u64(L, (uint64_t)storm_signals);
    return 1;
}

static sigjmp_buf alarm_back;

static void jump_back(int signal)
{
    (void)signal;
    siglongjmp(alarm_back, 1);
}

/* jumps(ns, us): works for that CPU time, while SIGALRM is sent every so many microseconds and its handler jumps back to the
 * beginning of the work, as a time limit does. Returns the number of jumps. */
static int kit_jumps(lua_State *L)
{
    const long us = (long)tk_check_count(L, 2);
    const struct itimerval every = { { 0, us }, { 0, us } }, never = { { 0, 0 }, { 0, 0 } };
    struct sigaction action = { .sa_handler = jump_back };
    const uint64_t end = tk_clock(CLOCK_THREAD_CPUTIME_ID) + tk_check_count(L, 1);
    volatile uint64_t jumps = 0;

    if (sigsetjmp(alarm_back, 1))
        jumps++;
    else if (sigaction(SIGALRM, &action, NULL) == 0)
        setitimer(ITIMER_REAL, &every, NULL);
    while (tk_clock(CLOCK_THREAD_CPUTIME_ID) < end)
        tk_spin(1000);
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    tk_push_u64(L, jumps);
    return 1;
}

/* close_fd(fd): closes any descriptor */
static int kit_close_fd(lua_State *L)
{
    lua_pushboolean(L, close((int)luaL_checkinteger(L, 1)) == 0);
    return 1;
}

/* orphans(): the number of children that this process has not waited for; waits for those that have ended */
static int kit_orphans(lua_State *L)
{
    int n = 0;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        n++;
    lua_pushinteger(L, n + (pid == 0));
    return 1;
}

/* rlimit("nofile" or "memlock" [, n [, hard]]): sets the soft limit, and the hard one if given; without n returns the soft limit */
static int kit_rlimit(lua_State *L)
{
    static const char *const names[] = { "nofile", "memlock", "nproc", "as", NULL };
    static const int which[] = { RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_AS };
    int i = luaL_checkoption(L, 1, NULL, names);
    struct rlimit r;

    if (getrlimit((__rlimit_resource_t)which[i], &r) != 0)
        return tk_refused(L, "getrlimit", errno);
    if (lua_isnoneornil(L, 2)) {
        tk_push_u64(L, r.rlim_cur);
        return 1;
    }
    r.rlim_cur = (rlim_t)tk_check_count(L, 2);
    if (!lua_isnoneornil(L, 3))
        r.rlim_max = (rlim_t)tk_check_count(L, 3);
    if (setrlimit((__rlimit_resource_t)which[i], &r) != 0)
        return tk_refused(L, "setrlimit", errno);
    lua_pushboolean(L, 1);
    return 1;
}

static const luaL_Reg functions[] = {
    { "start", kit_start },   { "fork", kit_fork },     { "exit", kit_exit },
    { "split", kit_split },   { "reap", kit_reap },
    { "exec", kit_exec },     { "fixed_addresses", kit_fixed_addresses },
    { "getpid", kit_getpid }, { "gettid", kit_gettid },
    { "count_signals", kit_count_signals }, { "no_handler", kit_no_handler }, { "breakpoint", kit_breakpoint },
    { "kill", kit_kill },     { "drop", kit_drop },     { "chdir", kit_chdir },     { "refuse", kit_refuse },
    { "rlimit", kit_rlimit }, { "orphans", kit_orphans },
    { "settle_after_forks", kit_settle_after_forks },
    { "storm", kit_storm },
    { "jumps", kit_jumps },   { "close_fd", kit_close_fd }, { "geteuid", kit_geteuid },
    { NULL, NULL },
};

static const luaL_Reg child_methods[] = {
    { "pid", child_pid }, { "go", child_go }, { "wait", child_wait }, { "close", child_close },
    { NULL, NULL },
};

void tk_open_process(lua_State *L)
{
    tk_metatable(L, CHILD, child_methods);
    tk_register(L, functions);
}

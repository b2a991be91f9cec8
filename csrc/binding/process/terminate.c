/* Calls a Lua function before the process ends by SIGTERM, SIGHUP or SIGQUIT; then the process ends as it would have.
 *
 * The signal handler only sets a debug hook, as an interpreter does on an interrupt. Compiled code of LuaJIT does not check
 * hooks, but it stops for a running profiler, and then the hook runs too. A second signal, more than a second after the first,
 * ends the process at once. Only the thread and the process that installed the handler act on a signal: other threads, and the
 * child of a fork, do not.
 *
 * The work of the function may also be done without a signal, at the end of the program. A signal must not interrupt it then, so
 * between core.hold_signals() and core.on_terminate() signals, including SIGINT, are only remembered.
 *
 * One Lua state of a process has the handler, from its on_terminate until the state removes it or is closed. After a fork the child's
 * states may have another one. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/stack/own_thread.h"
#include "binding/stack/stack.h"

enum { MASK = LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT };

static struct {
	lua_State *L;
	int kept;          /* reference to {function, thread, object that is finalized when the state closes} */
	unsigned serial;   /* the installation's number */
	const void *state; /* identifies the state */
	atomic_int pid;    /* the process that installed the handler; 0: none. A parent's does not count */
	int tid;
	volatile sig_atomic_t held, asked; /* asked: the signal */
	uint64_t since; /* pf_wall_ns */
} last;

/* The safe points where compiled code stops, and the means to find the thread that runs. A profiler that unwinds has no safe
 * points, so these are made here. */
static struct {
	struct pf_sampling at;
	struct pb_stack stack;
	int taken;
} stops;

static const int signals[] = {SIGTERM, SIGHUP, SIGQUIT, SIGINT};
enum { SIGNALS = sizeof signals / sizeof *signals, TERMINATING = 3 }; /* SIGINT is only caught while signals are held */

static void plain(int sig)
{
	const struct sigaction none = {.sa_handler = SIG_DFL};
	sigset_t set;

	sigaction(sig, &none, NULL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig); /* sent within its handler, it is delivered after that */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
	const int asked = last.asked;

	(void)ar;
	lua_sethook(L, NULL, 0, 0);
	if (!last.state || last.held || !lua_checkstack(L, 4))
		return; /* the code that holds the signals, or has removed the handler, handles this one */
	last.held = 1;
	lua_rawgeti(L, LUA_REGISTRYINDEX, last.kept);
	lua_rawgeti(L, -1, 1);
	lua_pushinteger(L, asked);
	if (lua_pcall(L, 1, 1, 0) == 0 && lua_isnumber(L, -1))
		exit((int)lua_tointeger(L, -1));
	fflush(NULL);
	plain(asked);
}

/* running: the thread that runs, if it is known. */
static void set_hook(lua_State *running)
{
	const struct pb_resumption *r = !running && pf_sampling_here() ? pb_resumption() : NULL;

	lua_sethook(running ? running : r ? r->L : last.L, on_hook, MASK, 1);
}

/* A hook that is set while another one is being called or removed is lost: the interpreter, or the profiler's hook, restores the
 * previous value. So each sample sets it again. */
static void repeat_hook(const struct pb_stack *p, const struct pf_registers *r, const struct pf_memory *m)
{
	if (last.asked && !last.held && last.state && getpid() == last.pid && syscall(SYS_gettid) == last.tid)
		set_hook(p ? pb_running_thread(p, r, m) : NULL);
}

static void ask_for_hook(const void *context)
{
	struct pf_registers r;

	if (stops.stack.global) {
		pf_own_registers(context, &r);
		set_hook(pb_running_thread(&stops.stack, &r, pf_own_memory(context)));
	} else {
		set_hook(NULL);
	}
	if (PB_LUAJIT && pf_sampling_here())
		pb_engine_trigger(NULL);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const int saved = errno;
	const uint64_t now = pf_wall_ns();

	(void)info;
	if (getpid() != last.pid || (last.asked && now - last.since >= 1000000000u)) {
		plain(sig);
	} else if (syscall(SYS_gettid) != last.tid) {
		syscall(SYS_tgkill, last.pid, last.tid, sig);
	} else if (!last.asked) {
		last.asked = sig;
		last.since = now;
		if (!last.held)
			ask_for_hook(context);
	}
	errno = saved;
}

static int is_mine(lua_State *L)
{
	return last.state && last.state == lua_topointer(L, LUA_REGISTRYINDEX);
}

static int is_taken(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal;
}

static void take(int n)
{
	const struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO}; /* without SA_RESTART: a waiting call returns */
	struct sigaction now;

	for (int i = 0; i < n; i++)
		if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
}

static void drop_stops(lua_State *L)
{
	if (stops.at.claimed)
		pb_engine_stop(L, &stops.stack);
	pf_sampling_disclaim(&stops.at);
}

static void give_stops(lua_State *L)
{
	drop_stops(L);
	stops.taken = 0;
	stops.stack.global = 0;
}

/* Idempotent. */
static void give_back(lua_State *L)
{
	if (!is_mine(L))
		return;
	for (int i = 0; i < SIGNALS; i++)
		if (is_taken(signals[i]))
			signal(signals[i], SIG_DFL);
	if (lua_gethook(last.L) == on_hook)
		lua_sethook(last.L, NULL, 0, 0);
	luaL_unref(L, LUA_REGISTRYINDEX, last.kept);
	give_stops(L);
	last.state = NULL;
	last.L = NULL;
	last.held = 0;
	atomic_store(&last.pid, 0);
}

/* The object's finalizer. The state is closing, unless the object belongs to an earlier installation. */
static int l_state_closes(lua_State *L)
{
	const unsigned *serial = lua_touserdata(L, 1);

	if (is_mine(L) && *serial == last.serial)
		give_back(L);
	return 0;
}

/* Pushes {function, thread, object} for the function at 1, and the object. */
static unsigned *push_kept(lua_State *L)
{
	unsigned *serial;

	lua_createtable(L, 3, 0);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 1);
	lua_pushthread(L);
	lua_rawseti(L, -2, 2);
	serial = pb_newuserdata(L, sizeof *serial);
	*serial = 0;
	lua_createtable(L, 0, 1);
	pb_set_function(L, "__gc", l_state_closes);
	lua_setmetatable(L, -2);
	lua_rawseti(L, -2, 3);
	return serial;
}

/* core.on_terminate(fn): calls fn with the signal on SIGTERM, SIGHUP or SIGQUIT; the exit status is the number that fn returns,
 * else the signal ends the process. A signal that the program handles or ignores is left alone. Returns whether SIGTERM is
 * handled here. Without fn: removes the handler; returns the signal that has arrived and was not handled, for core.end_by. */
static int l_on_terminate(lua_State *L)
{
	const int pid = getpid();
	unsigned *serial;
	int asked, kept, owner;

	if (lua_isnoneornil(L, 1)) {
		if (!is_mine(L))
			return 0;
		asked = pid == last.pid ? last.asked : 0;
		give_back(L);
		if (!asked)
			return 0;
		return pb_int(L, asked);
	}
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	serial = push_kept(L);
	kept = luaL_ref(L, LUA_REGISTRYINDEX);
	if (atomic_load(&last.pid) != pid)
		give_back(L); /* this state may have installed it before a fork */
	owner = atomic_load(&last.pid);
	if (owner == pid || !atomic_compare_exchange_strong(&last.pid, &owner, pid)) {
		luaL_unref(L, LUA_REGISTRYINDEX, kept);
		return pb_bool(L, 0);
	}
	give_stops(L); /* stops of the parent's thread */
	last.asked = last.held = 0;
	last.tid = (int)syscall(SYS_gettid);
	last.L = L;
	last.state = lua_topointer(L, LUA_REGISTRYINDEX);
	last.kept = kept;
	pb_on_trigger = repeat_hook;
	*serial = ++last.serial;
	take(TERMINATING);
	return pb_bool(L, is_taken(SIGTERM));
}

static void take_stops(lua_State *L)
{
	const char *why;

	if (PB_LUAJIT && pf_sampling_claim(&stops.at) == 0 && pb_engine_start(L, &stops.stack, &why) < 0)
		pf_sampling_disclaim(&stops.at);
}

/* Replaces a function by which the program starts or stops LuaJIT's profiler. Upvalues: the original; whether it stops. This library
 * must not use LuaJIT's profiler meanwhile: LuaJIT has one mode for both, and compiled code would take no samples for the program. */
static int l_program_profiler(lua_State *L)
{
	const int starts = lua_isfunction(L, 2) && (lua_isnoneornil(L, 1) || lua_isstring(L, 1)); /* else it raises an error */
	const int ours = stops.taken && is_mine(L) && (starts || lua_toboolean(L, lua_upvalueindex(2)));
	int n;

	if (ours)
		drop_stops(L);
	n = lua_tocfunction(L, lua_upvalueindex(1))(L);
	if (ours)
		take_stops(L); /* not while the program's runs */
	return n;
}

/* core.stop_points([profile]): a signal stops the program in compiled code and in any coroutine, from now until the handler is
 * removed. profile: LuaJIT's module jit.profile, whose functions then share LuaJIT's profiler with us. */
static int l_stop_points(lua_State *L)
{
	static const char *const shared[] = {"start", "stop"};
	const char *why;

	if (!is_mine(L) || stops.taken)
		return 0;
	stops.taken = 1;
	stops.stack.at = &stops.at;
	take_stops(L);
	pb_unwind_start(L, &stops.stack, &why);
	for (int i = 0; i < 2 && lua_istable(L, 1); i++) {
		lua_getfield(L, 1, shared[i]);
		if (lua_iscfunction(L, -1)) {
			lua_pushboolean(L, i);
			lua_pushcclosure(L, l_program_profiler, 2);
			lua_setfield(L, 1, shared[i]);
		} else {
			lua_pop(L, 1);
		}
	}
	return 0;
}

/* core.hold_signals(): from now on signals are only remembered, and core.on_terminate() returns them. */
static int l_hold_signals(lua_State *L)
{
	if (is_mine(L) && getpid() == last.pid) {
		last.held = 1;
		take(SIGNALS);
	}
	return 0;
}

/* core.end_by(signal): ends the process by the signal, as it would have ended without a handler. */
static int l_end_by(lua_State *L)
{
	const int sig = (int)luaL_checkinteger(L, 1);

	fflush(NULL);
	plain(sig);
	return 0;
}

void pb_open_terminate(lua_State *L)
{
	static const luaL_Reg functions[] = {{"on_terminate", l_on_terminate},
					     {"stop_points", l_stop_points},
					     {"hold_signals", l_hold_signals},
					     {"end_by", l_end_by},
					     {NULL, NULL}};

	pb_register(L, functions);
}

/* A last word when the process is asked to end: on SIGTERM, SIGHUP or SIGQUIT a Lua function is called, and then the process ends
 * as it would have.
 *
 * The handler only brings a debug hook about, as an interpreter does on an interrupt. Compiled code of LuaJIT hears of no hook, but
 * while a profiler runs it stops for that, so then it gets there too. Who asks again, more than a second later, is not
 * made to wait: the process ends at once. Other threads, and a fork's child, leave it to the thread and the process that installed it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "profiler.h"

enum { MASK = LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT };

static struct {
	lua_State *L;
	int kept;          /* reference to {function, thread} */
	const void *state; /* what tells states apart */
	int pid, tid;
	volatile sig_atomic_t installed, asked; /* asked: the signal */
	struct timespec since;
} last;

static const int signals[] = {SIGTERM, SIGHUP, SIGQUIT};
enum { SIGNALS = sizeof signals / sizeof *signals };

static void plain(int sig)
{
	const struct sigaction none = {.sa_handler = SIG_DFL};
	sigset_t set;

	sigaction(sig, &none, NULL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig); /* in its handler it comes when that is done */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
	(void)ar;
	lua_sethook(L, NULL, 0, 0);
	lua_rawgeti(L, LUA_REGISTRYINDEX, last.kept);
	lua_rawgeti(L, -1, 1);
	lua_pushinteger(L, last.asked);
	if (lua_pcall(L, 1, 1, 0) == 0 && lua_isnumber(L, -1))
		exit((int)lua_tointeger(L, -1));
	fflush(NULL);
	plain(last.asked);
}

static void on_signal(int sig)
{
	const int saved = errno;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (getpid() != last.pid || (last.asked && now.tv_sec - last.since.tv_sec > (now.tv_nsec < last.since.tv_nsec))) {
		plain(sig);
	} else if (syscall(SYS_gettid) != last.tid) {
		syscall(SYS_tgkill, last.pid, last.tid, sig);
	} else if (!last.asked) {
		last.asked = sig;
		last.since = now;
		lua_sethook(pb_resumed ? pb_resumed->L : last.L, on_hook, MASK, 1);
		if (PB_LUAJIT && pf_sampler_busy())
			pb_engine_trigger(NULL);
	}
	errno = saved;
}

/* core.on_terminate(fn): call it with the signal on SIGTERM, SIGHUP or SIGQUIT; the exit status is the number that it returns, or
 * the signal ends the process. A signal that somebody else handles, or ignores, is left to them; whether SIGTERM is not.
 * Without fn: no more. */
static int l_on_terminate(lua_State *L)
{
	const struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART: what waits comes back */
	struct sigaction now[SIGNALS];

	for (int i = 0; i < SIGNALS; i++)
		sigaction(signals[i], NULL, &now[i]);
	if (lua_isnoneornil(L, 1)) {
		if (!last.installed || last.state != lua_topointer(L, LUA_REGISTRYINDEX))
			return 0;
		for (int i = 0; i < SIGNALS; i++)
			if (now[i].sa_handler == on_signal)
				signal(signals[i], SIG_DFL);
		last.installed = 0;
		luaL_unref(L, LUA_REGISTRYINDEX, last.kept);
		return 0;
	}
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	if (last.installed) {
		lua_pushboolean(L, 0);
		return 1;
	}
	lua_createtable(L, 2, 0);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 1);
	lua_pushthread(L);
	lua_rawseti(L, -2, 2);
	last.kept = luaL_ref(L, LUA_REGISTRYINDEX);
	last.state = lua_topointer(L, LUA_REGISTRYINDEX);
	last.L = L;
	last.pid = getpid();
	last.tid = (int)syscall(SYS_gettid);
	last.asked = 0;
	last.installed = 1;
	for (int i = 0; i < SIGNALS; i++)
		if (now[i].sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
	lua_pushboolean(L, now[0].sa_handler == SIG_DFL);
	return 1;
}

void pb_open_terminate(lua_State *L)
{
	static const luaL_Reg functions[] = {{"on_terminate", l_on_terminate}, {NULL, NULL}};

	pb_register(L, functions);
}

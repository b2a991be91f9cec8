/* Process: a child that waits to exec a program. Its uservalue is not used; the userdata is made before the child. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process/child.h"
#include "core/base/sys.h"
#include "binding/base/binding.h"

#define PB_PROCESS "perf.Process"

static struct pf_process *check_process(lua_State *L, int i)
{
	return pb_check(L, i, PB_PROCESS, "Process");
}

/* Push a userdata with the words of the command line that is the first argument, a table, which must outlive it. */
static char **push_argv(lua_State *L)
{
	size_t n;
	char **argv;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = pb_rawlen(L, 1);
	luaL_argcheck(L, n > 0 && n < 1u << 20, 1, "a program and its arguments expected");
	luaL_checkstack(L, 10, "arguments");
	argv = pb_newuserdata(L, (n + 1) * sizeof *argv);
	for (size_t i = 0; i < n; i++) {
		size_t len = 0;
		const char *text;

		lua_rawgeti(L, 1, (int)i + 1);
		text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
		if (!text || strlen(text) != len) {
			luaL_argerror(L, 1, "strings without zero bytes expected");
			return NULL;
		}
		argv[i] = (char *)(uintptr_t)text; /* the table keeps it */
		lua_pop(L, 1);
	}
	argv[n] = NULL;
	return argv;
}

/* core.spawn(argv): a Process that waits to be started, or nil, message, code. */
static int l_spawn(lua_State *L)
{
	struct pf_process *p;
	char **argv;
	int r;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	p = pb_new(L, sizeof *p, PB_PROCESS);
	*p = (struct pf_process){.gate = {-1, -1}, .fault = -1, .end = -1};
	argv = push_argv(L);
	r = pf_process_spawn(p, argv);
	lua_settop(L, 2);
	return r < 0 ? pb_fail(L, r, "fork") : 1;
}

/* core.exec(argv): replaces the program of this process. It returns only if that fails: nil, message, code. */
static int l_exec(lua_State *L)
{
	char **argv;

	lua_settop(L, 1);
	argv = push_argv(L);
	execvp(argv[0], argv);
	return pb_fail(L, -errno, "exec");
}

static int l_gc(lua_State *L)
{
	pf_process_release(check_process(L, 1));
	return 0;
}

static int l_pid(lua_State *L)
{
	return pb_int(L, check_process(L, 1)->pid);
}

/* process:ending(): a descriptor for core.watch that is readable once the process has ended, or nil. */
static int l_ending(lua_State *L)
{
	const struct pf_process *p = check_process(L, 1);

	if (p->end < 0)
		return 0;
	return pb_int(L, p->end);
}

/* process:start(): true once the program runs; or nil, message, code, the reason why it does not. */
static int l_start(lua_State *L)
{
	return pb_result(L, pf_process_start(check_process(L, 1)), "exec");
}

/* process:trace(), before the start: true; or nil, message, code if tracing is refused. process:until_open(path), after the
 * start: true when the program is stopped just before it opens path; false if it ended without that, or if a signal arrived and
 * the tracing was ended. process:go_on() lets it open the file and ends the tracing.
 * */
static int l_trace(lua_State *L)
{
	return pb_result(L, pf_process_trace(check_process(L, 1)), "ptrace");
}

static int l_until_open(lua_State *L)
{
	int r = pf_process_until_open(check_process(L, 1), luaL_checkstring(L, 2));

	if (r < 0)
		return pb_fail(L, r, "waitpid");
	return pb_bool(L, r);
}

static int l_go_on(lua_State *L)
{
	pf_process_go_on(check_process(L, 1));
	return 0;
}

/* process:wait(block): {exit = code} or {signal = number} if it has ended, false if not; or nil, message, code. */
static int l_wait(lua_State *L)
{
	struct pf_process *p = check_process(L, 1);
	int r = pf_process_wait(p, lua_toboolean(L, 2));

	if (r < 0)
		return pb_fail(L, r, "waitpid");
	if (r == 0)
		return pb_bool(L, 0);
	lua_createtable(L, 0, 1);
	pb_set_int(L, WIFSIGNALED(p->status) ? "signal" : "exit", WIFSIGNALED(p->status) ? WTERMSIG(p->status) : WEXITSTATUS(p->status));
	return 1;
}

static int l_kill(lua_State *L)
{
	return pb_result(L, pf_process_kill(check_process(L, 1), (int)luaL_optinteger(L, 2, SIGTERM)), "kill");
}

/* core.catch_interrupts(): true; or nil, message, "EBUSY" if another caller in this process catches them already.
 * core.caught_interrupt(): the last signal, whether a process sent it (false: the terminal, to its whole group), and the number
 * of signals; or nil. core.release_interrupts([again]): with again = true, a signal that was caught is raised again. */
static int l_catch(lua_State *L)
{
	return pb_result(L, pf_interrupts_catch(), "signals");
}

static int l_caught(lua_State *L)
{
	int sent, count, signal = pf_interrupts_caught(&sent, &count);

	if (signal == 0)
		return 0;
	lua_pushinteger(L, signal);
	lua_pushboolean(L, sent);
	lua_pushinteger(L, count);
	return 3;
}

static int l_release(lua_State *L)
{
	int sent, count, signal = pf_interrupts_caught(&sent, &count);

	pf_interrupts_release();
	if (signal != 0 && lua_toboolean(L, 1))
		raise(signal);
	return 0;
}

/* core.watch(fds, seconds): waits until one of the descriptors is readable, a signal arrives, or the time is over. Descriptors at
 * end of file are set to -1 in the table. Returns the number of the others. */
static int l_watch(lua_State *L)
{
	lua_Number seconds = luaL_checknumber(L, 2);
	struct pollfd *fds;
	size_t n;
	int live = 0;

	luaL_checktype(L, 1, LUA_TTABLE);
	n = pb_rawlen(L, 1);
	fds = pb_newuserdata(L, (n + 1) * sizeof *fds);
	for (size_t i = 0; i < n; i++) {
		lua_rawgeti(L, 1, (int)i + 1);
		fds[i] = (struct pollfd){.fd = (int)lua_tointeger(L, -1), .events = POLLIN};
		lua_pop(L, 1);
	}
	pf_sys->poll(fds, (nfds_t)n, (int)(seconds * 1000)); /* an error, such as a signal's, ends the wait early */
	for (size_t i = 0; i < n; i++) {
		if (fds[i].fd >= 0 && fds[i].revents & (POLLHUP | POLLERR | POLLNVAL)) {
			lua_pushinteger(L, -1);
			lua_rawseti(L, 1, (int)i + 1);
		} else if (fds[i].fd >= 0) {
			live++;
		}
	}
	return pb_int(L, live);
}

void pb_open_process(lua_State *L)
{
	static const luaL_Reg functions[] = {{"spawn", l_spawn}, {"exec", l_exec},
					     {"watch", l_watch},
					     {"catch_interrupts", l_catch},
					     {"caught_interrupt", l_caught},
					     {"release_interrupts", l_release},
					     {NULL, NULL}};
	static const luaL_Reg methods[] = {
		{"pid", l_pid}, {"ending", l_ending}, {"start", l_start}, {"trace", l_trace}, {"until_open", l_until_open},
		{"go_on", l_go_on}, {"wait", l_wait}, {"kill", l_kill}, {"close", l_gc}, {NULL, NULL}};

	pb_register(L, functions);
	pb_new_class(L, PB_PROCESS, methods, l_gc);
}

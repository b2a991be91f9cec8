/* LuaJIT's own profiler, without its timer and its signal.
 *
 * A process has only one, and others can stop ours: lua_close stops it before the first finalizer runs, and jit.profile.stop and jit.p
 * stop it at any time. LuaJIT's handler of SIGPROF must not be called then: it has no state any more, and if the program has started a
 * profiler of its own, the handler would count for that. Three words of LuaJIT's static memory tell what is running: the state (0:
 * none), the callback, and its data. They are found once, by the callback and the data of our first start. LuaJIT changes them on the
 * thread that runs the state, which is the thread that gets our signal, and it clears the state last. So the handler may be called
 * whenever all three are ours. */
#include "binding/stack/luajit_profiler.h"

#if PB_LUAJIT
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

enum { THREAD_WORDS = 12 };

static void (*handler)(int);              /* LuaJIT's handler of SIGPROF */
static const volatile uintptr_t *profile; /* LuaJIT's three words: state, callback, data */

/* --- the owner of LuaJIT's profiler --------------------------------------------------------------------------------- */

static uintptr_t hook_word(void)
{
	void (*hook)(void *, lua_State *, int, int) = pb_luajit_on_profile;
	uintptr_t word;

	memcpy(&word, &hook, sizeof word);
	return word;
}

int pb_luajit_profiler_ours(const struct pb_stack *p)
{
	return profile && profile[0] && profile[1] == hook_word() && (!p || profile[2] == (uintptr_t)p);
}

int pb_luajit_profiler_runs(uint64_t global)
{
	return profile && profile[0] == global;
}

void pb_luajit_profiler_ask(void)
{
	handler(SIGPROF);
}

struct started {
	const struct pb_stack *p;
	lua_State *L;
	int found;
};

static int is_word_of(const lua_State *L, uintptr_t word)
{
	for (int i = 1; i < THREAD_WORDS; i++)
		if (((const uintptr_t *)(const void *)L)[i] == word)
			return 1;
	return 0;
}

/* Search the writable memory of the shared object that has the handler for a reference to the state, followed by the callback and
 * its data. The last two alone may occur in other places; the state is verified by a thread, which refers to it too. */
static int __attribute__((no_sanitize("address"))) find_in_object(struct dl_phdr_info *object, size_t size, void *data)
{
	struct started *started = data;
	uintptr_t address, hook = hook_word();
	int here = 0;

	(void)size;
	memcpy(&address, &handler, sizeof address);
	for (int i = 0; i < object->dlpi_phnum; i++)
		here |= object->dlpi_phdr[i].p_type == PT_LOAD && address - object->dlpi_addr - object->dlpi_phdr[i].p_vaddr <
								      object->dlpi_phdr[i].p_memsz;
	for (int i = 0; here && i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &object->dlpi_phdr[i];
		const uintptr_t from = object->dlpi_addr + ph->p_vaddr, end = from + ph->p_memsz;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_W) || ph->p_memsz < 4 * sizeof from)
			continue;
		for (const uintptr_t *w = (const uintptr_t *)((from + sizeof from - 1) / sizeof from * sizeof from);
		     (uintptr_t)(w + 3) <= end; w++)
			if (w[1] == hook && w[2] == (uintptr_t)started->p && w[0] && is_word_of(started->L, w[0]))
				profile = started->found++ ? NULL : w;
	}
	return here;
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

/* The action of the signal, and the timer, as they were before LuaJIT's profiler took them. */
struct kept {
	struct sigaction action;
	struct itimerval timer;
	sigset_t mask;
};

static void keep(struct kept *k)
{
	sigset_t prof;

	sigemptyset(&prof);
	sigaddset(&prof, SIGPROF);
	pthread_sigmask(SIG_BLOCK, &prof, &k->mask);
	sigaction(SIGPROF, NULL, &k->action);
	getitimer(ITIMER_PROF, &k->timer);
}

/* The timer may signal any thread: stop it and discard its signals before the program's action is restored. */
static void give_back(const struct kept *k)
{
	setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {0, 0}}, NULL);
	signal(SIGPROF, SIG_IGN);
	sigaction(SIGPROF, &k->action, NULL);
	setitimer(ITIMER_PROF, &k->timer, NULL);
	pthread_sigmask(SIG_SETMASK, &k->mask, NULL);
}

/* Whether LuaJIT's profiler runs for jit.p or another user. */
static int in_use(const struct kept *k)
{
	Dl_info theirs, mine;
	void *address;

	if (profile)
		return profile[0] && !pb_luajit_profiler_ours(NULL); /* ours is left over from before a fork, since the sampler is claimed */
	if (k->action.sa_handler == SIG_DFL || k->action.sa_handler == SIG_IGN)
		return 0;
	if (k->timer.it_interval.tv_sec == 0 && k->timer.it_interval.tv_usec == 0)
		return 0;
	memcpy(&address, &k->action.sa_handler, sizeof address);
	if (!dladdr(address, &theirs))
		return 0;
	return dladdr((void *)(uintptr_t)&luaJIT_profile_start, &mine) && theirs.dli_fbase == mine.dli_fbase;
}

int pb_luajit_profiler_start(lua_State *L, const char *mode, struct pb_stack *p, const char **why)
{
	struct sigaction luajits;
	struct kept k;

	keep(&k);
	*why = "LuaJIT's profiler is in use (jit.p, -jp, jit.profile): there is one in a process";
	if (in_use(&k)) {
		pthread_sigmask(SIG_SETMASK, &k.mask, NULL);
		return -EBUSY;
	}
	signal(SIGPROF, SIG_IGN); /* LuaJIT starts its timer before it installs its handler, and another thread may get the signal */
	luaJIT_profile_start(L, mode, pb_luajit_on_profile, p);
	sigaction(SIGPROF, NULL, &luajits);
	if (luajits.sa_handler == SIG_IGN) { /* its handler was installed before, by another Lua state */
		give_back(&k);
		return -EBUSY;
	}
	handler = luajits.sa_handler;
	if (!profile)
		dl_iterate_phdr(find_in_object, &(struct started){p, L, 0});
	if (!pb_luajit_profiler_ours(p)) {
		luaJIT_profile_stop(L);
		give_back(&k);
		*why = "the state of this LuaJIT's own profiler could not be found";
		return -ENOTSUP;
	}
	give_back(&k);
	return 0;
}

void pb_luajit_profiler_stop(lua_State *L, const struct pb_stack *p)
{
	struct kept k;

	if (!pb_luajit_profiler_ours(p))
		return; /* it has ended already, or another profiler has replaced it */
	keep(&k);
	luaJIT_profile_stop(L);
	give_back(&k);
}

#endif

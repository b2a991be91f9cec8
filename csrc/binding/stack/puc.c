/* PUC Lua: the signal handler sets a hook, as Lua allows. The hook runs at the thread's next call, return or instruction, and
 * removes itself. At a return, the C function that ran when the signal came is still on the stack, with its name. Before an
 * instruction, the previous instruction is the one that ran. No function of Lua gives the address of the next one, so we find
 * once where it is kept, by stepping through a small function.
 *
 * A hook belongs to one Lua thread. The replacements of coroutine.resume and wrap (stack/coroutine.c) record which thread runs;
 * the main thread gets the hook too. A hook of the program is saved, called meanwhile, and set again. */
#include "binding/stack/stack.h"

#if !PB_LUAJIT
#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { MASK = LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, WORDS = 8 };

static struct {
	struct pb_stack *p;
	lua_State *L;    /* the thread that started it; the profiler's uservalue keeps it, even if it is a dead coroutine */
	lua_State *main; /* lives as long as the state; NULL if unknown */
} engine;

/* The threads that have our hook, and the hook that each had before. */
static struct armed {
	lua_State *L;
	lua_Hook hook;
	int mask, count;
} armed[2];

static struct {
	int tried, slot; /* index of the word in where() that has the address of the next instruction; -1: unknown */
	int steps, line;
	uintptr_t before[WORDS];
	uint8_t can[WORDS];
} pc = {.slot = -1};

/* The structure that has the address of the next instruction among its first WORDS words; the smallest one has no more. */
static uintptr_t *where(lua_State *L, const lua_Debug *ar)
{
#if LUA_VERSION_NUM == 501
	(void)ar;
	return (uintptr_t *)(void *)L;
#else
	(void)L;
	return (uintptr_t *)(void *)ar->i_ci;
#endif
}

/* --- finding the place of the next instruction ---------------------------------------------------------------------- */

/* The hook that finds it: it runs before each instruction of a source that has one instruction a line. */
static void step(lua_State *L, lua_Debug *ar)
{
	uintptr_t *words = where(L, ar);

	lua_getinfo(L, "l", ar);
	for (int i = 0; i < WORDS; i++)
		if (ar->currentline == pc.line + 1 && pc.steps > 0)
			pc.can[i] = pc.can[i] && words[i] == pc.before[i] + 4;
	if (ar->currentline == pc.line + 1)
		pc.steps++;
	pc.line = ar->currentline;
	memcpy(pc.before, words, sizeof pc.before);
}

static void learn(lua_State *L)
{
	static const char source[] = "local a = 1\nlocal b = 2\nlocal c = 3\nlocal d = 4\nlocal e = 5\nlocal f = 6\n";
	lua_State *co = lua_newthread(L);
	int n = 0;

	pc.tried = 1;
	memset(pc.can, 1, sizeof pc.can);
	if (luaL_loadbuffer(co, source, sizeof source - 1, "=perf") == 0) {
		lua_sethook(co, step, LUA_MASKCOUNT, 1);
		if (lua_pcall(co, 0, 0, 0) == 0 && pc.steps >= 5)
			for (int i = 0; i < WORDS; i++)
				if (pc.can[i]) {
					pc.slot = i;
					n++;
				}
		lua_sethook(co, NULL, 0, 0);
	}
	if (n != 1)
		pc.slot = -1;
	lua_pop(L, 1);
}

/* --- the hook ------------------------------------------------------------------------------------------------------- */

static void on_hook(lua_State *L, lua_Debug *ar);

static void disarm(lua_State *L)
{
	struct armed *a = armed;
	sigset_t interrupt, before;

	if (lua_gethook(L) != on_hook)
		return;
	/* The interpreter's SIGINT handler sets a hook too. If it came between the check and the change, that hook would be lost. */
	sigemptyset(&interrupt);
	sigaddset(&interrupt, SIGINT);
	pthread_sigmask(SIG_BLOCK, &interrupt, &before);
	if (armed[1].L == L)
		a = armed + 1;
	/* A thread that was made meanwhile has inherited our hook. It gets its creator's previous hook. */
	if (lua_gethook(L) == on_hook)
		lua_sethook(L, a->hook, a->mask, a->count);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void arm(struct armed *a, lua_State *L)
{
	const lua_Hook hook = lua_gethook(L);

	if (hook == on_hook)
		return;
	*a = (struct armed){L, hook, lua_gethookmask(L), lua_gethookcount(L)};
	lua_sethook(L, on_hook, MASK, 1);
}

/* Walk the stack, with the line of the previous instruction instead of the next one's, if both are of the same function. */
static unsigned walk_back(struct pb_stack *p, lua_State *L, lua_Debug *ar, uint32_t *frames)
{
	uintptr_t *slot = pc.slot >= 0 ? where(L, ar) + pc.slot : NULL;
	unsigned n;

	lua_getinfo(L, "S", ar);
	if (slot && ar->what[0] != 'C') {
		*slot -= 4;
		lua_getinfo(L, "l", ar);
		/* A function's first instruction has no previous one: there is no line, or an arbitrary one. */
		if (ar->currentline <= 0 || (ar->linedefined > 0 && (ar->currentline < ar->linedefined || ar->currentline > ar->lastlinedefined))) {
			*slot += 4;
			slot = NULL;
		}
	} else {
		slot = NULL;
	}
	n = pb_walk(p, L, 0, frames);
	if (slot)
		*slot += 4;
	return n;
}

static void attribute(struct pb_stack *p, lua_State *L, lua_Debug *ar)
{
	uint32_t frames[PF_STACK_DEPTH];
	unsigned n;

	if (ar->event == LUA_HOOKCALL) {
		const struct pb_resumption *r = pb_resumption();

		n = pb_walk(p, L, 1, frames); /* the caller ran when the signal came */
		if (n == 0 && r && r->L == L)
			n = pb_walk(p, r->from, 0, frames); /* a coroutine's body has no caller: take the thread that resumed it */
		if (n == 0)
			for (uint32_t i = 0; i < p->at->pending.n; i++)
				p->at->pending.items[i].kind.state = PF_OUTSIDE;
	} else if (ar->event == LUA_HOOKCOUNT) {
		n = walk_back(p, L, ar, frames);
	} else {
		n = pb_walk(p, L, 0, frames);
	}
	p->at->flush(p->at, frames, n);
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
	struct pb_stack *p = engine.p;

	if (p && p->at->running && !p->at->own) {
		pf_sampling_enter(p->at);
		if (pf_pendings_any(&p->at->pending))
			attribute(p, L, ar);
		disarm(L);
		pf_sampling_leave(p->at);
	} else {
		disarm(L);
	}
	/* The program's hook may want this event too. */
	if (lua_gethook(L) && lua_gethook(L) != on_hook && lua_gethookmask(L) & (1 << ar->event) && ar->event != LUA_HOOKCOUNT)
		lua_gethook(L)(L, ar);
}

/* --- the signal handler's part -------------------------------------------------------------------------------------- */

enum pf_state pb_engine_classify(void *owner, uint64_t *function)
{
	(void)owner;
	(void)function;
	return PF_AT_LUA; /* the hook sees whether it is a C function */
}

void pb_engine_trigger(void *owner)
{
	const struct pb_resumption *r = pb_resumption();
	lua_State *L = r ? r->L : engine.L;

	(void)owner;
	if (!L)
		return;
	arm(armed, L);
	if (engine.main && engine.main != L)
		arm(armed + 1, engine.main);
	if (pb_on_trigger)
		pb_on_trigger(NULL, NULL, NULL);
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pb_engine_start(lua_State *L, struct pb_stack *p, const char **why)
{
	(void)why;
	if (!pc.tried)
		learn(L);
	memset(armed, 0, sizeof armed);
	pb_getuservalue(L, 1);
	lua_pushthread(L);
	lua_rawseti(L, -2, PB_KEPT_THREAD);
	lua_pop(L, 1);
	engine.p = p;
	engine.L = L;
	engine.main = p->main;
	return 0;
}

void pb_engine_stop(lua_State *L, struct pb_stack *p)
{
	if (engine.p != p)
		return;
	disarm(L);
	disarm(engine.L);
	if (engine.main)
		disarm(engine.main);
	engine.p = NULL;
	engine.L = engine.main = NULL;
}

#endif

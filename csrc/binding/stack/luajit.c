/* LuaJIT: the safe point is the hook of LuaJIT's own profiler, for which compiled code stops too.
 * luaJIT_profile_start puts a check into compiled code wherever the line changes, and installs a handler for SIGPROF that asks
 * for the hook, with a timer that sends it. luajit_profiler.c keeps the address of that handler and restores the previous timer and
 * signal action; our own signal handler calls it. The hook runs before the next instruction.
 *
 * The public interface does not give the following. We find each once, by inspecting a small function while it runs. If one
 * cannot be found, the profiler works without it:
 *
 *   slot      the place on the C stack, above the hook, where the interpreter keeps the address of the next instruction.
 *             The instruction before that one ran when the signal came, so its line is the one to report.
 *   vmstate   what the interpreter is doing: running a C function, collecting garbage, compiling
 *   cur_L, cframe   the running thread, and its frame of the interpreter; without a frame the program is outside of Lua
 *   func_pc   a function's first instruction: if that is the next one, the signal came while the caller ran */
#include "binding/stack/luajit_profiler.h"

#if PB_LUAJIT
#include <string.h>

#include "core/base/peek.h"
#include "core/stack/unwind_luajit_internal.h"

enum { THREAD_WORDS = 12, GLOBAL_WORDS = 128, STACK_WORDS = 96, INSTRUCTION = 4, MOST_DISTANCE = 1024, MOST_TRIES = 8 };

static struct {
	int tried;
	/* The places, as indexes of words from the start of each structure: */
	int slot;          /* from the hook's frame address; 0: unknown */
	int func_pc;       /* in a function object; 0: unknown */
	int glref, cframe; /* in a thread; glref == 0: these two, cur_L and vmstate are unknown */
	int cur_L;         /* in the global state */
	int vmstate;       /* in the global state, in half words */
	int main;          /* from the global state back to the main thread */
} vm;

/* The signal handler reads these. They belong to the one profiler that runs. */
static struct {
	const volatile uintptr_t *main_cframe, *cur_L;
	const volatile int32_t *vmstate;
} at;

/* --- finding the places --------------------------------------------------------------------------------------------- */

static struct {
	int on;
	lua_State *L;
	const uintptr_t *g;
	uint8_t vmstate[2 * GLOBAL_WORDS], cur_L[GLOBAL_WORDS]; /* whether it can still be there */
	uint8_t hooked;
} learn;

static void narrow(int32_t state)
{
	const int32_t *half = (const int32_t *)(const void *)learn.g;

	if (!learn.g)
		return;
	for (int i = 0; i < 2 * GLOBAL_WORDS; i++)
		learn.vmstate[i] = learn.vmstate[i] && half[i] == state;
	for (int i = 0; i < GLOBAL_WORDS; i++)
		learn.cur_L[i] = learn.cur_L[i] && learn.g[i] == (uintptr_t)learn.L;
}

static int only(const uint8_t *set, int n)
{
	int found = -1;

	for (int i = 0; i < n; i++)
		if (set[i]) {
			if (found >= 0)
				return -1;
			found = i;
		}
	return found;
}

static int line_of(lua_State *L)
{
	lua_Debug ar;

	return lua_getstack(L, 0, &ar) && lua_getinfo(L, "l", &ar) ? ar.currentline : -1;
}

/* The hook at line 3 of the probe's source, where the previous instruction is the call on line 2. */
static void learn_in_hook(lua_State *L, uintptr_t *frame)
{
	const uintptr_t *thread = (const uintptr_t *)(const void *)L, *fn;
	lua_Debug ar;

	narrow(PF_LUAJIT_INTERPRETER);
	if (line_of(L) != 3)
		return;
	learn.hooked = 1;
	for (int i = 1; i < STACK_WORDS && !vm.slot; i++) {
		const uintptr_t pc = frame[i];

		if (pc < 65536 || pc % INSTRUCTION)
			continue;
		frame[i] = pc - INSTRUCTION;
		if (line_of(L) == 2)
			vm.slot = i;
		frame[i] = pc;
	}
	if (!vm.slot)
		return;
	for (int i = 1; i < THREAD_WORDS; i++)
		if (thread[i] >= (uintptr_t)frame && thread[i] < (uintptr_t)(frame + 4 * STACK_WORDS))
			vm.cframe = i;
	if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "f", &ar))
		return;
	fn = lua_topointer(L, -1);
	for (int i = 1; i < 5; i++) /* the smallest function object has five words */
		if (frame[vm.slot] > fn[i] && frame[vm.slot] - fn[i] <= 16 * INSTRUCTION)
			vm.func_pc = i;
	lua_pop(L, 1);
}

static int l_learn(lua_State *L)
{
	learn.L = L;
	narrow(PF_LUAJIT_C);
	pb_function_learn(L);
	pb_luajit_profiler_ask();
	return 0;
}

/* Find the global state: two threads refer to it at the same index, it lies right after the main thread and refers to that. */
static void find_global(const uintptr_t *a, const uintptr_t *b)
{
	uintptr_t g[GLOBAL_WORDS], nearest = MOST_DISTANCE;

	for (int i = 1; i < 6; i++) {
		if (a[i] != b[i] || a[i] % sizeof *a || pf_peek_call(g, a[i], sizeof g) < 0)
			continue;
		for (int k = 1; k < GLOBAL_WORDS; k++)
			if (g[k] < a[i] && a[i] - g[k] < nearest && g[k] % sizeof *a == 0 && ((const uintptr_t *)g[k])[i] == a[i])
				nearest = a[i] - g[k];
		if (nearest < MOST_DISTANCE) {
			vm.glref = i;
			vm.main = (int)(nearest / sizeof *a);
			learn.g = (const uintptr_t *)a[i];
			return;
		}
	}
}

/* l_learn is on top. */
static int run_probe(lua_State *L)
{
	static const char source[] = "local f = ...\nf()\nlocal x = f\nreturn x";

	if (luaL_loadbuffer(L, source, sizeof source - 1, "=perf") != 0)
		return 0;
	lua_insert(L, -2);
	return lua_pcall(L, 1, 0, 0) == 0;
}

static void learn_layout(lua_State *L)
{
	const lua_Hook hook = lua_gethook(L);
	const int mask = lua_gethookmask(L), count = lua_gethookcount(L), top = lua_gettop(L);
	lua_State *co = lua_newthread(L);
	int ok;

	/* Everything that may raise for lack of memory comes before the first change. */
	lua_pushcfunction(co, l_learn);
	lua_pushcfunction(L, l_learn);
	vm.tried++;
	lua_sethook(L, NULL, 0, 0); /* LuaJIT has one hook for all threads; its code would run between the probe's instructions */
	memset(&learn, 0, sizeof learn);
	memset(learn.vmstate, 1, sizeof learn.vmstate);
	memset(learn.cur_L, 1, sizeof learn.cur_L);
	find_global((const uintptr_t *)(const void *)L, (const uintptr_t *)(const void *)co);
	learn.on = 1;
	ok = run_probe(co) && run_probe(L);
	learn.on = 0;
	lua_sethook(L, hook, mask, count);
	lua_settop(L, top);
	vm.vmstate = only(learn.vmstate, 2 * GLOBAL_WORDS);
	vm.cur_L = only(learn.cur_L, GLOBAL_WORDS);
	if (!ok || !learn.hooked || vm.vmstate < 0 || vm.cur_L < 0 || !vm.cframe)
		vm.glref = 0;
}

static void look_at(lua_State *L)
{
	const uintptr_t *g;

	memset(&at, 0, sizeof at);
	if (!vm.glref)
		return;
	g = (const uintptr_t *)((const uintptr_t *)(const void *)L)[vm.glref];
	at.cur_L = g + vm.cur_L;
	at.main_cframe = g - vm.main + vm.cframe;
	at.vmstate = (const int32_t *)(const void *)g + vm.vmstate;
}

/* --- the signal handler's part -------------------------------------------------------------------------------------- */

enum pf_state pb_engine_classify(void *owner, uint64_t *function)
{
	const struct pb_stack *p = owner;
	const uintptr_t *L;
	int32_t state;

	if (!pb_luajit_profiler_ours(owner))
		return PF_UNSAMPLED; /* LuaJIT's profiler was stopped, so no safe point will come */
	if (!at.vmstate)
		return PF_AT_LUA;
	state = *at.vmstate;
	L = (const uintptr_t *)*at.cur_L;
	if (state == PF_LUAJIT_COLLECTOR)
		return PF_AT_GC;
	/* Outside of Lua. After some yields vmstate does not show that. */
	if (!*at.main_cframe && (!L || !L[vm.cframe]))
		return PF_OUTSIDE;
	if (state >= 0 || state == PF_LUAJIT_INTERPRETER)
		return PF_AT_LUA;
	if (state != PF_LUAJIT_C)
		return PF_AT_JIT;
	if (p->may_ask)
		*function = pb_function_running(L);
	return PF_AT_C;
}

/* After its callback LuaJIT's profiler restores the hook's events. If a signal handler set a hook meanwhile, as the interpreter's
 * does at ^C, the events of that hook are lost. So a hook without events gets those that the interpreter gives its hook. */
static void remind_of_hook(void)
{
	lua_State *L = at.cur_L ? (lua_State *)*at.cur_L : NULL;
	lua_Hook hook = L ? lua_gethook(L) : NULL;

	if (hook && lua_gethookmask(L) == 0)
		lua_sethook(L, hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, lua_gethookcount(L) > 0 ? lua_gethookcount(L) : 1);
}

void pb_engine_trigger(void *owner)
{
	if (pb_on_trigger)
		pb_on_trigger(NULL, NULL, NULL);
	if (pb_luajit_profiler_ours(owner)) {
		remind_of_hook();
		pb_luajit_profiler_ask();
	}
}

int pb_engine_stops(uint64_t global)
{
	return pb_luajit_profiler_ours(NULL) && pb_luajit_profiler_runs(global);
}

/* --- the hook ------------------------------------------------------------------------------------------------------- */

/* Whether the function at level 0 has not begun yet. */
static int at_first(lua_State *L, uintptr_t pc)
{
	const uintptr_t *fn;
	lua_Debug ar;

	if (!vm.func_pc || !lua_getstack(L, 0, &ar) || !lua_getinfo(L, "f", &ar))
		return 0;
	fn = lua_topointer(L, -1);
	lua_pop(L, 1);
	/* the header, then the first instruction; pc is the address after that */
	return pc - fn[vm.func_pc] == 2 * INSTRUCTION;
}

/* If vmstate is unknown, every sample gets the state that LuaJIT's handler saw at the first signal. */
static void set_state(struct pb_stack *p, int vmstate)
{
	for (uint32_t i = 0; i < p->at->pending.n; i++)
		p->at->pending.items[i].kind.state = vmstate == 'C'   ? PF_AT_C
						   : vmstate == 'G' ? PF_AT_GC
						   : vmstate == 'J' ? PF_AT_JIT
								    : PF_AT_LUA;
}

/* Whether the C function that ran is unknown, or is the one that the frame shows. Then the frame suffices. */
static int shown(struct pb_stack *p, const struct pf_kind *k, uint32_t frame)
{
	const struct pf_frame *f = pf_stacks_frame_at(&p->at->stacks, frame);

	return k->state == PF_AT_C && f->kind == PF_FRAME_C &&
	       (!k->function || k->function == pf_stacks_function_at(&p->at->stacks, (uint32_t)f->key)->source_key);
}

static int at_c(const struct pf_pendings *pending)
{
	for (uint32_t i = 0; i < pending->n; i++)
		if (pending->items[i].count && pending->items[i].kind.state == PF_AT_C)
			return 1;
	return 0;
}

static void attribute(struct pb_stack *p, lua_State *L, uintptr_t *slot)
{
	struct pf_pendings *pending = &p->at->pending;
	uint32_t frames[PF_STACK_DEPTH];
	unsigned n;

	if (slot && at_c(pending) && at_first(L, *slot)) {
		/* The function at level 0 was called by a C function, which may be on the stack with its name. */
		n = pb_walk(p, L, 1, frames);
		for (uint32_t i = 0; n && i < pending->n; i++)
			if (shown(p, &pending->items[i].kind, frames[0]))
				pending->items[i].kind.state = PF_AT_LUA;
	} else {
		if (slot)
			*slot -= INSTRUCTION;
		n = pb_walk(p, L, 0, frames);
		if (slot)
			*slot += INSTRUCTION;
	}
	p->at->flush(p->at, frames, n);
}

void __attribute__((noinline, no_sanitize("address"))) pb_luajit_on_profile(void *data, lua_State *L, int samples, int vmstate)
{
	struct pb_stack *p = data;
	uintptr_t *frame = __builtin_frame_address(0);

	(void)samples;
	if (learn.on) {
		learn_in_hook(L, frame);
		return;
	}
	if (!p->at->running || p->at->own)
		return;
	pf_sampling_enter(p->at);
	if (pf_pendings_any(&p->at->pending)) {
		if (!at.vmstate)
			set_state(p, vmstate);
		attribute(p, L, vm.slot ? frame + vm.slot : NULL);
	}
	pf_sampling_leave(p->at);
}
/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pb_engine_start(lua_State *L, struct pb_stack *p, const char **why)
{
	const int r = pb_luajit_profiler_start(L, "l", p, why);

	if (r < 0)
		return r;
	if (!vm.glref && vm.tried < MOST_TRIES)
		learn_layout(L);
	look_at(L);
	return 0;
}

void pb_engine_stop(lua_State *L, struct pb_stack *p)
{
	if (pb_luajit_profiler_ours(p))
		memset(&at, 0, sizeof at);
	pb_luajit_profiler_stop(L, p);
}

#endif

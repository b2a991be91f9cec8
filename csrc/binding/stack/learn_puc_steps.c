/* The fifth part of learn_puc.c: counts the machine instructions at which the unwinder finds a wrong line. On x86-64 the
 * processor can trap after each instruction. A function without jumps must show each of its lines, in order. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <pthread.h>

#include "core/base/signal.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"

#if defined __x86_64__ && !defined __ILP32__
static const char text[] = "local up = 1\n"
			   "local function id(...) return ... end\n"
			   "return function(a, b, t, ...)\n"
			   "  local c = a * 3 + b\n"
			   "  c = c / 7\n"
			   "  t.x = c\n"
			   "  b = t.x + t[1]\n"
			   "  c = b % 1000003\n"
			   "  a = b < c\n"
			   "  t[1] = b\n"
			   "  b = -c\n"
			   "  a = not a\n"
			   "  up = c\n"
			   "  c = #t + up\n"
			   "  b = t == c\n"
			   "  a = t[2] or c\n"
			   "  t.y = a\n"
			   "  b = t:id(c)\n"
			   "  c = id(b, ...)\n"
			   "  for i = 1, 2 do b = i end\n"
			   "  t.x = c\n"
#if LUA_VERSION_NUM > 501 /* 5.1 cannot say whether the collector is stopped */
			   "  a = {}\n"
			   "  b = c * 2\n"
			   "  a = 'x' .. #t\n"
			   "  c = c + 1\n"
			   "  a = {c, ...}\n"
			   "  c = c ^ 1.5\n"
			   "  b = function() return c end\n"
			   "  a = c == b\n"
#endif
			   "  return\n"
			   "end\n";
enum { FIRST_LINE = 4, LAST_LINE = LUA_VERSION_NUM > 501 ? 29 : 21 };
enum { TRAP_FLAG = 0x100, MOST_STEPS = 20000, ENOUGH_WRONG = 300, ARGUMENTS = 4, OLD_WORDS = 1024, TRACE = 2 /* TRAP_TRACE */ };

static _Thread_local struct pb_puc_learner *stepping;
static void on_trap(int sig, siginfo_t *info, void *context);
static struct pf_signal traps = {.number = SIGTRAP, .handler = on_trap, .flags = SA_SIGINFO | SA_ONSTACK};

static int on_place(void *to, const struct pf_place *p)
{
	struct pb_puc_learner *w = to;
	struct pb_puc_way *way = w->way;
	const int line = (int)p->line;

	if (p->kind != PF_PLACE_LUA || p->function != w->stepped_proto)
		return 1;
	way->seen++;
	if (line == way->line + 1)
		way->line++;
	way->n_wrong += line != way->line;
	return 1;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	struct pb_puc_learner *w = stepping;
	struct pf_unwound u = {.found = on_place, .to = w};
	struct pf_puc_layout l;
	struct pf_registers r;

	if (!w || info->si_code != TRACE) {
		pf_signal_pass_on(&traps, sig, info, context);
		return;
	}
	pf_own_registers(context, &r);
	l = *w->l;
	for (w->way = w->ways; w->way < w->ways + w->n_ways; w->way++)
		if (w->way->n_wrong < ENOUGH_WRONG) {
			pb_puc_take_way(&l, w->way);
			pf_unwind_puc(&l, w->global, &r, w->m, &u);
		}
	if (++w->traps == MOST_STEPS)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static __attribute__((noinline)) void set_trap_flag(unsigned long long set)
{
	__builtin_ia32_writeeflags_u64((__builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG) | set);
}

static int identity(lua_State *L)
{
	return lua_gettop(L) - 1;
}

/* Not in the program's allocator: it may block signals, and a trap whose signal is blocked ends the process. */
static void *allocate(void *ud, void *block, size_t old, size_t new)
{
	struct pb_puc_learner *w = ud;
	void *p;

	set_trap_flag(0);
	p = w->alloc(w->ud, block, old, new);
	if (w->traps < MOST_STEPS)
		set_trap_flag(TRAP_FLAG);
	return p;
}

/* Leave addresses of the last instructions on the C stack, as an earlier run of the function may. A way that takes words which no
 * function has set then shows the last line. */
static __attribute__((noinline)) void leave_old_words(struct pb_puc_learner *w)
{
	uint64_t words[OLD_WORDS];
	uint8_t proto[PB_PUC_PROTO];
	uint64_t last;

	pb_puc_grab(w, proto, w->stepped_proto, sizeof proto);
	last = pb_puc_word(proto, w->l->proto.code) + 4 * (uint64_t)(pb_puc_number(proto, w->l->proto.counts[0]) - 2);
	for (unsigned i = 0; i < OLD_WORDS; i++)
		words[i] = last;
	__asm__ volatile("" : : "r"(words) : "memory");
}

/* Expects the function and its arguments on T's stack. */
static int step(struct pb_puc_learner *w)
{
	int status;

	w->alloc = lua_getallocf(w->T, &w->ud);
	lua_setallocf(w->T, allocate, w);
	stepping = w;
	leave_old_words(w);
	set_trap_flag(TRAP_FLAG);
	status = lua_pcall(w->T, ARGUMENTS, 0, 0);
	set_trap_flag(0);
	stepping = NULL;
	lua_setallocf(w->T, w->alloc, w->ud);
	return status;
}

static void run(struct pb_puc_learner *w)
{
	const uint32_t generation = pf_fork_generation();
	sigset_t trap, before;
	int status = 0;
#if LUA_VERSION_NUM > 501
	const int collects = lua_gc(w->T, LUA_GCISRUNNING, 0);

	lua_gc(w->T, LUA_GCSTOP, 0);
#endif
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_UNBLOCK, &trap, &before);
	pf_signal_take(&traps);
	if (pf_signal_is_taken(&traps))
		status = step(w);
	pf_signal_give(&traps, generation);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
#if LUA_VERSION_NUM > 501
	if (collects)
		lua_gc(w->T, LUA_GCRESTART, 0);
#endif
	if (status != 0)
		pb_puc_fail(w, "the steps");
	if (w->traps == 0) /* a debugger, a filter of system calls, or a program that emulates the processor */
		pb_puc_fail(w, "single steps of the processor did not raise SIGTRAP");
}

static void push_arguments(lua_State *T)
{
	lua_pushinteger(T, 1);
	lua_pushinteger(T, 2);
	lua_newtable(T);
	for (int i = 1; i <= 2; i++) {
		lua_pushinteger(T, i);
		lua_rawseti(T, -2, i);
		lua_pushboolean(T, 1);
		lua_setfield(T, -2, i == 1 ? "x" : "y");
	}
	lua_pushcfunction(T, identity);
	lua_setfield(T, -2, "id");
	lua_pushinteger(T, 3);
}

static unsigned wrong(const struct pb_puc_way *way)
{
	if (way->seen == 0 || way->n_wrong >= ENOUGH_WRONG || way->line < LAST_LINE)
		return PB_PUC_ALL_WRONG;
	return 1000 * way->n_wrong / way->seen;
}

void pb_puc_count_wrong(struct pb_puc_learner *w)
{
	uint8_t closure[64];

	w->traps = 0;
	if (luaL_loadbuffer(w->T, text, sizeof text - 1, "=perf steps") != 0 || lua_pcall(w->T, 0, 1, 0) != 0)
		pb_puc_fail(w, "the steps' text");
	pb_puc_grab(w, closure, (uintptr_t)lua_topointer(w->T, -1), sizeof closure);
	w->stepped_proto = pb_puc_word(closure, w->l->closure.proto);
	/* The first run binds the C library's functions, and allocates. */
	lua_pushvalue(w->T, -1);
	push_arguments(w->T);
	if (lua_pcall(w->T, ARGUMENTS, 0, 0) != 0)
		pb_puc_fail(w, "the steps");
	push_arguments(w->T);
	for (unsigned i = 0; i < w->n_ways; i++)
		w->ways[i].line = FIRST_LINE - 1;
	run(w);
	for (unsigned i = 0; i < w->n_ways; i++)
		w->ways[i].wrong = wrong(&w->ways[i]);
}
#else
void pb_puc_count_wrong(struct pb_puc_learner *w)
{
	(void)w;
}
#endif
#endif

/* The fifth part of learn_puc.c: counts the machine instructions at which the unwinder finds a wrong line. On x86-64 the
 * processor can trap after each instruction. The lines of a function without backward jumps must never decrease, and each line
 * must occur. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <pthread.h>

#include "core/base/signal.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"

#if defined __x86_64__ && !defined __ILP32__
/* No line allocates, since a step of the collector could take long. */
static const char text[] = "local up = 1\n"
			   "return function(a, b, t)\n"
			   "  local c = a * 3 + b\n"
			   "  c = c / 7\n"
			   "  t.x = c\n"
			   "  b = t.x + t[1]\n"
			   "  c = b % 1000003\n"
			   "  a = b < c\n"
			   "  t[1] = b\n"
			   "  c = c ^ 1.5\n"
			   "  b = -c\n"
			   "  a = not a\n"
			   "  up = c\n"
			   "  c = #t + up\n"
			   "  b = t == c\n"
			   "  a = t[2] or c\n"
			   "  t.y = a\n"
			   "  return\n"
			   "end\n";
enum { FIRST_LINE = 3, LAST_LINE = 17, TRAP_FLAG = 0x100, MOST_STEPS = 10000, TRACE = 2 /* TRAP_TRACE */ };

static _Thread_local struct pb_puc_learner *stepping;
static void on_trap(int sig, siginfo_t *info, void *context);
static struct pf_signal traps = {.number = SIGTRAP, .handler = on_trap, .flags = SA_SIGINFO | SA_ONSTACK};

static int on_place(void *to, const struct pf_place *p)
{
	struct pb_puc_learner *w = to;
	const int line = (int)p->line;

	if (p->kind != PF_PLACE_LUA || p->function != w->stepped_proto)
		return 1;
	w->steps_seen++;
	if (line > w->steps_line)
		w->steps_line = line;
	w->steps_wrong += line < w->steps_line;
	if (line < 32)
		w->steps_lines |= 1u << line;
	return 1;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	struct pb_puc_learner *w = stepping;
	struct pf_unwound u = {.found = on_place, .to = w};
	struct pf_registers r;

	if (!w || info->si_code != TRACE) {
		pf_signal_pass_on(&traps, sig, info, context);
		return;
	}
	pf_own_registers(context, &r);
	pf_unwind_puc(w->l, w->global, &r, w->m, &u);
	if (++w->traps == MOST_STEPS)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static __attribute__((noinline)) void set_trap_flag(unsigned long long set)
{
	__builtin_ia32_writeeflags_u64((__builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG) | set);
}

/* Expects the function and its arguments on T's stack. */
static int run(struct pb_puc_learner *w)
{
	const uint32_t generation = pf_fork_generation();
	sigset_t trap, before;
	int status;

	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_UNBLOCK, &trap, &before);
	pf_signal_take(&traps);
	stepping = w;
	if (pf_signal_is_taken(&traps))
		set_trap_flag(TRAP_FLAG);
	status = lua_pcall(w->T, 3, 0, 0);
	set_trap_flag(0);
	stepping = NULL;
	pf_signal_give(&traps, generation);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return status;
}

unsigned pb_puc_wrong_steps(struct pb_puc_learner *w)
{
	const unsigned all = (2u << LAST_LINE) - (1u << FIRST_LINE);
	uint8_t closure[64];
	int status;

	w->steps_seen = w->steps_wrong = w->steps_lines = w->traps = 0;
	w->steps_line = 0;
	if (luaL_loadbuffer(w->T, text, sizeof text - 1, "=perf steps") != 0 || lua_pcall(w->T, 0, 1, 0) != 0)
		pb_puc_fail(w, "the steps' text");
	pb_puc_grab(w, closure, (uintptr_t)lua_topointer(w->T, -1), sizeof closure);
	w->stepped_proto = pb_puc_word(closure, w->l->closure.proto);
	lua_pushinteger(w->T, 1);
	lua_pushinteger(w->T, 2);
	lua_newtable(w->T);
	for (int i = 1; i <= 2; i++) {
		lua_pushinteger(w->T, i);
		lua_rawseti(w->T, -2, i);
		lua_pushboolean(w->T, 1);
		lua_setfield(w->T, -2, i == 1 ? "x" : "y");
	}
	status = run(w);
	if (status != 0)
		pb_puc_fail(w, "the steps");
	if (w->steps_seen == 0) /* no trap came: perhaps an emulator runs us */
		return w->traps ? PB_PUC_ALL_WRONG : 0;
	if ((w->steps_lines & all) != all && w->traps < MOST_STEPS)
		return PB_PUC_ALL_WRONG;
	return 1000 * w->steps_wrong / w->steps_seen;
}
#else
unsigned pb_puc_wrong_steps(struct pb_puc_learner *w)
{
	(void)w;
	return 0;
}
#endif
#endif

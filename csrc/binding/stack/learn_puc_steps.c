/* The fifth part of learn_puc.c: where the pc is, by the lines of a function that is interrupted.
 *
 * On x86-64 the processor can trap after each instruction. The function has no jumps, so it must show each of its lines, in order. It
 * is short, since a trap takes 20 us in some virtual machines. While the loop has called a function, the line is that of the loop's
 * last instruction.
 *
 * An arm64 process cannot single-step itself. There a timer interrupts a function that spends nearly all of its time on one line. The
 * instructions of that line save no pc, and run partly in the loop and partly in C functions that it calls. Such samples do not
 * distinguish the instructions of one line, so the only ways to be tried are those that are right while the loop calls the allocator. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/signal.h"
#include "core/base/signal_stack.h"
#include "core/base/thread.h"
#include "core/stack/own_thread.h"

static void take(struct pf_puc_layout *l, const struct pb_puc_way *running, const struct pb_puc_way *called)
{
	l->loop.from = called->loop ? called->loop->from : 0;
	l->loop.end = called->loop ? called->loop->end : 0;
	l->loop.running = running->pc;
	l->loop.called = called->pc;
}

#if (defined __x86_64__ || defined __aarch64__) && !defined __ILP32__
static PF_THREAD_LOCAL struct pb_learner *stepping;
static void on_trap(int sig, siginfo_t *info, void *context, unsigned layer);
static struct pf_signal traps;
PF_SIGNAL_HANDLERS(on_trap, &traps)
static struct pf_signal traps = {.number = SIGTRAP, .flags = SA_SIGINFO | SA_ONSTACK, .layer = PF_SIGNAL_LAYERS_OF(on_trap)};

#ifdef __x86_64__
/* Nothing here allocates: the program's allocator may block signals, and a trap whose signal is blocked ends the process. */
static const char text[] = "local up = 1\n"
			   "return function(a, b, t, begin, finish)\n"
			   "  begin()\n"
			   "  local c = a * 3 + b\n"
			   "  a = c % 5\n"
			   "  c = c / 7\n"
			   "  t.x = c\n"
			   "  b = -c\n"
			   "  up = c\n"
			   "  c = up\n"
			   "  finish()\n"
			   "end\n";
enum { FIRST_LINE = 3, LAST_LINE = 11 };
enum { TRAP_FLAG = 0x100, MOST_STEPS = 8000, BREAKPOINT = 1 /* TRAP_BRKPT */, STEP /* TRAP_TRACE */ };
enum { ENOUGH = MOST_STEPS };
enum { EXACT = 1 };
enum { MOST_WRONG = 30 /* of 1,000 machine instructions */ };

#else
/* A loop of Lua would save the pc. */
#define SOME "a = a % 7 c = a * 3 + 2 b = c * 5 c = b - a / 3 a = c * 3 + b c = a - b * 2 a = c / 9 b = a * 7 + c a = b - c / 5 " \
	     "c = a * 3 + b b = c * 2 + a a = (c / 3 + b) ^ 0.7 "
#define MORE SOME SOME SOME SOME SOME SOME
static const char text[] = "return function(a, b, c, begin)\n"
			   "  begin()\n"
			   "  " MORE MORE MORE MORE MORE MORE "\n"
			   "end\n";
enum { FIRST_LINE = 3, LAST_LINE = FIRST_LINE };
enum { MOST_CALLS = 10000, SHORTEST = 20000, LONGER = 30000 /* nanoseconds between samples */ };
enum { EXACT = 0 /* samples differ by chance: the first of the good ways is taken */ };
enum { ENOUGH = 40 /* samples of the loop, and as many of the functions that it calls */ };
enum { MOST_WRONG = 250 /* of 1,000 samples: a few belong to other lines, while a wrong way finds hardly any on the line */ };
#endif

static void see_running(struct pb_learner *w, const struct pb_puc_loop *loop, struct pf_c_frame *f)
{
#ifdef __x86_64__
	if (w->running.n == 0) {
		pb_puc_add_running(w, loop, &f->r);
		w->running.n = w->running.n < PB_PUC_RUNNING ? w->running.n : PB_PUC_RUNNING;
		for (unsigned i = 0; i < w->running.n; i++)
			w->running.way[i].line = FIRST_LINE;
	}
#endif
	for (struct pb_puc_way *way = w->running.way; way < w->running.way + w->running.n; way++)
		if (way->loop == loop) {
			const int line = pb_puc_line(w, &way->pc, f);

			way->line += way->line < LAST_LINE && line == way->line + 1;
			way->lines |= line == way->line;
			way->wrong += line != way->line;
		}
}

static void see_called(struct pb_learner *w, const struct pb_puc_loop *loop, struct pf_c_frame *f)
{
	for (unsigned i = 0; i < w->called.n; i++)
		if (w->called.way[i].loop == loop) {
			const int line = pb_puc_line(w, &w->called.way[i].pc, f);

			for (unsigned k = 0; k < w->running.n; k++)
				w->wrong[k][i] = (uint16_t)(w->wrong[k][i] + (line != w->running.way[k].line));
		}
}

static void see(struct pb_learner *w, const struct pf_registers *r)
{
	const struct pb_puc_loop *before = NULL;

	if (!pb_puc_runs_probe(w, r))
		return; /* in begin() or finish() */
	if (!w->called.way->loop && w->seen[0] < ENOUGH) {
		w->seen[0]++;
		see_running(w, NULL, NULL);
	}
	for (const struct pb_puc_way *way = w->called.way; way < w->called.way + w->called.n; way++) {
		struct pf_c_frame f = {.r = *r};

		if (way->loop && way->loop != before && pb_puc_find_frame(w, way->loop, &f) && w->seen[f.called] < ENOUGH) {
			w->seen[f.called]++;
			if (f.called)
				see_called(w, way->loop, &f);
			else
				see_running(w, way->loop, &f);
		}
		before = way->loop;
	}
}

static int call(struct pb_learner *w);

#ifdef __x86_64__
/* A virtual machine may fail to say that the processor single-stepped. Then the kernel takes the step for a breakpoint, which has
 * the address of the next instruction as well. */
static int is_step(const siginfo_t *info, const ucontext_t *context)
{
	return info->si_code == STEP ||
	       (info->si_code == BREAKPOINT && (uintptr_t)info->si_addr == (uintptr_t)context->uc_mcontext.gregs[REG_RIP]);
}

static void on_trap(int sig, siginfo_t *info, void *context, unsigned layer)
{
	struct pb_learner *w = stepping;
	struct pf_registers r;

	if (!w || !info || !is_step(info, context)) {
		pf_signal_pass_on(&traps, layer, sig, info, context);
		return;
	}
	pf_own_registers(context, &r);
	see(w, &r);
	if (++w->traps == MOST_STEPS)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static __attribute__((noinline)) void set_trap_flag(unsigned long long set)
{
	__builtin_ia32_writeeflags_u64((__builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG) | set);
}

static int begin(lua_State *L)
{
	(void)L;
	if (stepping)
		set_trap_flag(TRAP_FLAG);
	return 0;
}

static int finish(lua_State *L)
{
	(void)L;
	set_trap_flag(0);
	return 0;
}

static int interrupt(struct pb_learner *w)
{
	const int status = call(w);

	set_trap_flag(0);
	return status;
}

static void begin_running(struct pb_learner *w)
{
	w->running.n = w->called.way->loop ? 0 : 1;
	w->running.way->line = FIRST_LINE;
}

static int was_interrupted(const struct pb_learner *w)
{
	return w->traps > 0;
}
#else
static PF_THREAD_LOCAL int timer;

static void set_timer(unsigned long ns)
{
	const struct itimerspec once = {.it_value = {.tv_nsec = (long)ns}};

	syscall(SYS_timer_settime, timer, 0, &once, NULL);
}

/* The program repeats itself, so samples at regular times could hit the same instructions again and again. */
static void on_trap(int sig, siginfo_t *info, void *context, unsigned layer)
{
	struct pb_learner *w = stepping;
	struct pf_registers r;

	if (!info || info->si_code != SI_TIMER || info->si_value.sival_ptr != &traps) {
		pf_signal_pass_on(&traps, layer, sig, info, context);
		return;
	}
	if (!w)
		return;
	pf_own_registers(context, &r);
	see(w, &r);
	set_timer(SHORTEST + ++w->traps * 7919ul % LONGER);
}

static int begin(lua_State *L)
{
	(void)L;
	return 0;
}

static int finish(lua_State *L)
{
	return begin(L);
}

static int was_interrupted(const struct pb_learner *w)
{
	return w->seen[0] >= ENOUGH && (w->seen[1] >= ENOUGH || !w->called.way->loop);
}

static int interrupt(struct pb_learner *w)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGTRAP, .sigev_value = {.sival_ptr = &traps}};
	int status = 0;

	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) < 0)
		return 0;
	set_timer(SHORTEST);
	for (int i = 0; i < MOST_CALLS && status == 0 && !was_interrupted(w); i++)
		status = call(w);
	syscall(SYS_timer_delete, timer);
	return status;
}

/* Any register may hold an earlier instruction's address of the same line, so a way must name its register. */
static void begin_running(struct pb_learner *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->called.n; i++)
		if (!w->called.way[i].loop || w->called.way[i].pc.preferred)
			w->called.way[n++] = w->called.way[i];
	w->called.n = n;
	w->running = w->called;
	w->running.n = w->called.n < PB_PUC_RUNNING ? w->called.n : PB_PUC_RUNNING;
	for (unsigned i = 0; i < w->running.n; i++) {
		w->running.way[i].line = FIRST_LINE;
		w->running.way[i].lines = 0;
	}
}
#endif

/* Put the arguments t, begin and finish on T's stack, above the function. */
static void give_arguments(struct pb_learner *w)
{
	lua_newtable(w->S);
	lua_pushinteger(w->S, 3);
	lua_setfield(w->S, -2, "x");
	lua_pushcfunction(w->S, begin);
	lua_pushcfunction(w->S, finish);
	lua_xmove(w->S, w->T, 3);
}

/* Raises no error, which would leave the signal taken. */
static int call(struct pb_learner *w)
{
	lua_pushvalue(w->T, -4);
	lua_pushinteger(w->T, 1);
	lua_pushinteger(w->T, 2);
	for (int i = 0; i < 3; i++)
		lua_pushvalue(w->T, -6);
	return lua_pcall(w->T, 5, 0, 0);
}

static void run(struct pb_learner *w)
{
	const uint32_t generation = pf_fork_generation();
	sigset_t trap, before;
	int status, has_stack;

	give_arguments(w);
	status = call(w); /* binds the C library's functions, and grows the stack */
	has_stack = pf_signal_stack_take() == 0;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_UNBLOCK, &trap, &before);
	pf_signal_take(&traps);
	if (status == 0 && has_stack && pf_signal_is_taken(&traps)) {
		stepping = w;
		status = interrupt(w);
		stepping = NULL;
	}
	pf_signal_give(&traps, generation);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pf_signal_stack_give();
	if (!has_stack)
		pb_learn_fail(w, "no memory for the steps' signal handler");
	if (status != 0)
		pb_learn_fail(w, "the steps");
	if (!was_interrupted(w)) /* a debugger, a filter of system calls, or a program that emulates the processor */
		pb_learn_fail(w, "the processor's single steps, or a timer, did not raise SIGTRAP");
}

void pb_puc_step(struct pb_learner *w)
{
	uint8_t closure[64];
	unsigned least = UINT32_MAX, most;

	if (luaL_loadbuffer(w->T, text, sizeof text - 1, "=perf steps") != 0 || lua_pcall(w->T, 0, 1, 0) != 0)
		pb_learn_fail(w, "the steps' text");
	pb_learn_grab(w, closure, (uintptr_t)lua_topointer(w->T, -1), sizeof closure);
	pb_puc_probe(w, pb_puc_word(closure, w->l->closure.proto));
	begin_running(w);
	run(w);
	most = (w->seen[0] + w->seen[1]) * MOST_WRONG / 1000;
	for (unsigned k = 0; k < w->running.n; k++)
		for (unsigned i = 0; i < w->called.n; i++) {
			const struct pb_puc_way *running = &w->running.way[k], *called = &w->called.way[i];

			if (running->loop == called->loop && running->lines && running->line == LAST_LINE &&
			    running->wrong + w->wrong[k][i] < least && (EXACT || (k == i && least > most))) {
				least = running->wrong + w->wrong[k][i];
				take(w->l, running, called);
			}
		}
	if (least > most)
		pb_learn_fail(w, "this build of Lua does not keep the address of the running instruction where it can be found");
}
#else
void pb_puc_step(struct pb_learner *w)
{
	take(w->l, w->called.way, w->called.way);
}
#endif
#endif

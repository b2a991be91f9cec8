/* See signal_stack.h. */
#include "core/base/signal_stack.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "core/base/pages.h"
#include "core/base/thread.h"

enum { STACK_SIZE = 64 << 10 };

static PF_THREAD_LOCAL struct {
	unsigned users;
	void *volatile stack; /* ours; NULL: there is none */
	stack_t before;       /* the program's, while ours is set */
} here;

static int is_small(const stack_t *s)
{
	return s->ss_size > 0 && s->ss_size < STACK_SIZE && !(s->ss_flags & SS_DISABLE);
}

/* --- in a handler --------------------------------------------------------------------------------------------------- */

#if (defined __x86_64__ || defined __aarch64__) && !defined __ILP32__
/* sigaltstack for a thread that is on its alternate stack: the kernel refuses that, so the stack pointer points elsewhere during the
 * call. A signal meanwhile would overwrite the alternate stack. */
static void replace_stack(const stack_t *stack)
{
	char *const top = (char *)stack->ss_sp + stack->ss_size;
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
#ifdef __x86_64__
	long number = SYS_sigaltstack;

	__asm__ volatile("movq %%rsp, %%r12\n\tmovq %[top], %%rsp\n\tsyscall\n\tmovq %%r12, %%rsp"
			 : "+a"(number) : [top] "r"(top), "D"(stack), "S"(NULL) : "rcx", "r11", "r12", "memory");
#else
	register long x0 __asm__("x0") = (long)stack;
	register long x1 __asm__("x1") = 0;
	register long x8 __asm__("x8") = SYS_sigaltstack;

	__asm__ volatile("mov x9, sp\n\tmov sp, %[top]\n\tsvc #0\n\tmov sp, x9"
			 : "+r"(x0) : [top] "r"(top), "r"(x1), "r"(x8) : "x9", "memory");
#endif
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* At the end of a handler, the kernel sets the alternate stack that the context has. A context without a stack has one of two
 * causes. The program has disabled its stack. Or our handler has interrupted one of the program that runs on a stack with
 * SS_AUTODISARM: then the kernel has disabled this stack, and ours runs on what is left of it. */
int pf_signal_stack_is_small(void *context)
{
	stack_t *const stack = &((ucontext_t *)context)->uc_stack;

	if (stack->ss_size == 0 ? !here.stack : !is_small(stack))
		return 0;
	if (here.stack) {
		here.before = *stack;
		*stack = (stack_t){.ss_sp = here.stack, .ss_size = STACK_SIZE};
		replace_stack(stack);
	}
	return 1;
}
#else
int pf_signal_stack_is_small(void *context)
{
	(void)context;
	return 0;
}
#endif

/* --- take and give -------------------------------------------------------------------------------------------------- */

static pthread_key_t ending;
static int has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Set the program's stack again, unless the program has set another one meanwhile. */
static void free_stack(const stack_t *before)
{
	void *const stack = here.stack;
	stack_t now;

	here.stack = NULL; /* first: a late handler would set it again */
	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == stack)
		sigaltstack(before, NULL);
	pf_pages_put(stack, STACK_SIZE);
}

/* The thread ends before its last give. The program's stack may be freed already, so none is set. */
static void end_stack(void *stack)
{
	(void)stack;
	free_stack(&(stack_t){.ss_flags = SS_DISABLE});
}

static void make_key(void)
{
	has_key = pthread_key_create(&ending, end_stack) == 0;
}

int pf_signal_stack_take(void)
{
	stack_t now;

	pthread_once(&once, make_key);
	here.users++;
	if (!here.stack) {
		here.stack = pf_pages_get(STACK_SIZE);
		if (!here.stack)
			return -ENOMEM;
		if (has_key)
			pthread_setspecific(ending, here.stack);
	}
	if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE || is_small(&now))) {
		here.before = now;
		sigaltstack(&(stack_t){.ss_sp = here.stack, .ss_size = STACK_SIZE}, NULL);
	}
	return 0;
}

void pf_signal_stack_give(void)
{
	if (--here.users > 0 || !here.stack)
		return;
	if (has_key)
		pthread_setspecific(ending, NULL);
	free_stack(&here.before);
}

/* See own_thread.h. */
#include "core/stack/own_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include "core/base/peek.h"
#include "core/base/thread.h"

/* --- registers ------------------------------------------------------------------------------------------------------ */

#if (defined __x86_64__ || defined __aarch64__) && !defined __ILP32__
enum { FRAME_ALIGNED = 16 };

static uint64_t sp_of(const ucontext_t *u)
{
#ifdef __x86_64__
	return (uint64_t)u->uc_mcontext.gregs[REG_RSP];
#else
	return u->uc_mcontext.sp;
#endif
}

static int is_on(const stack_t *s, uint64_t sp)
{
	return !(s->ss_flags & SS_DISABLE) && sp - (uintptr_t)s->ss_sp < s->ss_size;
}

/* u, unless the signal has interrupted a handler of the program on the alternate stack. Then the context that the first handler
 * on that stack has interrupted: the kernel has saved it at the end of the stack. */
static const ucontext_t *__attribute__((no_sanitize("address"))) below_handlers(const ucontext_t *u)
{
	const stack_t *const s = &u->uc_stack;
	const uint64_t sp = sp_of(u), end = (uintptr_t)s->ss_sp + s->ss_size;

	if (!is_on(s, sp))
		return u;
	for (uint64_t at = (end - sizeof *u) & ~(uint64_t)(FRAME_ALIGNED - 1); at > sp; at -= FRAME_ALIGNED) {
		const ucontext_t *const first = (const ucontext_t *)(uintptr_t)at;

		if (first->uc_stack.ss_sp == s->ss_sp && first->uc_stack.ss_size == s->ss_size && !is_on(s, sp_of(first)))
			return first;
	}
	return u;
}
#endif

#if defined __x86_64__ && !defined __ILP32__
static const int order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
			    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

int pf_own_registers_known(void)
{
	return 1;
}

void pf_own_registers(const void *context, struct pf_registers *r)
{
	const ucontext_t *u = below_handlers(context);

	r->ip = (uint64_t)u->uc_mcontext.gregs[REG_RIP];
	r->sp = (uint64_t)u->uc_mcontext.gregs[REG_RSP];
	r->n = PF_X86_REGISTERS;
	r->kept = PF_X86_KEPT;
	r->stack_end = 0;
	for (unsigned i = 0; i < r->n; i++)
		r->general[i] = (uint64_t)u->uc_mcontext.gregs[order[i]];
}

#elif defined __aarch64__ && !defined __ILP32__

int pf_own_registers_known(void)
{
	return 1;
}

void pf_own_registers(const void *context, struct pf_registers *r)
{
	const ucontext_t *u = below_handlers(context);

	r->ip = u->uc_mcontext.pc;
	r->sp = u->uc_mcontext.sp;
	r->n = PF_ARM64_REGISTERS;
	r->kept = PF_ARM64_KEPT;
	r->stack_end = 0;
	for (unsigned i = 0; i < 31; i++)
		r->general[i] = u->uc_mcontext.regs[i];
	r->general[31] = r->sp;
}

#else

int pf_own_registers_known(void)
{
	return 0;
}

void pf_own_registers(const void *context, struct pf_registers *r)
{
	(void)context;
	r->ip = r->sp = r->stack_end = 0;
	r->n = r->kept = 0;
}

#endif

/* --- the stack ------------------------------------------------------------------------------------------------------ */

static PF_THREAD_LOCAL struct {
	uint64_t from, end; /* 0: unknown. The main thread's stack grows down to `from` */
} stack;

void pf_own_stack_find(void)
{
	pthread_attr_t attr;
	void *from;
	size_t size;

	if (stack.end || pthread_getattr_np(pthread_self(), &attr) != 0)
		return;
	if (pthread_attr_getstack(&attr, &from, &size) == 0) {
		stack.from = (uintptr_t)from;
		stack.end = stack.from + size;
	}
	pthread_attr_destroy(&attr);
}

uint64_t pf_own_stack_end(uint64_t sp)
{
	return sp - stack.from < stack.end - stack.from ? stack.end : 0; /* a coroutine in C may have a stack of its own */
}

/* --- memory --------------------------------------------------------------------------------------------------------- */

static int load(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	(void)m;
	return pf_peek_load(to, address, n);
}

static int call(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	(void)m;
	return pf_peek_call(to, address, n);
}

static int refuse(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	(void)m;
	(void)to;
	(void)address;
	(void)n;
	return -EFAULT;
}

static const struct pf_memory loads = {load}, calls = {call}, nothing = {refuse};

const struct pf_memory *pf_own_memory(const void *context)
{
	const ucontext_t *u = context;

	return pf_peek_ready(u ? &u->uc_sigmask : NULL) ? &loads : &calls;
}

const struct pf_memory *pf_own_memory_unchecked(const void *context, int ready)
{
	const ucontext_t *u = context;

	return !ready || sigismember(&u->uc_sigmask, SIGSEGV) || sigismember(&u->uc_sigmask, SIGBUS) ? &nothing : &loads;
}

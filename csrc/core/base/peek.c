/* See peek.h. */
#include "core/base/peek.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/base/signal.h"
#include "core/base/thread.h"

/* The loads are in a function of their own, in assembler: so no compiler and no sanitizer changes or moves them, and where one of
 * them faults, the stack is that of a function that has just been called. There the handler lets it return -EFAULT (-14). */
#if defined __x86_64__ && !defined __ILP32__
#define LOADS 1
__asm__(".pushsection .text\n"
	".globl pf_peek_load, pf_peek_at_8, pf_peek_at_4, pf_peek_at_1, pf_peek_failed\n"
	".hidden pf_peek_load, pf_peek_at_8, pf_peek_at_4, pf_peek_at_1, pf_peek_failed\n"
	".type pf_peek_load, @function\n"
	".p2align 4\n"
	"pf_peek_load:\n"
	"	.cfi_startproc\n"
	"	subq	$8, %rdx\n"
	"	jb	2f\n"
	"pf_peek_at_8:\n"
	"	movq	(%rsi), %rcx\n"
	"	movq	%rcx, (%rdi)\n"
	"	addq	$8, %rsi\n"
	"	addq	$8, %rdi\n"
	"	subq	$8, %rdx\n"
	"	jae	pf_peek_at_8\n"
	"2:	testb	$4, %dl\n" /* n less a multiple of 8: the lowest three bits are those of n */
	"	jz	3f\n"
	"pf_peek_at_4:\n"
	"	movl	(%rsi), %ecx\n"
	"	movl	%ecx, (%rdi)\n"
	"	addq	$4, %rsi\n"
	"	addq	$4, %rdi\n"
	"3:	andl	$3, %edx\n"
	"	jz	4f\n"
	"pf_peek_at_1:\n"
	"	movzbl	(%rsi), %ecx\n"
	"	movb	%cl, (%rdi)\n"
	"	incq	%rsi\n"
	"	incq	%rdi\n"
	"	decl	%edx\n"
	"	jnz	pf_peek_at_1\n"
	"4:	xorl	%eax, %eax\n"
	"	ret\n"
	"pf_peek_failed:\n"
	"	movl	$-14, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size pf_peek_load, .-pf_peek_load\n"
	".popsection\n");
#elif defined __aarch64__ && !defined __ILP32__
#define LOADS 1
__asm__(".pushsection .text\n"
	".globl pf_peek_load, pf_peek_at_8, pf_peek_at_4, pf_peek_at_1, pf_peek_failed\n"
	".hidden pf_peek_load, pf_peek_at_8, pf_peek_at_4, pf_peek_at_1, pf_peek_failed\n"
	".type pf_peek_load, %function\n"
	".p2align 4\n"
	"pf_peek_load:\n"
	"	.cfi_startproc\n"
	"	subs	x2, x2, #8\n"
	"	b.lo	2f\n"
	"pf_peek_at_8:\n"
	"	ldr	x3, [x1], #8\n"
	"	str	x3, [x0], #8\n"
	"	subs	x2, x2, #8\n"
	"	b.hs	pf_peek_at_8\n"
	"2:	tbz	x2, #2, 3f\n" /* n less a multiple of 8: the lowest three bits are those of n */
	"pf_peek_at_4:\n"
	"	ldr	w3, [x1], #4\n"
	"	str	w3, [x0], #4\n"
	"3:	ands	x2, x2, #3\n"
	"	b.eq	4f\n"
	"pf_peek_at_1:\n"
	"	ldrb	w3, [x1], #1\n"
	"	strb	w3, [x0], #1\n"
	"	subs	x2, x2, #1\n"
	"	b.ne	pf_peek_at_1\n"
	"4:	mov	w0, #0\n"
	"	ret\n"
	"pf_peek_failed:\n"
	"	mov	w0, #-14\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size pf_peek_load, .-pf_peek_load\n"
	".popsection\n");
#endif

int pf_peek_call(void *to, uint64_t address, size_t n)
{
	const struct iovec into = {to, n}, from = {(void *)(uintptr_t)address, n};

	return address > UINTPTR_MAX || process_vm_readv(getpid(), &into, 1, &from, 1, 0) != (ssize_t)n ? -EFAULT : 0;
}

#ifdef LOADS
enum { SIGNALS = 2 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};

static struct {
	atomic_uint lock; /* pf_fork_generation of its holder, 0: free. The holder of an older generation stayed in the parent */
	unsigned users;
	struct sigaction before[SIGNALS];
	/* At the last give a later action was in force, and stayed. Its handler may call ours. */
	uint8_t left[SIGNALS];
} peek;

extern const char pf_peek_at_8[], pf_peek_at_4[], pf_peek_at_1[], pf_peek_failed[];

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
#ifdef __x86_64__
	greg_t *at = &u->uc_mcontext.gregs[REG_RIP];
	const greg_t loads[] = {(greg_t)pf_peek_at_8, (greg_t)pf_peek_at_4, (greg_t)pf_peek_at_1}, failed = (greg_t)pf_peek_failed;
#else
	unsigned long long *at = &u->uc_mcontext.pc;
	const uintptr_t loads[] = {(uintptr_t)pf_peek_at_8, (uintptr_t)pf_peek_at_4, (uintptr_t)pf_peek_at_1},
			failed = (uintptr_t)pf_peek_failed;
#endif

	for (size_t i = 0; i < sizeof loads / sizeof *loads; i++)
		if (*at == loads[i] && info->si_code > 0) {
			*at = failed;
			return;
		}
	pf_signal_pass_on(&peek.before[sig == SIGBUS], sig, info, context);
}

static void lock(void)
{
	const unsigned generation = pf_fork_generation();
	unsigned seen = 0;

	while (!atomic_compare_exchange_strong(&peek.lock, &seen, generation))
		if (seen == generation) {
			sched_yield();
			seen = 0;
		}
}

static void unlock(void)
{
	atomic_store(&peek.lock, 0);
}

static int is_ours(const struct sigaction *a)
{
	return a->sa_flags & SA_SIGINFO && a->sa_sigaction == on_fault;
}

static int is_installed(int i)
{
	struct sigaction now;

	return sigaction(signals[i], NULL, &now) == 0 && is_ours(&now);
}

/* Our action has the mask and the flags of the one that it replaces, so that the program's handler runs as it would. */
static void install(int i)
{
	struct sigaction now, ours;
	int plain;

	if (sigaction(signals[i], NULL, &now) < 0 || is_ours(&now))
		return;
	plain = now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN;
	/* Two handlers that pass a fault on to each other would never end. */
	if (peek.left[i] && !plain && now.sa_sigaction != peek.before[i].sa_sigaction)
		return;
	peek.before[i] = ours = now;
	if (plain) {
		ours.sa_flags = SA_ONSTACK;
		sigemptyset(&ours.sa_mask);
	}
	ours.sa_flags = (ours.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
	ours.sa_sigaction = on_fault;
	sigaction(signals[i], &ours, NULL);
}

void pf_peek_take(void)
{
	lock();
	if (peek.users++ == 0)
		for (int i = 0; i < SIGNALS; i++)
			install(i);
	unlock();
}

void pf_peek_give(void)
{
	lock();
	if (--peek.users == 0)
		for (int i = 0; i < SIGNALS; i++) {
			peek.left[i] = !is_installed(i);
			if (!peek.left[i])
				sigaction(signals[i], &peek.before[i], NULL);
		}
	unlock();
}

int pf_peek_ready(const sigset_t *blocked)
{
	sigset_t asked;

	if (!blocked && pthread_sigmask(SIG_BLOCK, NULL, &asked) != 0)
		return 0;
	if (!blocked)
		blocked = &asked;
	for (int i = 0; i < SIGNALS; i++)
		if (sigismember(blocked, signals[i]) || !is_installed(i))
			return 0;
	return 1;
}

#else

void pf_peek_take(void)
{
}

void pf_peek_give(void)
{
}

int pf_peek_ready(const sigset_t *blocked)
{
	(void)blocked;
	return 0;
}

int pf_peek_load(void *to, uint64_t address, size_t n)
{
	return pf_peek_call(to, address, n);
}

#endif

int pf_peek(void *to, uint64_t address, size_t n)
{
	return pf_peek_ready(NULL) ? pf_peek_load(to, address, n) : pf_peek_call(to, address, n);
}

/* See peek.h. */
#include "core/base/peek.h"

#include <errno.h>
#include <pthread.h>
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

/* The process id, cached: only the first call makes a system call. */
static int own_pid(void)
{
	static _Atomic uint64_t known; /* the process id; in the upper half pf_fork_generation */
	const uint64_t generation = pf_fork_generation(), seen = atomic_load(&known);
	int pid = (int)(uint32_t)seen;

	if (seen >> 32 != generation) {
		pid = getpid();
		atomic_store(&known, generation << 32 | (uint32_t)pid);
	}
	return pid;
}

int pf_peek_call(void *to, uint64_t address, size_t n)
{
	const struct iovec into = {to, n}, from = {(void *)(uintptr_t)address, n};

	return address > UINTPTR_MAX || process_vm_readv(own_pid(), &into, 1, &from, 1, 0) != (ssize_t)n ? -EFAULT : 0;
}

#ifdef LOADS
extern const char pf_peek_at_8[], pf_peek_at_4[], pf_peek_at_1[], pf_peek_failed[];

static void on_fault(int sig, siginfo_t *info, void *context);

static struct pf_signal segv = {.number = SIGSEGV, .handler = on_fault}, bus = {.number = SIGBUS, .handler = on_fault};

#ifdef __x86_64__
#define IP(u) ((u)->uc_mcontext.gregs[REG_RIP])
#define THIRD_ARGUMENT(u) ((u)->uc_mcontext.gregs[REG_RDX])
#else
#define IP(u) ((u)->uc_mcontext.pc)
#define THIRD_ARGUMENT(u) ((u)->uc_mcontext.regs[2])
#endif

static int is_load(const ucontext_t *u)
{
	const uintptr_t ip = (uintptr_t)IP(u);

	return ip == (uintptr_t)pf_peek_at_8 || ip == (uintptr_t)pf_peek_at_4 || ip == (uintptr_t)pf_peek_at_1;
}

/* The context of the load that faulted, or NULL. Linux may start the handler of a pending SIGTRAP first, even if SIGTRAP is
 * blocked: it delivers the first synchronous signal that is pending. Then the fault seems to come from the first instruction of
 * that handler, whose third argument is the context of the load. */
static ucontext_t *find_load(ucontext_t *u)
{
	struct sigaction trap;

	if (is_load(u))
		return u;
	if (sigaction(SIGTRAP, NULL, &trap) < 0 || (uintptr_t)IP(u) != (uintptr_t)trap.sa_sigaction)
		return NULL;
	u = (ucontext_t *)(uintptr_t)THIRD_ARGUMENT(u);
	return is_load(u) ? u : NULL;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	ucontext_t *load = info->si_code > 0 ? find_load(context) : NULL;

	if (load)
		IP(load) = (__typeof__(IP(load)))(uintptr_t)pf_peek_failed;
	else
		pf_signal_pass_on(sig == SIGBUS ? &bus : &segv, sig, info, context);
}

void pf_peek_take(void)
{
	pf_signal_take(&segv);
	pf_signal_take(&bus);
}

void pf_peek_give(uint32_t generation)
{
	pf_signal_give(&segv, generation);
	pf_signal_give(&bus, generation);
}

int pf_peek_ready(const sigset_t *blocked)
{
	sigset_t asked;

	if (!blocked && pthread_sigmask(SIG_BLOCK, NULL, &asked) != 0)
		return 0;
	if (!blocked)
		blocked = &asked;
	return !sigismember(blocked, SIGSEGV) && !sigismember(blocked, SIGBUS) && pf_signal_is_taken(&segv) && pf_signal_is_taken(&bus);
}

#else

void pf_peek_take(void)
{
}

void pf_peek_give(uint32_t generation)
{
	(void)generation;
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

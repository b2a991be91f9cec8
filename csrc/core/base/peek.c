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
#if defined __x86_64__ && !defined __ILP32__ || defined __aarch64__ && !defined __ILP32__
#define LOADS 1
/* The instructions that may fault. */
extern const char pf_peek_word[], pf_peek_pair[], pf_peek_last[], pf_peek_words[], pf_peek_words_last[], pf_peek_half[],
	pf_peek_half_last[], pf_peek_byte[], pf_peek_failed[];
#define GLOBAL(name) ".globl " #name "\n.hidden " #name "\n"
#define LOAD(name, instruction) GLOBAL(name) #name ":\t" instruction "\n"
#define FUNCTION(type, body)                                                                                                    \
	__asm__(".pushsection .text\n" GLOBAL(pf_peek_load) GLOBAL(pf_peek_failed) ".type pf_peek_load, " type "\n.p2align 4\n" \
		"pf_peek_load:\n.cfi_startproc\n" body ".cfi_endproc\n.size pf_peek_load, .-pf_peek_load\n.popsection\n")
#endif

/* Most reads are of one word. Others are of 16 bytes at a time, and then of the last 16, some of which may have been read already; of
 * two words or two halves, which may overlap; or of single bytes. */
#if defined __x86_64__ && !defined __ILP32__
FUNCTION("@function",
	 "	cmpq	$8, %rdx\n"
	 "	jne	1f\n"
	 LOAD(pf_peek_word, "movq	(%rsi), %rax")
	 "	movq	%rax, (%rdi)\n"
	 "	xorl	%eax, %eax\n"
	 "	ret\n"
	 "1:	jb	4f\n"
	 "	leaq	-16(%rdx), %rcx\n"
	 "	cmpq	$16, %rdx\n"
	 "	jb	3f\n"
	 "	xorl	%eax, %eax\n"
	 "	testq	%rcx, %rcx\n"
	 "	jz	2f\n"
	 "8:\n" LOAD(pf_peek_pair, "movups	(%rsi,%rax), %xmm0")
	 "	movups	%xmm0, (%rdi,%rax)\n"
	 "	addq	$16, %rax\n"
	 "	cmpq	%rcx, %rax\n"
	 "	jb	8b\n"
	 "2:\n" LOAD(pf_peek_last, "movups	(%rsi,%rcx), %xmm0")
	 "	movups	%xmm0, (%rdi,%rcx)\n"
	 "	xorl	%eax, %eax\n"
	 "	ret\n"
	 "3:\n" LOAD(pf_peek_words, "movq	(%rsi), %rax")
	 LOAD(pf_peek_words_last, "movq	8(%rsi,%rcx), %rdx")
	 "	movq	%rax, (%rdi)\n"
	 "	movq	%rdx, 8(%rdi,%rcx)\n"
	 "	xorl	%eax, %eax\n"
	 "	ret\n"
	 "4:	cmpl	$4, %edx\n"
	 "	jb	5f\n"
	 LOAD(pf_peek_half, "movl	(%rsi), %eax")
	 LOAD(pf_peek_half_last, "movl	-4(%rsi,%rdx), %ecx")
	 "	movl	%eax, (%rdi)\n"
	 "	movl	%ecx, -4(%rdi,%rdx)\n"
	 "	xorl	%eax, %eax\n"
	 "	ret\n"
	 "5:	xorl	%eax, %eax\n"
	 "	testl	%edx, %edx\n"
	 "	jz	7f\n"
	 "6:\n" LOAD(pf_peek_byte, "movzbl	-1(%rsi,%rdx), %ecx")
	 "	movb	%cl, -1(%rdi,%rdx)\n"
	 "	decl	%edx\n"
	 "	jnz	6b\n"
	 "7:	ret\n"
	 "pf_peek_failed:\n"
	 "	movl	$-14, %eax\n"
	 "	ret\n");
#elif defined __aarch64__ && !defined __ILP32__
FUNCTION("%function",
	 "	cmp	x2, #8\n"
	 "	b.ne	1f\n"
	 LOAD(pf_peek_word, "ldr	x3, [x1]")
	 "	str	x3, [x0]\n"
	 "	mov	w0, #0\n"
	 "	ret\n"
	 "1:	b.lo	4f\n"
	 "	sub	x4, x2, #16\n"
	 "	cmp	x2, #16\n"
	 "	b.lo	3f\n"
	 "	mov	x5, #0\n"
	 "	cbz	x4, 2f\n"
	 "8:\n" LOAD(pf_peek_pair, "ldr	q0, [x1, x5]")
	 "	str	q0, [x0, x5]\n"
	 "	add	x5, x5, #16\n"
	 "	cmp	x5, x4\n"
	 "	b.lo	8b\n"
	 "2:\n" LOAD(pf_peek_last, "ldr	q0, [x1, x4]")
	 "	str	q0, [x0, x4]\n"
	 "	mov	w0, #0\n"
	 "	ret\n"
	 "3:	add	x4, x4, #8\n"
	 LOAD(pf_peek_words, "ldr	x3, [x1]")
	 LOAD(pf_peek_words_last, "ldr	x5, [x1, x4]")
	 "	str	x3, [x0]\n"
	 "	str	x5, [x0, x4]\n"
	 "	mov	w0, #0\n"
	 "	ret\n"
	 "4:	cmp	x2, #4\n"
	 "	b.lo	5f\n"
	 "	sub	x4, x2, #4\n"
	 LOAD(pf_peek_half, "ldr	w3, [x1]")
	 LOAD(pf_peek_half_last, "ldr	w5, [x1, x4]")
	 "	str	w3, [x0]\n"
	 "	str	w5, [x0, x4]\n"
	 "	mov	w0, #0\n"
	 "	ret\n"
	 "5:	cbz	x2, 7f\n"
	 "6:	sub	x2, x2, #1\n"
	 LOAD(pf_peek_byte, "ldrb	w3, [x1, x2]")
	 "	strb	w3, [x0, x2]\n"
	 "	cbnz	x2, 6b\n"
	 "7:	mov	w0, #0\n"
	 "	ret\n"
	 "pf_peek_failed:\n"
	 "	mov	w0, #-14\n"
	 "	ret\n");
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
static void on_fault(int sig, siginfo_t *info, void *context, unsigned layer);
static struct pf_signal segv, bus;
PF_SIGNAL_HANDLERS(on_fault, sig == SIGBUS ? &bus : &segv)

static struct pf_signal segv = {.number = SIGSEGV, .layer = PF_SIGNAL_LAYERS_OF(on_fault)};
static struct pf_signal bus = {.number = SIGBUS, .layer = PF_SIGNAL_LAYERS_OF(on_fault)};

#ifdef __x86_64__
#define IP(u) ((u)->uc_mcontext.gregs[REG_RIP])
#define THIRD_ARGUMENT(u) ((u)->uc_mcontext.gregs[REG_RDX])
#else
#define IP(u) ((u)->uc_mcontext.pc)
#define THIRD_ARGUMENT(u) ((u)->uc_mcontext.regs[2])
#endif

static int is_load(const ucontext_t *u)
{
	static const char *const loads[] = {pf_peek_word,	pf_peek_pair, pf_peek_last,	 pf_peek_words,
					    pf_peek_words_last, pf_peek_half, pf_peek_half_last, pf_peek_byte};
	int is = 0;

	for (unsigned i = 0; i < sizeof loads / sizeof *loads; i++)
		is |= (uintptr_t)IP(u) == (uintptr_t)loads[i];
	return is;
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

static void on_fault(int sig, siginfo_t *info, void *context, unsigned layer)
{
	ucontext_t *load = info && info->si_code > 0 ? find_load(context) : NULL;

	if (load)
		IP(load) = (__typeof__(IP(load)))(uintptr_t)pf_peek_failed;
	else
		pf_signal_pass_on(sig == SIGBUS ? &bus : &segv, layer, sig, info, context);
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

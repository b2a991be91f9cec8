/* A thread of this process that a signal has interrupted, for an unwinder in the signal's handler. */
#ifndef PF_OWN_THREAD_H
#define PF_OWN_THREAD_H

#include "core/stack/unwind.h"

/* 1 if the library can read the registers of this machine. */
int pf_own_registers_known(void);

/* Find the calling thread's stack, once for each thread. Not for signal handlers. */
void pf_own_stack_find(void);
/* The end of the calling thread's stack, if pf_own_stack_find knows it and sp points into it; otherwise 0. */
uint64_t pf_own_stack_end(uint64_t sp);

/* The registers at the interruption, without stack_end. If a handler on the alternate stack was interrupted, those of the code
 * that it has interrupted. context: the handler's third argument. */
void pf_own_registers(const void *context, struct pf_registers *r);

/* The registers of the function that calls this. */
static inline __attribute__((always_inline)) void pf_own_registers_here(struct pf_registers *r)
{
	r->n = r->kept = 0;
	r->stack_end = 0;
#if defined __x86_64__ && !defined __ILP32__
	__asm__ volatile("movq %%rbx, 24(%1)\n\tmovq %%rbp, 48(%1)\n\tmovq %%rsp, 56(%1)\n\tmovq %%r12, 96(%1)\n\t"
			 "movq %%r13, 104(%1)\n\tmovq %%r14, 112(%1)\n\tmovq %%r15, 120(%1)\n\tleaq 0(%%rip), %%rax\n\tmovq %%rax, (%1)"
			 : "=m"(r->general) : "r"(r->general) : "rax", "memory");
	r->n = PF_X86_REGISTERS;
	r->kept = PF_X86_KEPT;
	r->sp = r->general[PF_X86_RSP];
#elif defined __aarch64__ && !defined __ILP32__
	__asm__ volatile("stp x19, x20, [%1, #152]\n\tstp x21, x22, [%1, #168]\n\tstp x23, x24, [%1, #184]\n\t"
			 "stp x25, x26, [%1, #200]\n\tstp x27, x28, [%1, #216]\n\tstp x29, x30, [%1, #232]\n\t"
			 "mov x9, sp\n\tstr x9, [%1, #248]\n\tadr x9, .\n\tstr x9, [%1]"
			 : "=m"(r->general) : "r"(r->general) : "x9", "memory");
	r->n = PF_ARM64_REGISTERS;
	r->kept = PF_ARM64_KEPT;
	r->sp = r->general[PF_ARM64_SP];
#endif
	r->ip = r->general[0];
}

/* Returns the quickest way to read this process's memory that works now in this thread. Call it between pf_peek_take and
 * pf_peek_give of core/base/peek.h. context: as above; NULL outside of a signal handler. Makes two system calls, or three without
 * a context. */
const struct pf_memory *pf_own_memory(const void *context);
/* The same without system calls, for a thread that does not block SIGSEGV and SIGBUS. ready: the result of pf_peek_ready at the
 * start; if it is 0, no memory can be read. If the program has replaced our handler of these signals since, its handler gets the
 * faults of our loads. */
const struct pf_memory *pf_own_memory_unchecked(const void *context, int ready);

#endif

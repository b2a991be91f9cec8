/* Reads this process's memory at addresses that may be unmapped.
 *
 * On x86-64 and arm64 it uses plain loads, which take a nanosecond each. If a load faults, our handler of SIGSEGV and SIGBUS sees
 * that the instruction is one of these loads, and the read returns an error. All other faults go to the program's previous action.
 * The handler is installed from pf_peek_take to pf_peek_give. On other machines, or if our handler cannot be used, the kernel
 * copies (process_vm_readv), which takes some hundred nanoseconds.
 *
 * Everything except take and give may be called in a handler of any signal, on any stack. */
#ifndef PF_PEEK_H
#define PF_PEEK_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

/* Take the signals for one more user; give them back: see signal.h. Each take needs one give, also if loads cannot be used.
 * generation: pf_fork_generation at the take. */
void pf_peek_take(void);
void pf_peek_give(uint32_t generation);

/* Can loads be used now, in this thread? Not if the program has replaced our handler since the last take, or blocks the signals.
 * Makes two system calls, which take 0.4 us together. A copy by the kernel takes twice as long, and a stack needs several copies,
 * since each one has the addresses for the next. blocked: the signals that the thread blocks; NULL: ask, by a third call. */
int pf_peek_ready(const sigset_t *blocked);

/* Copy n bytes. Returns 0, or -EFAULT, and then `to` may be partly written. The first function uses what works; the second uses
 * loads, and requires pf_peek_ready; the third asks the kernel. */
int pf_peek(void *to, uint64_t address, size_t n);
int pf_peek_load(void *to, uint64_t address, size_t n);
int pf_peek_call(void *to, uint64_t address, size_t n);

#endif

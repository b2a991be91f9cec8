/* Fault injection: make a chosen system call of the core fail. For tests; costs nothing while disarmed. */
#ifndef PF_FAULT_H
#define PF_FAULT_H

/* The skip-th next call (0 = the next) of the named entry of struct pf_sys fails once with -err. Only one fault is
 * armed at a time, process-wide. Returns 0, or -ENOENT when there is no such entry. */
int pf_fault_arm(const char *call, int err, unsigned skip);

/* Disarm. Returns the number of calls of the armed entry, including the failed one. */
unsigned pf_fault_disarm(void);

#endif

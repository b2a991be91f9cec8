/* The functions of this process's code. */
#ifndef PF_OWN_CODE_H
#define PF_OWN_CODE_H

#include <stdint.h>

/* Finds the function that contains an address, by the unwind tables of the process. Returns 0 or -ENOENT. It takes the dynamic
 * linker's lock, so it must not be called in a signal handler. */
int pf_own_function(uint64_t address, uint64_t *from, uint64_t *end);

#endif

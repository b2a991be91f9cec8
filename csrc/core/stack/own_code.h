/* The functions of this process's code. */
#ifndef PF_OWN_CODE_H
#define PF_OWN_CODE_H

#include <stdint.h>

/* The function that has an address in its code, as the tables for exceptions divide the code. Returns 0 or -ENOENT. Takes the
 * dynamic linker's lock: not for a signal's handler. */
int pf_own_function(uint64_t address, uint64_t *from, uint64_t *end);

#endif

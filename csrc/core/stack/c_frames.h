/* Finds the registers of a C function's caller, by the unwind tables of the code (.eh_frame). */
#ifndef PF_C_FRAMES_H
#define PF_C_FRAMES_H

#include "core/stack/unwind.h"

enum { PF_CODE_OBJECTS = 96 };

/* The executable and its libraries. */
struct pf_code {
	unsigned n;
	struct {
		uint64_t from, end; /* its code */
		uint64_t table;     /* its .eh_frame_hdr */
	} objects[PF_CODE_OBJECTS];
};

struct pf_c_frame {
	struct pf_registers r; /* unknown ones are 0 */
	/* Filled in by pf_c_frame_look: the caller's stack pointer (the canonical frame address), and the function. 0: not yet */
	uint64_t above, from, end;
	int called;            /* r.ip is a return address, so it may be just behind the function */
};

/* The code of this process, as it was at the first call. Not for signal handlers. */
const struct pf_code *pf_own_code(void);

/* Look the function up. Returns 0, -EFAULT, or -ENOENT if the tables do not have it. */
int pf_c_frame_look(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f);
/* Go to the caller, which is not looked up. Returns the same. */
int pf_c_frame_leave(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f);
/* Go to a caller that is known in another way. */
void pf_c_frame_return(struct pf_c_frame *f, uint64_t ip, uint64_t sp);

#endif

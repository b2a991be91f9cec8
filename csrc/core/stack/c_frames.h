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

/* Rules that were found in the tables, by the address of the code. They are taken again if the function still begins with the same
 * bytes. For one thread at a time; zero bytes: none yet. Each has a cache line: tables and rules are hardly ever in a cache. */
enum { PF_C_SEEN = 256, PF_C_SAVED = 12, PF_C_UNIT = 8 };
struct pf_c_seen {
	struct pf_c_rules {
		uint64_t function, code;     /* its address and first bytes */
		uint64_t from;
		uint32_t n, size;            /* the rules hold for n bytes of code from `from` on, 0: none; the size of the function */
		int32_t distance;            /* of the canonical frame address from the value of the register `base` */
		uint8_t base, address;       /* address: the number of the return address's rule */
		uint8_t saved_n, saved[PF_C_SAVED]; /* registers that are saved in memory */
		uint8_t below[PF_C_SAVED];   /* the distances of these places below the canonical frame address, in units */
	} at[PF_C_SEEN];
};

struct pf_c_frame {
	struct pf_registers r; /* unknown ones are 0 */
	/* Filled in by pf_c_frame_look: the caller's stack pointer (the canonical frame address), and the function. 0: not yet */
	uint64_t above, from, end;
	int called;            /* r.ip is a return address, so it may be just behind the function */
	struct pf_c_seen *seen; /* NULL: none are kept */
};

/* The code of this process, as it was at the first call. Not for signal handlers. */
const struct pf_code *pf_own_code(void);

/* Look the function up. Returns 0, -EFAULT, or -ENOENT if the tables do not have it. */
int pf_c_frame_look(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f);
/* Go to the caller, which is not looked up yet. Returns what pf_c_frame_look returns. */
int pf_c_frame_leave(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f);
/* Go to a caller that is known in another way. */
void pf_c_frame_return(struct pf_c_frame *f, uint64_t ip, uint64_t sp);

#endif

/* Keeps the place that was found for a stretch of compiled code. To find it, the unwinder walks along the function's instructions, which
 * takes a microsecond for each hundred of them, and a trace is mostly sampled again and again.
 *
 * A result follows from what was read, so each is kept with notes of these reads and a hash of their bytes. It is used again only if
 * the same reads have the same hash: then a walk would find the same, whatever has been compiled, flushed, freed or loaded since. */
#ifndef PF_UNWIND_TRACE_SEEN_H
#define PF_UNWIND_TRACE_SEEN_H

#include "core/stack/unwind_trace.h"

/* A position in a trace: its snapshot, and the offset in its code, on which the result depends if a function was called from there, or
 * if the machine code has marks of lines. */
struct pf_trace_position {
	uint32_t k;
	uint64_t offset;
	int called;
	struct pf_luajit_lines lines; /* of the innermost function; 0: unknown */
};

/* The kept result for this code: fills in *at and *s. Returns 0 if there is none. */
int pf_trace_recall(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, struct pf_trace_position *at, struct pf_snapshot *s);
/* Between these, what is read is noted, and then the result for the code `from` is kept. */
void pf_trace_begin_notes(const struct pf_luajit_view *v);
void pf_trace_keep(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_trace_position *from,
		   const struct pf_trace_position *at, const struct pf_snapshot *s);

#endif

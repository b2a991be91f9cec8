/* Compiled code: walks along the bytecode for which it stands. */
#ifndef PF_UNWIND_TRACE_WALK_H
#define PF_UNWIND_TRACE_WALK_H

#include "core/stack/unwind_trace.h"

enum { PF_TRACE_WALK_MOST = 512 /* instructions */ };

/* How a walk ends: at an instruction, after an instruction, after a jump one of whose targets is given, or where the function returns. */
enum pf_trace_stop { PF_TRACE_AT, PF_TRACE_AFTER, PF_TRACE_AFTER_JUMP_TO, PF_TRACE_AT_RETURN };

struct pf_trace_walk {
	struct pf_trace_stretch stretch;
	uint64_t last; /* the last instruction */
	uint64_t since; /* the start, or the target of the last jump back that the walk has taken */
	uint64_t over; /* the furthest target of the unconditional jumps that it has passed since then */
	int strays;    /* it has passed a jump over one that it has taken, and no other way leads there */
	int found;     /* 0: the walk did not find its end. For jumps: how many jumps to the target it met, the last one included */
	enum pf_trace_work work;
};

/* Add the lines and the work of another walk, so that the code of both counts. */
static inline void pf_trace_add_walk(struct pf_trace_walk *w, const struct pf_trace_walk *other)
{
	pf_trace_widen_both(&w->stretch.all, &other->stretch.all);
	pf_trace_widen_both(&w->stretch.calls, &other->stretch.calls);
	pf_trace_widen_both(&w->stretch.allocations, &other->stretch.allocations);
	w->work = other->work > w->work ? other->work : w->work;
}

struct pf_trace_walk pf_trace_walk(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum pf_trace_stop how,
				   uint64_t to);
/* Walk to a jump that may lead to `to`. Several jumps may, such as those of `if a and b`; the last of them may also lead to the
 * instruction `beyond` (0: not known). The walk ends `more` jumps before the last of them. */
struct pf_trace_walk pf_trace_walk_to_jump(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to,
					   uint64_t beyond, unsigned more);
/* List the conditional jumps of a function to a target that are at most PF_TRACE_JUMPS_REACH away from it, in their order. Returns how many
 * there are; 0 also if they are too many. */
enum { PF_TRACE_JUMPS_MOST = 32, PF_TRACE_JUMPS_REACH = 1024 /* instructions */ };
unsigned pf_trace_jumps_to(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t to, uint64_t jumps[PF_TRACE_JUMPS_MOST]);
/* Walk from snapshot k, or from another place s in its code. If the snapshot is a jump's, walk from both branches. A walk to the function's
 * return has the lines of both, and a walk to an instruction has those of the branches that lead to it. */
struct pf_trace_walk pf_trace_walk_branches(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					    const struct pf_snapshot *s, enum pf_trace_stop how, uint64_t to);
/* Walk from snapshot k, or from another place s in its code, to the next one, which is in the same function. */
struct pf_trace_walk pf_trace_walk_to_next(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					   const struct pf_snapshot *s, const struct pf_snapshot *next);
/* Add the lines from an instruction on, up to another. */
void pf_trace_walk_all(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to, struct pf_trace_walk *w);

/* Some bytes that a walk reads one after another. */
struct pf_trace_window {
	uint64_t from;
	size_t n;
	unsigned char bytes[128];
};

/* An instruction of the function; if a trace has replaced it, the original one. */
uint32_t pf_trace_window_instruction(const struct pf_luajit_view *v, const struct pf_luajit_function *f, struct pf_trace_window *w, uint64_t pc);

/* Does an instruction leave its function, by a return or a tail call? */
static inline int pf_trace_returns(const struct pf_luajit_layout *l, uint8_t op)
{
	return (op >= l->op_return_first && op <= l->op_return_last) || (op >= l->op_tailcall_first && op <= l->op_tailcall_last);
}

/* The target of an instruction that jumps. */
static inline uint64_t pf_trace_target(uint64_t pc, uint32_t code)
{
	return pc + PF_LUAJIT_INSTRUCTION + ((uint64_t)(code >> 16) - PF_TRACE_IR_BIAS) * PF_LUAJIT_INSTRUCTION;
}

/* The same; 0 if the instruction does not jump. Operands of others may look like targets, as the constant of `x = 32700`. */
uint64_t pf_trace_jump(const struct pf_luajit_layout *l, uint64_t pc, uint32_t code);

/* --- loops -------------------------------------------------------------------------------------------------------------- */

struct pf_trace_loop {
	uint64_t from, end; /* its first instruction, and the one after its last */
	int often; /* it may have gone round so often that all its instructions count */
};

/* Code runs from snapshot s to snapshot next, in a function whose frame has base s->base, and there up to the instruction `to`. If it goes
 * round a loop around that, or may do so, find the outermost such loop. */
int pf_trace_goes_round(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, const struct pf_snapshot *s,
			const struct pf_snapshot *next, uint64_t to, struct pf_trace_loop *loop);

#endif

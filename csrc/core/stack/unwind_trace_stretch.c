/* Finds the function and the lines of a stretch of compiled code: what lies between two snapshots.
 *
 * A stretch does what the bytecode does from its snapshot to the next one. In between, the code may return from the functions that
 * are compiled into the trace and call others, because the compiler makes no snapshot where no code can exit. Then the stretch
 * belongs to the innermost function that is active at both ends.
 *
 * A trace of a loop has its body twice: the first iteration as it was recorded, and a copy for the others, in which many exits are
 * not needed, so it has fewer snapshots. The copy's instructions are in the order of the recorded ones, but some recorded ones have
 * no copy. So a copied instruction is one of the recorded instructions between two limits: in the earliest and in the latest
 * recorded instructions that have the kinds of all copied ones in this order. */
#include "core/stack/unwind_trace.h"

enum { READ_AT_ONCE = 64, IR_MOST = 1 << 12, SNAPSHOTS_AT_ONCE = 16, LEVELS_MOST = 24 };

/* --- functions that are active at a snapshot -------------------------------------------------------------------------- */

struct level {
	unsigned base;
	int vararg; /* the frame that a vararg function has below its own */
	uint64_t function, link;
	uint64_t pc; /* of its next instruction; 0 if unknown */
};

struct levels {
	struct level at[LEVELS_MOST]; /* the innermost is the first */
	unsigned n;
};

static int read_levels(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, struct levels *levels)
{
	struct pf_trace_slots slots;
	struct level level = {.base = s->base, .vararg = 0, .pc = s->pc};

	pf_trace_read_slots(v, t, s, &slots);
	for (levels->n = 0; levels->n < LEVELS_MOST;) {
		unsigned size;

		level.function = pf_trace_value(v, &slots, level.base - 2);
		level.link = level.base > 2 ? pf_trace_value(v, &slots, level.base - 1) : 0;
		levels->at[levels->n++] = level;
		if (level.base == 2)
			return 1;
		if (!level.link)
			return 0;
		level.vararg = (level.link & PF_LINK_MASK_P) == PF_LINK_VARARG;
		if ((level.link & PF_LINK_MASK) == PF_LINK_LUA) {
			level.pc = level.link;
			size = 2 + (pf_trace_instruction(v, level.link - PF_LUAJIT_INSTRUCTION) >> 8 & 0xff);
		} else {
			if ((level.link & PF_LINK_MASK_P) == PF_LINK_CONTINUATION)
				level.pc = level.base > 4 ? pf_trace_value(v, &slots, level.base - 3) : 0;
			size = (unsigned)(level.link >> 3 & 0xff);
		}
		if (!size || size > level.base - 2)
			return 0;
		level.base -= size;
	}
	return 0;
}

static int same(const struct level *a, const struct level *b)
{
	return a->base == b->base && a->link == b->link && (a->function == b->function || (a->base == 2 && (!a->function || !b->function)));
}

/* Leave the innermost levels of both that are not the same. Returns how many a has left. */
static unsigned leave_different(const struct levels *a, const struct levels *b)
{
	unsigned n = 0;

	while (n < a->n && n < b->n && same(&a->at[a->n - 1 - n], &b->at[b->n - 1 - n]))
		n++;
	return a->n - n;
}

/* --- one stretch ------------------------------------------------------------------------------------------------------ */

/* The function of a place, given by its base and its pc. */
static int function_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_snapshot *s,
		       struct pf_luajit_function *f)
{
	struct pf_trace_slots slots;

	pf_trace_read_slots(v, t, s, &slots);
	return s->pc && pf_trace_function_at(v, t, &slots, base, s, f);
}

/* How much the functions that are inner to a level do before they return to it. */
static enum pf_trace_work work_before_return(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_snapshot *s,
					     const struct levels *levels, unsigned level)
{
	enum pf_trace_work most = PF_TRACE_NO_WORK;
	struct pf_luajit_function f;
	struct pf_snapshot at = *s;

	for (unsigned i = 0; i < level; i++) {
		enum pf_trace_work work;

		at.base = levels->at[i].base;
		at.pc = levels->at[i].pc;
		if (levels->at[i].vararg || !function_of(v, t, base, &at, &f))
			continue;
		work = pf_trace_work_between(v, &f, at.pc, 0);
		most = work > most ? work : most;
	}
	return most;
}

/* The code returns to the function of a level, and continues there up to the next snapshot or to a call. If only the inner or only
 * the outer functions do anything that takes time, the stretch is theirs. */
static int place_after_return(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, const struct levels *here,
			      unsigned level, const struct pf_snapshot *next, struct pf_trace_place *place)
{
	struct pf_luajit_function f;
	struct pf_snapshot s = place->s;
	enum pf_trace_work inner, outer = PF_TRACE_WORK;

	while (level < here->n && here->at[level].vararg)
		level++;
	if (level >= here->n)
		return 0;
	s.base = here->at[level].base;
	s.pc = here->at[level].pc;
	if (!function_of(v, t, base, &s, &f))
		return 0;
	if (next->base == s.base)
		outer = pf_trace_work_between(v, &f, s.pc, next->pc);
	inner = work_before_return(v, t, base, &place->s, here, level);
	if (outer == PF_TRACE_NO_WORK || (inner == PF_TRACE_WORK && outer == PF_TRACE_LITTLE_WORK))
		return 0;
	place->lines = pf_trace_lines(v, t, &f, k, &s).all;
	if (inner > PF_TRACE_NO_WORK)
		pf_trace_widen(&place->lines, pf_luajit_line(v, &f, s.pc));
	place->s = s;
	return 1;
}

/* Leave the levels that cannot be active at both ends, although they look the same: an unrolled loop calls a function again. Code
 * cannot go back in a function, except in a loop or by a snapshot that has the address of the branch that was not taken. */
static unsigned leave_ended(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_snapshot *s,
			    const struct pf_snapshot *next, const struct levels *here, const struct levels *there, unsigned level)
{
	struct pf_luajit_function f;
	struct pf_snapshot at = *s;

	for (unsigned i = level; i + 1 < here->n; i++) {
		const uint64_t pc = here->at[i].pc, to = there->at[there->n - (here->n - i)].pc;

		at.base = here->at[i].base;
		at.pc = pc;
		if (to > pc || next->ref == s->ref + 1 || (i == 0 && pf_trace_begins_with_comparison(v, t, s)) || here->at[i].vararg ||
		    !function_of(v, t, base, &at, &f) || pf_trace_may_go_back(v, &f, pc))
			return level;
		level = i + 1;
	}
	return level;
}

/* The place of a whole stretch. Sets crosses if the code enters or leaves functions. */
static int place_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, struct pf_trace_place *place, int *crosses)
{
	struct levels here, there;
	struct pf_luajit_function f;
	struct pf_snapshot next;

	*crosses = 0;
	if (!pf_trace_read_snapshot(v, t, k, &place->s))
		return 0;
	if (pf_trace_next_snapshot(v, t, k, &next) && read_levels(v, t, &place->s, &here) && read_levels(v, t, &next, &there)) {
		const unsigned level = leave_ended(v, t, base, &place->s, &next, &here, &there, leave_different(&here, &there));

		*crosses = level > 0 || there.n > here.n;
		if (level > 0 && place_after_return(v, t, base, k, &here, level, &next, place))
			return 1;
	}
	if (!function_of(v, t, base, &place->s, &f))
		return 0;
	place->lines = pf_trace_lines(v, t, &f, k, &place->s).all;
	return 1;
}

/* Make a place the innermost one that has both. */
static int join(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, struct pf_trace_place *place,
		const struct pf_trace_place *other)
{
	struct levels here, there;
	struct pf_luajit_function f;
	struct pf_snapshot s = place->s;
	struct pf_luajit_lines lines = other->lines;
	unsigned level, of_other;

	if (!read_levels(v, t, &s, &here) || !read_levels(v, t, &other->s, &there))
		return 0;
	level = leave_different(&here, &there);
	while (level < here.n && here.at[level].vararg)
		level++;
	if (level >= here.n || here.n - level > there.n)
		return 0;
	of_other = there.n - (here.n - level);
	s.base = here.at[level].base;
	s.pc = here.at[level].pc;
	if ((level > 0 || of_other > 0) && !function_of(v, t, base, &s, &f))
		return 0;
	if (level > 0)
		place->lines.first = place->lines.last = pf_luajit_line(v, &f, s.pc);
	if (of_other > 0)
		lines.first = lines.last = pf_luajit_line(v, &f, there.at[of_other].pc);
	place->s = s;
	pf_trace_widen(&place->lines, lines.first);
	pf_trace_widen(&place->lines, lines.last);
	return place->lines.first != 0;
}

/* --- a loop's copy ------------------------------------------------------------------------------------------------------ */

struct ir {
	const struct pf_luajit_view *v;
	const struct pf_trace *t;
	uint32_t loop, end; /* the instruction that divides the recorded body and its copy; after the last one */
	unsigned loop_op;
	struct {
		uint32_t from;
		uint64_t words[READ_AT_ONCE];
	} part[2]; /* of the recorded body, of the copy */
};

static uint64_t ir_at(struct ir *ir, uint32_t ref)
{
	const int copied = ref >= ir->loop;
	const uint32_t from = ref - ref % READ_AT_ONCE, n = ir->end - from < READ_AT_ONCE ? ir->end - from : READ_AT_ONCE;

	if (ir->part[copied].from != from) {
		ir->part[copied].from = 0;
		if (!pf_luajit_read(ir->v, ir->part[copied].words, ir->t->ir + (uint64_t)from * PF_TRACE_IR_SIZE, n * sizeof *ir->part[copied].words))
			return 0;
		ir->part[copied].from = from;
	}
	return ir->part[copied].words[ref - from];
}

static int is_mark(const struct ir *ir, uint64_t instruction)
{
	enum { AFTER_LOOP = 4 };

	return pf_trace_ir_op(instruction) == ir->loop_op + AFTER_LOOP;
}

/* Instructions that the compiler does not copy as they are: guards, which may be constant in the copy, those without code, and
 * conversions, which it may add. */
static int is_copied(const struct ir *ir, uint64_t instruction)
{
	enum { LAST_CONSTANT = 13, CONVERSION = 10 };
	const unsigned op = pf_trace_ir_op(instruction);

	return op > ir->loop_op + LAST_CONSTANT && op != (unsigned)ir->v->l->ir_table + CONVERSION;
}

static int may_be_copy(uint64_t copy, uint64_t recorded)
{
	enum { TYPE_AND_GUARD = 0x9f };
	const uint32_t of_copy = (uint32_t)copy, of_recorded = (uint32_t)recorded;

	if (pf_trace_ir_op(copy) != pf_trace_ir_op(recorded) || ((copy ^ recorded) >> 32 & TYPE_AND_GUARD))
		return 0;
	return of_recorded >> 16 >= PF_TRACE_IR_BIAS || of_copy >> 16 == of_recorded >> 16;
}

/* Limit the stretch of references [*from, *end) to the part between two marks of a new line that has the offset. */
static int between_marks(struct ir *ir, uint32_t k, uint64_t offset, uint32_t *from, uint32_t *end)
{
	uint32_t begins, ends = ir->t->code_size, marks = 0, before = 0, n = 0, first = *from, last = *end;

	if (!pf_trace_offset(ir->v, ir->t, k, &begins) || (k + 1 < ir->t->snapshots_n && !pf_trace_offset(ir->v, ir->t, k + 1, &ends)))
		return 0;
	for (uint32_t ref = *from; ref < *end; ref++)
		marks += (uint32_t)is_mark(ir, ir_at(ir, ref));
	if (!marks || pf_trace_marks(ir->v, ir->t, begins, ends, offset, &before) != marks)
		return 0;
	for (uint32_t ref = *from; ref < *end; ref++) {
		if (!is_mark(ir, ir_at(ir, ref)))
			continue;
		n++;
		if (n <= before)
			first = ref + 1;
		else if (n == before + 1)
			last = ref;
	}
	*from = first;
	*end = last;
	return 1;
}

/* Find the recorded instructions that may be those which are copied to references [from, end). */
static int recorded_range(struct ir *ir, uint32_t from, uint32_t end, uint32_t *first, uint32_t *last)
{
	uint32_t recorded = PF_TRACE_IR_BIAS, copy = ir->loop + 1;

	for (*first = 0; copy < end && !*first; copy++) {
		const uint64_t instruction = ir_at(ir, copy);

		if (!is_copied(ir, instruction))
			continue;
		for (recorded++; recorded < ir->loop && !may_be_copy(instruction, ir_at(ir, recorded)); recorded++)
			;
		if (recorded >= ir->loop)
			return 0;
		if (copy >= from && !pf_trace_ir_is_sunk(instruction))
			*first = recorded;
	}
	recorded = ir->loop;
	for (*last = 0, copy = ir->end; *first && copy-- > from && !*last;) {
		const uint64_t instruction = ir_at(ir, copy);

		if (!is_copied(ir, instruction))
			continue;
		for (recorded--; recorded > PF_TRACE_IR_BIAS && !may_be_copy(instruction, ir_at(ir, recorded)); recorded--)
			;
		if (recorded <= PF_TRACE_IR_BIAS)
			return 0;
		if (copy < end && !pf_trace_ir_is_sunk(instruction))
			*last = recorded;
	}
	return *first && *first <= *last;
}

static int place_of_copy(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, uint64_t offset, uint32_t loop,
			 struct pf_trace_place *place)
{
	struct ir ir = {.v = v, .t = t};
	struct pf_snapshot s, next;
	struct pf_trace_place other;
	uint32_t from, end, first, last;
	int crosses;

	ir.end = (uint32_t)((t->snapshots - t->ir) / PF_TRACE_IR_SIZE);
	if (!v->l->ir_table || ir.end <= PF_TRACE_IR_BIAS || ir.end - PF_TRACE_IR_BIAS > IR_MOST || !pf_trace_read_snapshot(v, t, loop, &s) ||
	    s.ref <= PF_TRACE_IR_BIAS || s.ref >= ir.end)
		return 0;
	ir.loop = s.ref;
	ir.loop_op = pf_trace_ir_op(ir_at(&ir, ir.loop));
	if (!pf_trace_read_snapshot(v, t, k, &s))
		return 0;
	from = s.ref > ir.loop ? s.ref : ir.loop + 1;
	end = k + 1 < t->snapshots_n && pf_trace_read_snapshot(v, t, k + 1, &next) ? next.ref : ir.end;
	if (end > ir.end)
		return 0;
	between_marks(&ir, k, offset, &from, &end);
	if (!recorded_range(&ir, from, end, &first, &last))
		return 0;
	first = pf_trace_snapshot_of(v, t, loop, first);
	last = pf_trace_snapshot_of(v, t, loop, last);
	if (last - first >= SNAPSHOTS_AT_ONCE || !place_of(v, t, base, first, place, &crosses))
		return 0;
	for (k = first + 1; k <= last; k++)
		if (!place_of(v, t, base, k, &other, &crosses) || !join(v, t, base, place, &other))
			return 0;
	return 1;
}

int pf_trace_find_place(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, uint64_t offset,
			struct pf_trace_place *place)
{
	const uint32_t loop = t->loop ? pf_trace_snapshot_at(v, t, t->loop) : t->snapshots_n;
	struct pf_trace_place copied;
	const struct pf_snapshot s = place->s;
	int crosses;

	if (!place_of(v, t, base, k, place, &crosses))
		return 0;
	if (loop > 0 && k >= loop && (crosses || place->lines.first != place->lines.last) &&
	    place_of_copy(v, t, base, k, offset, loop, &copied)) {
		*place = copied;
		return 1;
	}
	return place->s.base != s.base;
}

/* Finds the place of code in a loop's copy.
 *
 * A trace of a loop has its body twice: the first iteration as it was recorded, and a copy for the others, in which many exits are
 * not needed, so it has fewer snapshots. The copy's instructions are in the order of the recorded ones, but some recorded ones have
 * no copy. So the kinds of the copied instructions are matched to those of the recorded ones twice, each as early and each as late as
 * possible: a copied instruction is one of the recorded ones between its two matches. */
#include "core/stack/unwind_trace.h"

enum { READ_AT_ONCE = 64, IR_MOST = 1 << 12, SNAPSHOTS_AT_ONCE = 16 };

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

static int between_marks(struct ir *ir, uint32_t k, uint64_t offset, uint32_t *from, uint32_t *end)
{
	uint32_t begins, ends = ir->t->code_size, marks = 0, before = 0, n = 0, first = *from, last = *end;

	if (!pf_trace_offset(ir->v, ir->t, k, &begins) || (k + 1 < ir->t->snapshots_n && !pf_trace_offset(ir->v, ir->t, k + 1, &ends)))
		return -1;
	for (uint32_t ref = *from; ref < *end; ref++)
		marks += (uint32_t)is_mark(ir, ir_at(ir, ref));
	if (pf_trace_marks(ir->v, ir->t, begins, ends, offset, &before) != marks)
		return -1;
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
	return marks > 0;
}

int pf_trace_between_marks(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t loop, uint32_t k, uint64_t offset, uint32_t *from,
			   uint32_t *end)
{
	struct ir ir = {.v = v, .t = t, .loop = loop, .end = (uint32_t)((t->snapshots - t->ir) / PF_TRACE_IR_SIZE)};

	ir.loop_op = pf_trace_ir_op(ir_at(&ir, loop));
	return between_marks(&ir, k, offset, from, end);
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

int pf_trace_place_of_copy(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, uint64_t offset, uint32_t loop,
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
	if (last - first >= SNAPSHOTS_AT_ONCE || !pf_trace_place_of(v, t, base, first, place, &crosses))
		return 0;
	for (k = first + 1; k <= last; k++)
		if (!pf_trace_place_of(v, t, base, k, &other, &crosses) || !pf_trace_join(v, t, base, place, &other))
			return 0;
	return 1;
}

/* Finds the lines where compiled code allocates, for samples in the collector, which compiled code calls at another place. */
#include "core/stack/unwind_trace.h"

enum { READ_AT_ONCE = 64, IR_MOST = 1 << 12, PLACES_MOST = 32 };

enum allocated { NOTHING, OBJECT, C_DATA };

static enum allocated allocates(const struct pf_luajit_layout *l, uint64_t instruction)
{
	/* Opcodes, counted from that of an empty table: strings, tables and C data; the string of a buffer, of a number; and
	 * calls. */
	enum { FIRST = -2, FIRST_C_DATA = 2, LAST_C_DATA = 3, BUFFER_STRING = 6, NUMBER_STRING = 12, CALL = 15 };
	enum { NO_CODE = 0xfd }; /* the register of an instruction without code: the object is made only if the trace is left */
	const int op = (int)(instruction >> 40 & 0xff) - l->ir_table;

	if ((instruction >> 48 & 0xff) >= NO_CODE)
		return NOTHING;
	if (op >= FIRST_C_DATA && op <= LAST_C_DATA)
		return C_DATA;
	return (op >= FIRST && op < FIRST_C_DATA) || op == BUFFER_STRING || op == NUMBER_STRING || op == CALL ? OBJECT : NOTHING;
}

/* Can these instructions allocate? If they are unreadable, assume that they can. */
static enum allocated allocated(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t from, uint32_t end)
{
	uint64_t words[READ_AT_ONCE];
	enum allocated kind = NOTHING;

	for (uint32_t ref = from; ref < end && kind < C_DATA; ref += READ_AT_ONCE) {
		const uint32_t n = end - ref < READ_AT_ONCE ? end - ref : READ_AT_ONCE;

		if (!pf_luajit_read(v, words, t->ir + (uint64_t)ref * PF_TRACE_IR_SIZE, n * sizeof *words))
			return C_DATA;
		for (uint32_t i = 0; i < n; i++) {
			const enum allocated this = allocates(v->l, words[i]);

			kind = this > kind ? this : kind;
		}
	}
	return kind;
}

/* A function that is active at a snapshot, and its return address. */
struct frame {
	unsigned base;
	uint64_t function, link;
};

static struct frame frame_of(const struct pf_luajit_view *v, const struct pf_snapshot *s, const struct pf_trace_slots *slots)
{
	const struct frame frame = {s->base, pf_trace_value(v, slots, s->base - 2), pf_trace_value(v, slots, s->base - 1)};

	return frame;
}

static int function_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct frame *frame, uint64_t pc,
		       struct pf_luajit_function *f)
{
	if (frame->base == 2 && !frame->function && pf_luajit_function_at(v, base, f) && pf_luajit_holds(f, pc))
		return 1;
	return pf_trace_function(v, t, frame->function != 0, frame->function, pc, f);
}

/* Compiled code calls the collector at the start of a loop for all allocations of the loop, and once before the loop for those
 * before it. If only one function allocates, inlined or not, report that function. Otherwise report the function that
 * called the collector, at the lines where it allocates or calls. */
int pf_trace_allocations(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t *k, struct pf_snapshot *s,
			 struct pf_luajit_lines *lines)
{
	const uint32_t loop = t->loop ? pf_trace_snapshot_at(v, t, t->loop) : t->snapshots_n;
	const uint32_t from = *k >= loop ? loop : 0, end = *k >= loop ? t->snapshots_n : loop;
	const uint32_t ref_end = (uint32_t)((t->snapshots - t->ir) / PF_TRACE_IR_SIZE);
	struct pf_luajit_lines in_one = {0, 0}, in_caller = {0, 0};
	struct pf_luajit_function f;
	struct pf_trace_slots slots;
	struct pf_snapshot here, next;
	struct frame caller, one = {0, 0, 0};
	uint32_t first = 0, n = 0;
	int only = 1, known = 1;

	if (!v->l->ir_table || !pf_trace_read_snapshot(v, t, from, &next) || ref_end - next.ref > IR_MOST ||
	    (from == 0 && allocated(v, t, PF_TRACE_IR_BIAS, next.ref)))
		return 0;
	pf_trace_read_slots(v, t, s, &slots);
	caller = frame_of(v, s, &slots);
	for (uint32_t i = from; i < end && (only || known); i++) {
		struct pf_luajit_lines part = {0, 0};
		enum allocated kind;
		struct frame frame;
		uint64_t pc;

		here = next;
		if (i + 1 < t->snapshots_n && !pf_trace_read_snapshot(v, t, i + 1, &next))
			return 0;
		kind = allocated(v, t, here.ref, i + 1 < t->snapshots_n ? next.ref : ref_end);
		if (!kind)
			continue;
		if (++n > PLACES_MOST)
			return 0;
		pf_trace_read_slots(v, t, &here, &slots);
		frame = frame_of(v, &here, &slots);
		if (!one.base) {
			one = frame;
			first = i;
		}
		only = only && frame.base == one.base && frame.function == one.function && frame.link == one.link;
		pc = here.pc + PF_LUAJIT_INSTRUCTION;
		if (function_of(v, t, base, &frame, pc, &f)) {
			const struct pf_trace_stretch lines_of = pf_trace_lines(v, t, &f, i, &here);

			part = kind == OBJECT && lines_of.allocations.first ? lines_of.allocations : lines_of.all;
		}
		only = only && part.first;
		pf_trace_widen(&in_one, part.first);
		pf_trace_widen(&in_one, part.last);
		if (frame.base > caller.base) {
			pc = pf_trace_return_address(v, &here, &slots, caller.base);
			part.first = part.last = pc && function_of(v, t, base, &caller, pc, &f) ? pf_luajit_line(v, &f, pc) : 0;
		} else if (frame.base < caller.base || frame.function != caller.function) {
			part.first = 0;
		}
		known = known && part.first;
		pf_trace_widen(&in_caller, part.first);
		pf_trace_widen(&in_caller, part.last);
	}
	if (!one.base || (!only && !known))
		return 0;
	*lines = only ? in_one : in_caller;
	if (only) {
		*k = first;
		return pf_trace_read_snapshot(v, t, first, s);
	}
	return 1;
}

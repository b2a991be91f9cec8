/* Finds the loops that a stretch of compiled code may have gone round.
 *
 * The compiler unrolls the loops within a trace, and drops the exits that are not needed, so whole iterations may lie between two
 * snapshots. Both snapshots have the index of a numeric loop, as a constant or as the instruction that computes it, which tells how
 * often the loop has gone round. Another loop may have gone round if a variable has another value at the next snapshot which the compiler
 * knew before; or if the code has entered the loop, and a jump there leads over the instruction at which the stretch ends. */
#include "core/stack/unwind_trace_walk.h"

#include <string.h>

enum { PRIMITIVE = 22, INTEGER = 23, NUMBER = 28, ADD = 41 }; /* opcodes of the compiler */
/* Slots of a numeric loop, from that of its index. */
enum { STEP = 2 };

/* A number that is known at a place: a constant, or what a constant makes of another number. */
struct number {
	int known;
	uint32_t of; /* the compiler's instruction that has the other number, or else one of these: */
	double constant;
};

enum { NOTHING, AT_START }; /* the latter: the number of its slot at the start of the trace */

static struct number constant_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t ref)
{
	const uint64_t at = t->ir + (uint64_t)ref * PF_TRACE_IR_SIZE;
	struct number n = {.known = 0, .of = NOTHING};
	uint64_t word;

	if (ref >= PF_TRACE_IR_BIAS || ref < t->ir_low)
		return n;
	word = pf_luajit_word(v, at);
	if (pf_trace_ir_op(word) == INTEGER) {
		n.constant = (int32_t)(uint32_t)word;
		n.known = 1;
	} else if (pf_trace_ir_op(word) == NUMBER) {
		n.known = pf_luajit_read(v, &n.constant, at + PF_TRACE_IR_SIZE, sizeof n.constant);
	}
	return n;
}

/* The number that an instruction or a constant has, which is the index of a loop in this slot. */
static struct number number_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t ref, unsigned slot)
{
	enum { ADDITIONS_MOST = 16, NO_SLOT = 256 };
	struct number n = {.known = 1, .of = ref};

	if (ref < PF_TRACE_IR_BIAS)
		return constant_of(v, t, ref);
	for (unsigned i = 0; i < ADDITIONS_MOST; i++) {
		const uint64_t word = pf_luajit_word(v, t->ir + (uint64_t)n.of * PF_TRACE_IR_SIZE);
		const struct number amount = constant_of(v, t, word >> 16 & 0xffff);
		const uint32_t operand = word & 0xffff;

		if (operand < NO_SLOT && operand == slot)
			n.of = AT_START;
		if (n.of == AT_START || pf_trace_ir_op(word) != ADD || !amount.known)
			return n;
		n.of = operand;
		n.constant += amount.constant;
	}
	n.known = 0;
	return n;
}

enum { ENTRIES_AT_ONCE = 32 };

/* Entry i of a snapshot's map; 0 if it is unreadable. To be called for each i from 0 on: ENTRIES_AT_ONCE entries are read at a time. */
static uint32_t entry_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, uint32_t map[ENTRIES_AT_ONCE],
			 uint32_t i)
{
	const uint32_t left = s->entries - i, n = left < ENTRIES_AT_ONCE ? left : ENTRIES_AT_ONCE;

	if (i % ENTRIES_AT_ONCE == 0 && !pf_luajit_read(v, map, t->map + ((uint64_t)s->map + i) * sizeof *map, n * sizeof *map))
		memset(map, 0, n * sizeof *map);
	return map[i % ENTRIES_AT_ONCE];
}

/* The instruction or the constant that a slot has at a snapshot; 0 if it is the same as at the start of the trace. */
static uint32_t ref_in_slot(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, unsigned slot)
{
	uint32_t map[ENTRIES_AT_ONCE];

	for (uint32_t i = 0; i < s->entries; i++) {
		const uint32_t entry = entry_at(v, t, s, map, i);

		if (entry >> 24 == slot)
			return entry & 0xffff;
	}
	return 0;
}

static struct number number_in_slot(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, unsigned slot)
{
	/* The first snapshot has no slots yet. */
	const struct number unchanged = {.known = s->map == 0 || slot < s->slots, .of = AT_START};
	const uint32_t ref = ref_in_slot(v, t, s, slot);

	return ref ? number_of(v, t, ref, slot) : unchanged;
}

static int is_value(unsigned op)
{
	return (op >= PRIMITIVE && op <= INTEGER) || op == NUMBER;
}

/* Has a variable another value at the next snapshot, which was known before the first one? Otherwise the code has not gone round a loop
 * without an index between them: the loop's condition would compare a new value, or the same ones again, and the comparison of a new
 * value has a snapshot. */
static int changes_to_known(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, const struct pf_snapshot *next)
{
	uint32_t map[ENTRIES_AT_ONCE];

	for (uint32_t i = 0; i < next->entries; i++) {
		const uint32_t entry = entry_at(v, t, next, map, i), then = entry & 0xffff, slot = entry >> 24;
		const int constant = then < PF_TRACE_IR_BIAS;
		uint32_t first;

		if (slot < s->base || then < t->ir_low || then >= s->ref ||
		    (constant && !is_value(pf_trace_ir_op(pf_luajit_word(v, t->ir + (uint64_t)then * PF_TRACE_IR_SIZE)))))
			continue;
		first = ref_in_slot(v, t, s, slot);
		if (first ? first != then : constant)
			return 1;
	}
	return 0;
}

/* The operands of the comparison that ends an iteration, which a snapshot is for: one of them is the next index. */
static void compared(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, unsigned slot, struct number of[2])
{
	const uint64_t word = pf_luajit_word(v, t->ir + (uint64_t)s->ref * PF_TRACE_IR_SIZE);

	of[0] = number_of(v, t, word & 0xffff, slot);
	of[1] = number_of(v, t, word >> 16 & 0xffff, slot);
}

/* The bytecode of a numeric loop. */
struct numeric {
	uint64_t begin, last; /* its first instruction and the last one, which goes back to it */
	unsigned slot;        /* of its index */
	struct number step;
};

enum { SHORT_CONSTANT = 3, FIRST_ADDITION = -16, POWER = -1, OPERATORS = 5 }; /* opcodes, from that of `..` */

static struct number short_constant(const struct pf_luajit_view *v, uint32_t code)
{
	struct number n = {.known = (int)(code & 0xff) == v->l->op_concatenate + SHORT_CONSTANT, .of = NOTHING, .constant = (int16_t)(code >> 16)};

	return n;
}

/* How often has a loop gone round when it has this index, if the code entered it since the other snapshot? */
static double rounds_since_entry(const struct pf_luajit_view *v, const struct pf_luajit_function *f, const struct numeric *loop, unsigned at,
				 const struct number *index)
{
	enum { LOOK_AT_MOST = 16 };
	uint64_t pc = loop->begin - PF_LUAJIT_INSTRUCTION;

	for (unsigned i = 0; i < LOOK_AT_MOST && pc > f->code + PF_LUAJIT_INSTRUCTION; i++) {
		uint32_t code = pf_trace_instruction(v, pc -= PF_LUAJIT_INSTRUCTION);
		const struct number first = short_constant(v, code);
		const int op = (int)(code & 0xff) - v->l->op_concatenate;

		if ((code & 0xff) == v->l->op_jump)
			break;
		if ((code >> 8 & 0xff) != at)
			continue;
		if (first.known && (pf_trace_instruction(v, pc - PF_LUAJIT_INSTRUCTION) & 0xff) == v->l->op_jump)
			break;
		if (first.known)
			return index->of == NOTHING ? (index->constant - first.constant) / loop->step.constant : -1;
		if (index->of != NOTHING && index->constant == loop->step.constant && op >= FIRST_ADDITION && op < POWER &&
		    (op - FIRST_ADDITION) % OPERATORS == 0)
			return 0; /* as in `for j = i + 1, n` */
		break;
	}
	return index->of == NOTHING ? -1 : index->constant / loop->step.constant;
}

/* How often has the code gone round a numeric loop between the snapshots? A negative number if that is unknown. */
static double rounds_of(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, const struct pf_snapshot *s,
			const struct pf_snapshot *next, uint64_t to, const struct numeric *loop, int inside)
{
	const uint64_t exit = loop->last + PF_LUAJIT_INSTRUCTION;
	const int ends = to == loop->last && next->pc == exit && pf_trace_begins_with_comparison(v, t, next);
	struct number first[2] = {{.known = 0}, {.known = 0}}, then[2] = {{.known = 0}, {.known = 0}};
	double rounds = -1;

	if (!loop->step.known || loop->step.constant == 0)
		return -1;
	if (ends)
		compared(v, t, next, loop->slot, then);
	else
		then[0] = number_in_slot(v, t, next, loop->slot);
	if (s->pc == exit)
		compared(v, t, s, loop->slot, first);
	else if (inside)
		first[0] = number_in_slot(v, t, s, loop->slot);
	for (unsigned i = 0; i < 4 && rounds < 0; i++) {
		const struct number *a = &first[i / 2], *b = &then[i % 2];

		if (!inside && b->known)
			rounds = rounds_since_entry(v, f, loop, loop->slot - s->base, b);
		else if (inside && a->known && b->known && a->of == b->of)
			rounds = (b->constant - a->constant) / loop->step.constant;
		rounds -= ends;
	}
	return rounds;
}

/* Does one of the instructions [from, over) jump to one between `over` and `end`? */
static int jumps_over(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t over, uint64_t end)
{
	struct pf_trace_window codes = {.n = 0};

	for (unsigned i = 0; i < PF_TRACE_WALK_MOST && from < over; i++, from += PF_LUAJIT_INSTRUCTION) {
		const uint64_t to = pf_trace_jump(v->l, from, pf_trace_window_instruction(v, f, &codes, from));

		if (to > over && to < end)
			return 1;
	}
	return from < over;
}

int pf_trace_goes_round(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, const struct pf_snapshot *s,
			const struct pf_snapshot *next, uint64_t to, struct pf_trace_loop *found)
{
	enum { FIRST_NUMERIC = 9, LAST_NUMERIC = 7 }; /* opcodes, before that of a jump */
	struct pf_trace_window codes = {.n = 0};
	const int starts_at_comparison = pf_trace_begins_with_comparison(v, t, s);
	int any = 0, around_both = 0, changes = -1; /* not known yet */

	for (uint64_t at = to, i = 0; i < PF_TRACE_WALK_MOST && pf_luajit_holds(f, at + PF_LUAJIT_INSTRUCTION); i++, at += PF_LUAJIT_INSTRUCTION) {
		const uint32_t code = pf_trace_window_instruction(v, f, &codes, at);
		const unsigned op = code & 0xff, a = code >> 8 & 0xff;
		const uint64_t begin = pf_trace_target(at, code), end = at + PF_LUAJIT_INSTRUCTION;
		const int inside = (s->pc >= begin && s->pc < end) || (starts_at_comparison && s->pc == end);
		const uint64_t from = s->pc == end ? begin : s->pc;
		double rounds = 0;

		if ((op != v->l->op_jump && !pf_trace_is_loop(v->l, code)) || begin > to || begin <= f->code)
			continue;
		/* The last snapshot of a loop's trace is followed by the first one of the loop. */
		if (op + FIRST_NUMERIC >= v->l->op_jump && op + LAST_NUMERIC <= v->l->op_jump && (next->ref > s->ref || at != t->start)) {
			struct numeric loop = {.begin = begin, .last = at, .slot = s->base + a};
			const uint32_t step = pf_trace_instruction(v, begin - 2 * PF_LUAJIT_INSTRUCTION);

			if ((step >> 8 & 0xff) == a + STEP)
				loop.step = short_constant(v, step);
			if (!loop.step.known)
				loop.step = number_in_slot(v, t, next, loop.slot + STEP);
			loop.step.known = loop.step.known && loop.step.of == NOTHING;
			rounds = rounds_of(v, t, f, s, next, to, &loop, inside);
		} else {
			if (changes < 0)
				changes = next->ref > s->ref && changes_to_known(v, t, s, next);
			if (inside)
				rounds = (from > to) + changes;
			else if (op == v->l->op_jump) /* It may have jumped over the instruction, and come to it in another round. */
				rounds = changes || jumps_over(v, f, s->pc < to ? s->pc : f->code + PF_LUAJIT_INSTRUCTION, to, end);
		}
		if (rounds != 0) {
			any = 1;
			found->from = begin;
			found->end = end;
			found->often = rounds != 1 || !inside || from < to || around_both;
		}
		around_both |= inside;
	}
	return any;
}

int pf_trace_may_go_back(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc)
{
	struct pf_trace_window codes = {.n = 0};
	uint64_t at = pc;

	for (unsigned i = 0; i < PF_TRACE_WALK_MOST && pf_luajit_holds(f, at + PF_LUAJIT_INSTRUCTION); i++, at += PF_LUAJIT_INSTRUCTION) {
		const uint32_t code = pf_trace_window_instruction(v, f, &codes, at);

		if (((code & 0xff) == v->l->op_jump || pf_trace_is_loop(v->l, code)) && pf_trace_target(at, code) <= pc)
			return 1;
	}
	return pf_luajit_holds(f, at + PF_LUAJIT_INSTRUCTION);
}

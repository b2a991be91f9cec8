/* See unwind_puc_internal.h. */
#include "core/stack/unwind_puc_internal.h"

enum {
	PC_WORDS = 512, /* of the C stack */
	INSTRUCTION = 4,
	GUESSES = 64, /* at least one line in so many instructions is stored in full */
};

/* --- lines ---------------------------------------------------------------------------------------------------------- */

/* Find a line where only differences are stored: start from the last line that is stored in full. 0: unknown. */
static uint32_t add_up(const struct pf_puc_unwinder *w, const uint8_t *proto, uint32_t index)
{
	const struct pf_puc_layout *l = w->l;
	const uint64_t steps = pf_puc_word(w, proto, l->proto.steps);
	uint64_t known = pf_puc_word(w, proto, l->proto.known);
	uint32_t n = pf_puc_number(proto, l->proto.n_known), line = pf_puc_number(proto, l->proto.linedefined), from = 0, pair[2];
	int8_t step[GUESSES];

	for (uint32_t low = 0; low < n;) { /* the last pair that does not lie after our instruction */
		const uint32_t middle = low + (n - low) / 2;

		if (pf_puc_copy(w, pair, known + (uint64_t)middle * sizeof pair, sizeof pair) < 0)
			return 0;
		if (pair[0] > index) {
			n = middle;
			continue;
		}
		from = pair[0] + 1;
		line = pair[1];
		low = middle + 1;
	}
	if (index >= from && index - from >= 4 * GUESSES)
		return 0;
	while (from <= index) {
		const uint32_t some = index - from < GUESSES ? index - from + 1 : GUESSES;

		if (pf_puc_copy(w, step, steps + from, some) < 0)
			return 0;
		for (uint32_t i = 0; i < some; i++)
			line = (uint32_t)((int32_t)line + step[i]);
		from += some;
	}
	return line;
}

uint32_t pf_puc_line(const struct pf_puc_unwinder *w, const uint8_t *proto, uint64_t pc)
{
	const struct pf_puc_layout *l = w->l;
	const uint64_t code = pf_puc_word(w, proto, l->proto.code);
	const uint32_t a = pf_puc_number(proto, l->proto.counts[0]), b = pf_puc_number(proto, l->proto.counts[1]);
	const uint64_t next = (pc - code) / INSTRUCTION;
	/* pc is the next instruction's; at the first instruction, nothing has run yet. */
	const uint32_t index = next ? (uint32_t)(next - 1) : 0;
	uint32_t line;

	if (pc < code || index >= a || index >= b) /* a stripped function has no lines */
		return 0;
	if (l->proto.lines == PF_PUC_NONE)
		return pf_puc_word(w, proto, l->proto.steps) ? add_up(w, proto, index) : 0;
	if (pf_puc_copy(w, &line, pf_puc_word(w, proto, l->proto.lines) + (uint64_t)index * sizeof line, sizeof line) < 0)
		return 0;
	return line;
}

static int is_instruction(uint64_t v, uint64_t first, uint32_t n)
{
	return v - first < (uint64_t)n * INSTRUCTION && (v - first) % INSTRUCTION == 0;
}

/* Find the first callee-saved register with one of the n addresses of instructions from `first` on. Returns 0 if there is
 * none. */
static int find_kept_pc(const struct pf_puc_unwinder *w, uint64_t first, uint32_t n, uint64_t *pc)
{
	for (unsigned i = 0; i < PF_REGISTERS && w->r->kept >> i; i++)
		if ((w->r->kept >> i & 1) && is_instruction(w->r->general[i], first, n)) {
			*pc = w->r->general[i];
			return 1;
		}
	return 0;
}

/* Search the other registers, then the words of the C stack. */
static int find_pc(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, uint64_t first, uint32_t n, uint64_t *pc)
{
	const unsigned registers = w->r->n < PF_REGISTERS ? w->r->n : PF_REGISTERS;

	for (unsigned i = 0; i < registers + PC_WORDS; i++) {
		const uint64_t at = w->r->sp + (uint64_t)(i - registers) * w->l->pointer;

		if (i < registers)
			*pc = w->r->general[i];
		else if (at >= t->error || pf_puc_stack_word(w, at, pc) < 0)
			break;
		if (is_instruction(*pc, first, n))
			return 1;
	}
	return 0;
}

static int in_loop(const struct pf_puc_unwinder *w, uint64_t code)
{
	return code - w->l->loop < w->l->loop_end - w->l->loop;
}

/* The same, if the code of the interpreter's loop is known. The functions that it calls save its registers just below their
 * return addresses, the outermost function first. Other words on the C stack may be old. */
static int find_pc_in_frame(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, uint64_t first, uint32_t n, uint64_t *pc)
{
	const struct pf_puc_layout *l = w->l;
	const uint64_t sp = w->r->sp;
	uint64_t at, v;

	if (in_loop(w, w->r->ip))
		return find_kept_pc(w, first, n, pc) || (l->slot != PF_PUC_NONE && pf_puc_stack_word(w, sp + l->slot, pc) == 0 &&
							 is_instruction(*pc, first, n));
	for (unsigned i = 0; i < PC_WORDS; i++) {
		at = sp + (uint64_t)i * l->pointer;
		if (at >= t->error || pf_puc_stack_word(w, at, &v) < 0)
			return 0;
		if (!in_loop(w, v))
			continue;
		if (l->slot == PF_PUC_NONE)
			break;
		if (pf_puc_stack_word(w, at + l->pointer + l->slot, pc) == 0 && is_instruction(*pc, first, n))
			return 1;
	}
	if (l->slot != PF_PUC_NONE)
		return 0;
	if (find_kept_pc(w, first, n, pc))
		return 1;
	while (at > sp) {
		at -= l->pointer;
		if (pf_puc_stack_word(w, at, pc) == 0 && is_instruction(*pc, first, n))
			return 1;
	}
	return 0;
}

/* The pc of the innermost function: of the instruction after the one that runs. */
uint64_t pf_puc_live_pc(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, const uint8_t *proto, uint64_t saved)
{
	const struct pf_puc_layout *l = w->l;
	const uint32_t a = pf_puc_number(proto, l->proto.counts[0]), b = pf_puc_number(proto, l->proto.counts[1]), n = a > b ? a : b;
	const uint64_t code = pf_puc_word(w, proto, l->proto.code);
	const uint64_t first = l->local_pc == PF_PUC_NEXT ? code + INSTRUCTION : code;
	uint64_t pc, after;

	if (saved - code > (uint64_t)n * INSTRUCTION) /* the call is beginning: the pc is still the caller's */
		saved = code;
	if (l->local_pc == PF_PUC_SAVED)
		return saved;
	if (l->loop && find_pc_in_frame(w, t, first, n, &pc))
		goto found;
	if (l->loop && (l->slot != PF_PUC_NONE || !in_loop(w, w->r->ip)))
		return saved;
	/* The interpreter's loop may have left an older pc on the C stack. Its register is valid, except while a helper uses it.
	 * Helpers may raise an error, so the loop saves the pc before it calls one; then the words on the C stack are not
	 * needed. */
	if (!find_kept_pc(w, first, n, &pc)) {
		if (find_pc(w, t, saved, 1, &pc))
			return saved;
		if (!find_pc(w, t, first, n, &pc))
			return saved;
	}
found:
	if (l->local_pc == PF_PUC_CURRENT)
		return pc + INSTRUCTION;
	if (l->local_pc == PF_PUC_BOTH && find_pc(w, t, pc + INSTRUCTION, 1, &after))
		return after;
	return pc;
}


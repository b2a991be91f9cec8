/* See unwind_puc_internal.h. */
#include "core/stack/unwind_puc_internal.h"

enum {
	MOST_FRAMES = 16, /* frames of C functions that the interpreter's loop has called */
	PC_WORDS = 512, /* words of the C stack that are read */
	COLLECTOR_WORDS = 256, /* words of the C stack in which the collector's frame must be */
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
			line = (uint32_t)(line + (int64_t)step[i]); /* damaged memory may have any line */
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

static uint32_t instructions(const struct pf_puc_unwinder *w, const uint8_t *proto)
{
	const uint32_t a = pf_puc_number(proto, w->l->proto.counts[0]), b = pf_puc_number(proto, w->l->proto.counts[1]);

	return a > b ? a : b;
}

static int may_have_pc(const struct pf_c_frame *f, unsigned i)
{
	return i < f->r.n && (!f->called || f->r.kept >> i & 1); /* called functions save only the callee-saved ones */
}

static uint64_t pc_in_registers(const struct pf_c_frame *f, const struct pf_puc_pc *p, uint64_t first, uint32_t n)
{
	if (may_have_pc(f, p->preferred) && is_instruction(f->r.general[p->preferred], first, n))
		return f->r.general[p->preferred];
	for (unsigned i = 0; i < f->r.n && !p->alone; i++)
		if (may_have_pc(f, i) && is_instruction(f->r.general[i], first, n))
			return f->r.general[i];
	return 0;
}

static int is_in_frame(struct pf_puc_unwinder *w, const struct pf_c_frame *f, uint64_t pc)
{
	uint64_t v;

	for (unsigned i = 0; i < f->r.n; i++)
		if (may_have_pc(f, i) && f->r.general[i] == pc)
			return 1;
	for (uint64_t at = f->r.sp; at < f->above && at - f->r.sp < PC_WORDS * sizeof v; at += w->l->pointer)
		if (pf_puc_stack_word(w, at, &v) == 0 && v == pc)
			return 1;
	return 0;
}

uint64_t pf_puc_pc_in(struct pf_puc_unwinder *w, struct pf_c_frame *f, const uint8_t *proto, const struct pf_puc_pc *p, uint64_t saved)
{
	const uint64_t code = pf_puc_word(w, proto, w->l->proto.code);
	const uint32_t n = instructions(w, proto);
	const int looks = (p->word || p->saved) && (f->above || pf_c_frame_look(w->l->loop.code, w->m, f) == 0);
	uint64_t pc;

#define FIRST(kept) ((kept) == PF_PUC_NEXT ? code + INSTRUCTION : code)
#define NEXT(kept) ((kept) == PF_PUC_NEXT ? pc : pc + INSTRUCTION)
	if (p->saved && looks && is_in_frame(w, f, saved))
		return saved;
	if (p->registers && (pc = pc_in_registers(f, p, FIRST(p->registers), n)) != 0)
		return NEXT(p->registers);
	if (!p->word || !looks || (pc = pf_puc_pointer_at(w, f->above - p->below)) == 0 || !is_instruction(pc, FIRST(p->word), n))
		return saved;
	return NEXT(p->word);
#undef FIRST
#undef NEXT
}

static int in_loop(const struct pf_puc_unwinder *w, uint64_t code)
{
	return code - w->l->loop.from < w->l->loop.end - w->l->loop.from;
}

static int is_in(const struct pf_puc_code *code, uint64_t address)
{
	return address - code->from < code->end - code->from;
}

static int is_collector(const struct pf_puc_unwinder *w, uint64_t address)
{
	for (unsigned i = 0; i < PF_PUC_COLLECTORS; i++)
		if (is_in(&w->l->collector.functions[i], address))
			return 1;
	return 0;
}

/* If the collector runs, it is the running function, or the C stack has a return address of it. (arm64 signs its upper bits, and has
 * the one of a function that calls no other in a register.) A search for it takes a tenth of the time that the frames take. */
static int may_collect(struct pf_puc_unwinder *w, const struct pf_puc_thread *t)
{
	const uint64_t bits = (UINT64_C(1) << 48) - 1, most = w->r->sp + (uint64_t)COLLECTOR_WORDS * w->l->pointer;
	const uint64_t end = most < t->error ? most : t->error;
	uint64_t at = w->r->sp, stop;

	if (is_collector(w, w->r->ip) || (w->r->n == PF_ARM64_REGISTERS && is_collector(w, w->r->general[PF_ARM64_LINK] & bits)))
		return 1;
	while ((stop = pf_puc_stack_words(w, at, end)) != at)
		for (; at < stop; at += w->l->pointer)
			if (is_collector(w, pf_puc_word(w, w->bytes, (unsigned)(at - w->words_at)) & bits))
				return 1;
	return 0;
}

static void begin_frames(const struct pf_puc_unwinder *w, struct pf_c_frame *f)
{
	memset(f, 0, sizeof *f);
	f->r = *w->r;
	f->seen = w->u->seen;
	f->r.n = f->r.n < PF_REGISTERS ? f->r.n : PF_REGISTERS;
}

/* The collector runs if the loop or the C function has called it. The search ends at their frames: a finalizer is a function of its own,
 * which the collector has called. */
int pf_puc_collects(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, uint64_t c_function)
{
	struct pf_c_frame f;

	if (!w->l->collector.functions[0].from || is_in(&w->l->collector.loop, w->r->ip) || !may_collect(w, t))
		return 0;
	begin_frames(w, &f);
	for (unsigned i = 0; i < MOST_FRAMES && f.r.sp < t->error; i++) {
		if (is_collector(w, f.r.ip - (unsigned)f.called))
			return 1;
		if (is_in(&w->l->collector.loop, f.r.ip) || pf_c_frame_look(w->l->loop.code, w->m, &f) < 0 ||
		    (c_function && f.from == c_function) || pf_c_frame_leave(w->l->loop.code, w->m, &f) < 0)
			return 0;
	}
	return 0;
}

/* Find the frame of the interpreter's loop. Some functions, of assembler or of a C library, have no unwind table: then take the next
 * return address that is in the loop. Such functions hardly use the loop's registers. */
static int find_loop(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, struct pf_c_frame *f)
{
	uint64_t v;

	begin_frames(w, f);
	for (unsigned i = 0; i < MOST_FRAMES && f->r.sp < t->error; i++) {
		if (in_loop(w, f->r.ip))
			return 1;
		w->collects |= is_collector(w, f->r.ip - (unsigned)f->called);
		if (pf_c_frame_leave(w->l->loop.code, w->m, f) < 0)
			break;
	}
	for (unsigned i = 0; i < PC_WORDS; i++) {
		const uint64_t at = f->r.sp + (uint64_t)i * w->l->pointer;

		if (at >= t->error || pf_puc_stack_word(w, at, &v) < 0)
			return 0;
		if (in_loop(w, v)) {
			pf_c_frame_return(f, v, at + w->l->pointer);
			return 1;
		}
	}
	return 0;
}

/* The pc in an unknown build of the interpreter: in a register, preferably one that C functions save, or in the innermost word of the
 * C stack that is the address of one of the function's instructions. If one of them has the saved pc, that is current. */
static uint64_t guess(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, const uint8_t *proto, uint64_t saved)
{
	const uint64_t first = pf_puc_word(w, proto, w->l->proto.code) + INSTRUCTION;
	const uint32_t n = instructions(w, proto);
	uint64_t found = 0, kept = 0, v;

	for (unsigned i = 0; i < w->r->n && i < PF_REGISTERS; i++) {
		v = w->r->general[i];
		if (v == saved)
			return saved;
		if (is_instruction(v, first, n))
			*(w->r->kept >> i & 1 ? &kept : &found) = v;
	}
	found = kept ? kept : found;
	if (found)
		return found;
	for (uint64_t at = w->r->sp; at < t->error && at - w->r->sp < PC_WORDS * sizeof v; at += w->l->pointer) {
		if (pf_puc_stack_word(w, at, &v) < 0)
			break;
		if (v == saved)
			return saved;
		if (!found && is_instruction(v, first, n))
			found = v;
	}
	return found ? found : saved;
}

static uint64_t find_pc(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, const uint8_t *proto, uint64_t saved)
{
	const struct pf_puc_layout *l = w->l;
	struct pf_c_frame f;

	if (l->loop.unknown)
		return guess(w, t, proto, saved);
	if (!l->loop.from) {
		w->collects = pf_puc_collects(w, t, 0);
		return saved;
	}
	if (!find_loop(w, t, &f))
		return saved;
	return pf_puc_pc_in(w, &f, proto, f.called ? &l->loop.called : &l->loop.running, saved);
}

/* The pc of the innermost function: of the instruction after the one that runs. */
uint64_t pf_puc_live_pc(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, const uint8_t *proto, uint64_t saved)
{
	const uint64_t code = pf_puc_word(w, proto, w->l->proto.code);
	uint64_t pc;

	if (saved - code > (uint64_t)instructions(w, proto) * INSTRUCTION) /* the call is beginning: the pc is still the caller's */
		saved = code;
	pc = find_pc(w, t, proto, saved);
	/* In 5.1 an instruction that may allocate saves the pc first. So if none is saved, this function has not called the
	 * collector, whose frames may be on the C stack: the collector calls this function, which is a finalizer. Later versions
	 * call finalizers in protected mode, so that the search for frames ends before the collector's. Besides, 5.2 may collect
	 * at the beginning of a call. */
	if (saved == code && w->l->thread.pc != PF_PUC_NONE)
		w->collects = 0;
	return pc;
}

/* The unwinder for LuaJIT's compiled code.
 *
 * A trace has snapshots: before some instructions the compiler notes the bytecode's address and the frames at that point, since
 * the trace may be left there. Snapshot k stands for the machine code from its offset to that of the next one, which does what
 * the bytecode does from its address to the next one's. The functions that were compiled into the trace have no frames in memory;
 * the snapshot has them as constants. The frames below are real, from the global state's trace base outward. */
#include "core/stack/unwind_trace_seen.h"

#include <string.h>

#include "core/stack/c_frames.h"

enum {
	SNAP_FRAME = 0x10000,
	TRACES_MOST = 1 << 16, SNAPSHOTS_MOST = 1 << 14,
};

#define AT_EXIT UINT64_MAX

/* --- reading -------------------------------------------------------------------------------------------------------- */

static int read_trace(const struct pf_luajit_view *v, uint64_t at, struct pf_trace *t)
{
	const struct pf_luajit_layout *l = v->l;
	unsigned char b[PF_TRACE_HEAD];

	if (!at || at % 8 || !pf_luajit_read(v, b, at, sizeof b) || b[l->object_type] != l->type_trace)
		return 0;
	t->code = pf_trace_field(b, l->trace_code, 8);
	t->code_size = (uint32_t)pf_trace_field(b, l->trace_code_size, 4);
	t->ir = pf_trace_field(b, l->trace_ir, 8);
	t->ir_low = (uint32_t)pf_trace_field(b, l->trace_ir_low, 4);
	t->snapshots = pf_trace_field(b, l->trace_snapshots, 8);
	t->snapshots_n = (uint32_t)pf_trace_field(b, l->trace_snapshots_n, 2);
	t->map = pf_trace_field(b, l->trace_map, 8);
	t->map_n = (uint32_t)pf_trace_field(b, l->trace_map_n, 4);
	t->start = pf_trace_field(b, l->trace_start, 8);
	t->start_ins = (uint32_t)pf_trace_field(b, l->trace_start_ins, 4);
	t->loop = (uint32_t)pf_trace_field(b, l->trace_loop, 4);
	t->adjust = (uint32_t)pf_trace_field(b, l->trace_adjust, 2);
	t->number = (uint32_t)pf_trace_field(b, l->trace_number, 2);
	t->link = (uint32_t)pf_trace_field(b, l->trace_link, 2);
	return t->code && t->snapshots_n && t->snapshots_n < SNAPSHOTS_MOST && t->ir_low <= PF_TRACE_IR_BIAS;
}

static uint32_t traces(const struct pf_luajit_view *v, uint64_t *array)
{
	uint32_t n;

	*array = pf_luajit_word(v, v->global + v->l->traces);
	if (!pf_luajit_read(v, &n, v->global + v->l->traces_n, sizeof n) || n > TRACES_MOST)
		return 0;
	return *array ? n : 0;
}

int pf_trace_read_numbered(const struct pf_luajit_view *v, uint32_t number, struct pf_trace *t)
{
	struct pf_trace_reads *reads = pf_luajit_note_whole(v, PF_READ_TRACE, number);
	uint64_t array;

	return pf_luajit_noted(v, reads, number < traces(v, &array) && read_trace(v, pf_luajit_word(v, array + (uint64_t)number * 8), t));
}

uint64_t pf_luajit_replaced(const struct pf_luajit_view *v, uint64_t pc)
{
	unsigned char type;
	uint64_t start;
	int has_type;

	if (!pc || !v->l->traces)
		return 0;
	pc -= PF_LUAJIT_INSTRUCTION + v->l->trace_start_ins;
	has_type = pf_luajit_guess(v, &type, pc + v->l->object_type, 1);
	if (has_type && type != v->l->type_trace)
		return 0;
	if (!pf_luajit_guess(v, &start, pc + v->l->trace_start, sizeof start)) {
		if (has_type)
			pf_luajit_refuse(v);
		return 0;
	}
	/* If the type could not be read, the callers still check whether the function contains this address. */
	return start + PF_LUAJIT_INSTRUCTION;
}

/* --- snapshots ------------------------------------------------------------------------------------------------------ */

int pf_trace_read_snapshot(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, struct pf_snapshot *s)
{
	unsigned char b[PF_TRACE_SNAPSHOT_SIZE];
	uint64_t pc_base;

	if (k >= t->snapshots_n || !pf_luajit_read(v, b, t->snapshots + (uint64_t)k * PF_TRACE_SNAPSHOT_SIZE, sizeof b))
		return 0;
	s->map = (uint32_t)pf_trace_field(b, 0, 4);
	s->ref = (uint32_t)pf_trace_field(b, 4, 2);
	s->slots = b[8];
	s->entries = b[10];
	if ((uint64_t)s->map + s->entries + 2 > t->map_n || !pf_luajit_read(v, &pc_base, t->map + ((uint64_t)s->map + s->entries) * 4, sizeof pc_base))
		return 0;
	s->pc = pc_base >> 8;
	s->base = (unsigned)(pc_base & 0xff) + 2;
	return s->base < PF_TRACE_SLOTS;
}

void pf_trace_read_slots(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, struct pf_trace_slots *slots)
{
	enum { READ_AT_ONCE = 32 };
	uint32_t map[READ_AT_ONCE];

	memset(slots, 0, sizeof *slots);
	slots->trace = t;
	for (uint32_t i = 0; i < s->entries; i++) {
		const uint32_t left = s->entries - i, n = left < READ_AT_ONCE ? left : READ_AT_ONCE;
		uint32_t entry, slot, ref;

		if (i % READ_AT_ONCE == 0 && !pf_luajit_read(v, map, t->map + ((uint64_t)s->map + i) * sizeof *map, n * sizeof *map))
			return;
		entry = map[i % READ_AT_ONCE];
		slot = entry >> 24;
		ref = entry & 0xffff;
		slots->frame[slot] = (entry & SNAP_FRAME) != 0;
		if (slot <= s->base && ref >= t->ir_low && ref < PF_TRACE_IR_BIAS)
			slots->constant[slot] = (uint16_t)ref;
	}
}

int pf_trace_offset(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, uint32_t *offset)
{
	uint16_t units;

	if (!pf_luajit_read(v, &units, t->snapshots + (uint64_t)k * PF_TRACE_SNAPSHOT_SIZE + 6, sizeof units))
		return 0;
	*offset = (uint32_t)units * PF_TRACE_OFFSET;
	return 1;
}

uint32_t pf_trace_snapshot_at(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t offset)
{
	uint32_t low = 0, high = t->snapshots_n;

	while (high - low > 1) {
		const uint32_t middle = (low + high) / 2;
		uint32_t begins;

		if (!pf_trace_offset(v, t, middle, &begins))
			return low;
		if (begins <= offset)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* --- frames --------------------------------------------------------------------------------------------------------- */

/* The lines of the innermost function f at a position in the trace, whose offset is AT_EXIT if the trace is being left. */
static struct pf_luajit_lines lines_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f,
				       const struct pf_trace_position *at, const struct pf_snapshot *s, const struct pf_trace_place *place)
{
	struct pf_luajit_lines lines;

	if (at->lines.first)
		return at->lines;
	if (at->offset != AT_EXIT) {
		const struct pf_trace_stretch stretch =
			pf_trace_lines_at(v, t, f, at->k, s, at->offset, place && place->code == f->code ? &place->whole : NULL);

		if (at->called && stretch.calls.first)
			return stretch.calls;
		if (!at->called || v->vmstate == PF_LUAJIT_COLLECTOR || !f->lineinfo)
			return stretch.all;
		return pf_trace_all_lines(f); /* the code makes a call, but no instruction on the lines that were found does */
	}
	lines.first = lines.last = pf_luajit_line(v, f, s->pc + PF_LUAJIT_INSTRUCTION);
	return lines;
}

/* For code that runs: replace the position and its snapshot *s by those that describe the innermost function, and find its lines. */
static void find_place(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, struct pf_trace_position *at, struct pf_snapshot *s)
{
	const int calls = at->called && v->vmstate != PF_LUAJIT_COLLECTOR;
	struct pf_trace_place place = {.code = 0};
	struct pf_trace_slots slots;
	struct pf_luajit_function f;

	if (calls) {
		const uint32_t recorded = pf_trace_recorded_call(v, t, at->k, at->offset);

		if (recorded != at->k && pf_trace_read_snapshot(v, t, recorded, s)) {
			at->k = recorded;
			at->offset = 0; /* before the recorded code */
		}
	}
	v->memo->operators = calls ? pf_trace_operators(v, t) : 0;
	place.s = *s;
	if (calls) {
		pf_trace_place_of_call(v, t, base, at->k, &place);
		*s = place.s;
		at->lines = place.lines;
	}
	if (v->vmstate == PF_LUAJIT_COLLECTOR && pf_trace_allocations(v, t, base, &at->k, s, &at->lines)) {
		/* The collector runs on behalf of the allocations, whichever line called it. */
	} else if (s->base == 2 && at->k + 1 < t->snapshots_n && pf_luajit_function_at(v, base, &f) && !pf_luajit_holds(&f, s->pc + 4)) {
		/* The code has returned to a caller, which only the next snapshot describes. */
		struct pf_snapshot next;

		if (pf_trace_read_snapshot(v, t, at->k + 1, &next) && next.base == 2 && pf_luajit_holds(&f, next.pc + 4)) {
			*s = next;
			at->k++;
		}
	} else if (!at->called && pf_trace_find_place(v, t, base, at->k, at->offset, &place)) {
		*s = place.s;
		at->lines = place.lines;
		place.code = 0;
	}
	if (at->lines.first)
		return;
	pf_trace_read_slots(v, t, s, &slots);
	if (pf_trace_function_at(v, t, &slots, base, s, &f))
		at->lines = lines_at(v, t, &f, at, s, &place);
}

static void frames(struct pf_luajit_view *v, const struct pf_trace *t, struct pf_trace_position position, uint64_t base)
{
	const int leaves = position.offset == AT_EXIT;
	struct pf_snapshot s;
	struct pf_trace_slots slots;
	struct pf_luajit_function f;
	struct pf_luajit_lines lines = {0, 0};
	uint64_t pc, value;
	unsigned at;

	if (!pf_trace_read_snapshot(v, t, position.k, &s)) {
		pf_luajit_fail(v, PF_UNWIND_NO_TRACE);
		pf_luajit_frames(v, base, 0, &lines);
		return;
	}
	if ((!leaves || position.called) && !pf_trace_recall(v, t, base, &position, &s)) {
		const struct pf_trace_position from = position;

		pf_trace_begin_notes(v);
		pf_trace_read_snapshot(v, t, position.k, &s);
		find_place(v, t, base, &position, &s);
		pf_trace_keep(v, t, base, &from, &position, &s);
	}
	pf_trace_read_slots(v, t, &s, &slots);
	pc = s.pc + PF_LUAJIT_INSTRUCTION;
	for (at = s.base; at > 2;) {
		const uint64_t link = pf_trace_value(v, &slots, at - 1);
		const int innermost = at == s.base, real = pf_trace_function(v, t, pf_trace_knows(&slots, at - 2), pf_trace_value(v, &slots, at - 2), pc, &f);
		unsigned size;

		/* If the trace exits at a call, the function that it is about to call is only in a register. */
		if (!pf_trace_knows(&slots, at - 1) || (!real && !innermost)) {
			pf_luajit_fail(v, PF_UNWIND_BROKEN);
			if (!pf_trace_knows(&slots, at - 1))
				return;
		}
		if (v->skip) {
			v->skip = 0;
		} else if (real) {
			if (innermost)
				lines = lines_at(v, t, &f, &position, &s, NULL);
			else
				lines.first = lines.last = f.id ? 0 : pf_luajit_line(v, &f, pc);
			if (!pf_luajit_found(v, &f, &lines))
				return;
		}
		size = pf_trace_frame_size(v, &slots, at, &pc);
		v->skip = (link & PF_LINK_MASK_P) == PF_LINK_VARARG;
		if (!size || size > at - 2) {
			pf_luajit_fail(v, PF_UNWIND_BROKEN);
			return;
		}
		at -= size;
	}
	/* The outermost function of the trace has a frame in memory. After a tail call in the trace, the frame still has the old
	 * function, and only the snapshot has the new one. */
	value = pf_trace_knows(&slots, 0) ? pf_trace_value(v, &slots, 0) : pf_luajit_word(v, base - 2 * PF_LUAJIT_SLOT);
	if (!slots.frame[1] && pf_luajit_function_at(v, base, &f) && (f.id || pf_luajit_holds(&f, pc))) {
		if (s.base > 2)
			pf_luajit_frames(v, base, pc, NULL);
		else {
			lines = lines_at(v, t, &f, &position, &s, NULL);
			pf_luajit_frames(v, base, pc, &lines);
		}
		return;
	}
	if (!v->skip && pf_trace_function(v, t, 1, value, pc, &f)) {
		if (s.base > 2)
			lines.first = lines.last = pf_luajit_line(v, &f, pc);
		else
			lines = lines_at(v, t, &f, &position, &s, NULL);
		if (!pf_luajit_found(v, &f, &lines))
			return;
	} else if (!v->skip) {
		pf_luajit_fail(v, PF_UNWIND_NO_PC);
		if (pf_luajit_function_at(v, base, &f) && !pf_luajit_found(v, &f, NULL))
			return;
	}
	v->skip = 1;
	pf_luajit_frames(v, base, pc, NULL);
}

/* The code at an offset lies between two snapshots. Is the function of the frame in memory the outermost function of
 * one of them? The two snapshots have different outermost functions if the code between them returns to a caller. */
static int fits(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint64_t offset)
{
	const uint32_t k = pf_trace_snapshot_at(v, t, offset);
	struct pf_luajit_function f;
	struct pf_trace_slots slots;
	struct pf_snapshot s;

	if (!pf_luajit_function_at(v, base, &f))
		return 0;
	for (uint32_t i = k; i <= k + 1 && pf_trace_read_snapshot(v, t, i, &s); i++) {
		pf_trace_read_slots(v, t, &s, &slots);
		if (slots.frame[1]) /* after a tail call, the frame still has the old function */
			return 1;
		if (pf_luajit_holds(&f, s.base == 2 ? s.pc + PF_LUAJIT_INSTRUCTION : pf_trace_return_address(v, &s, &slots, 2)))
			return 1;
	}
	return 0;
}

/* Find the trace whose code runs; else the one that has called a function. A trace that vmstate names is the first
 * candidate. The C stack may still have the return address of an earlier call by another trace, so a trace that fits
 * the frame in memory is preferred. */
static int find_trace(const struct pf_luajit_view *v, uint64_t base, struct pf_trace *t, uint64_t *offset)
{
	enum { CANDIDATES_MOST = 32, MISFIT = 1 << 17 }; /* MISFIT is greater than the number of any return address */
	const uint64_t ip = v->r->ip;
	struct pf_trace candidate;
	struct pf_trace_returns returns;
	uint64_t array, returned = 0;
	const uint32_t n = traces(v, &array);
	unsigned best = 0, candidates = 0;

	*offset = 0;
	if (v->vmstate > 0 && (uint32_t)v->vmstate < n && read_trace(v, pf_luajit_word(v, array + (uint64_t)v->vmstate * 8), t)) {
		*offset = ip - t->code;
		if (pf_trace_in_code(t, ip) || pf_trace_return(v, t, NULL, offset))
			return 1;
	}
	pf_trace_find_returns(v, &returns);
	for (uint32_t i = 1; i < n; i++) {
		unsigned number;

		if (!read_trace(v, pf_luajit_word(v, array + (uint64_t)i * 8), &candidate))
			continue;
		if (pf_trace_in_code(&candidate, ip)) {
			*t = candidate;
			*offset = ip - candidate.code;
			return 1;
		}
		number = pf_trace_return(v, &candidate, &returns, &returned);
		if (!number)
			continue;
		if (candidates++ >= CANDIDATES_MOST || !fits(v, &candidate, base, returned))
			number += MISFIT;
		if (best && number >= best)
			continue;
		best = number;
		*t = candidate;
		*offset = returned;
	}
	return best != 0;
}

/* The handler restores the frames of the inlined functions, and then sets the thread's base to that of the innermost one.
 * Returns 1 if it has; then *base is the base of the trace's outermost function. Otherwise *base is the thread's base. */
static int base_of_exit(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, uint64_t *base)
{
	struct pf_trace_slots slots;
	struct pf_luajit_function f;

	*base = v->base;
	if (!pf_luajit_function_at(v, v->base, &f) || !(f.id || pf_luajit_holds(&f, s->pc + PF_LUAJIT_INSTRUCTION)))
		return 0;
	if (s->base == 2)
		return 1;
	pf_trace_read_slots(v, t, s, &slots);
	if (!pf_trace_knows(&slots, s->base - 1) || pf_luajit_word(v, v->base - PF_LUAJIT_SLOT) != pf_trace_value(v, &slots, s->base - 1))
		return 0;
	*base -= (uint64_t)(s->base - 2) * PF_LUAJIT_SLOT;
	return 1;
}

/* The collector runs. Returns 1 if the common exit handler has called it. One of the running C functions then returns to the
 * handler, whose stack pointer is the address of the registers that it has stored. The registers of an earlier exit may still be
 * on the C stack while the collector runs in two other cases:
 * - The interpreter runs a C function, which has called the collector. Then the thread's base is that of the C function.
 * - The interpreter has called the collector itself, or a hook that has called it. Then one of the C functions returns to the
 *   interpreter's frame. */
static int collects_at_exit(const struct pf_luajit_view *v)
{
	enum { FRAMES_MOST = 64 };
	struct pf_luajit_function function;
	struct pf_c_frame f = {.r = *v->r, .seen = v->u->seen};
	int stored = 0;

	if (!pf_luajit_function_at(v, v->base, &function) || function.id)
		return 0;
	for (unsigned i = 0; i < FRAMES_MOST && pf_c_frame_leave(v->l->code, v->m, &f) == 0 && f.r.sp < v->cframe; i++)
		stored |= pf_trace_exit_stored(v, f.r.sp);
	return stored && f.r.sp != v->cframe;
}

/* A trace is being left: its exit stub or the common exit handler runs, or the collector, which the handler has called. */
static int find_exit(const struct pf_luajit_view *v, struct pf_trace *t, uint32_t *k, uint64_t *base)
{
	uint32_t from[2]; /* the trace's number, and that of its exit */
	uint64_t restored = v->base;
	struct pf_snapshot s;
	int is_restored;

	if (v->vmstate >= 0)
		return *base && pf_trace_exit_number(v, t, k);
	if (v->vmstate != PF_LUAJIT_EXIT && (v->vmstate != PF_LUAJIT_COLLECTOR || *base))
		return 0;
	/* The handler has the numbers in registers until it clears the base. It stores them after it has set vmstate. */
	if (*base)
		pf_trace_exit_registers(v->r, from);
	else if (!v->l->trace_exit || !pf_luajit_read(v, from, v->global + v->l->trace_exit, sizeof from))
		return 0;
	*k = from[1];
	if (!pf_trace_read_numbered(v, from[0], t) || *k >= t->snapshots_n)
		return 0;
	if (*base)
		return 1;
	is_restored = pf_trace_read_snapshot(v, t, *k, &s) && base_of_exit(v, t, &s, &restored);
	/* Before the handler calls the collector, it saves the address at which the interpreter will continue. */
	if (v->vmstate == PF_LUAJIT_COLLECTOR && !(is_restored && s.pc == pf_luajit_saved_pc(v, v->cframe) && collects_at_exit(v)))
		return 0;
	*base = restored;
	return 1;
}

/* A trace is being entered, or the interpreter continues after one: its registers are valid. */
static int in_interpreter(struct pf_luajit_view *v)
{
	const uint64_t base = v->r->general[PF_LUAJIT_BASE], pc = v->r->general[PF_LUAJIT_PC];
	struct pf_luajit_function f;

	if (v->r->sp + PF_LUAJIT_ENTRY_SPACE < v->cframe || !pf_luajit_function_at(v, base, &f))
		return 0;
	if (f.id)
		return pf_luajit_frames(v, base, 0, NULL), 1;
	if (!pf_luajit_holds(&f, pc + (v->vmstate < 0 ? 0 : PF_LUAJIT_INSTRUCTION)))
		return 0;
	pf_luajit_frames(v, base, pc + (v->vmstate < 0 ? 0 : PF_LUAJIT_INSTRUCTION), NULL);
	return 1;
}

int pf_luajit_trace(struct pf_luajit_view *v, uint64_t trace_base)
{
	const struct pf_luajit_lines unknown = {0, 0};
	struct pf_trace_position at = {.offset = AT_EXIT};
	struct pf_trace t;

	if (trace_base && find_trace(v, trace_base, &t, &at.offset)) {
		at.k = pf_trace_snapshot_at(v, &t, at.offset);
		at.called = !pf_trace_in_code(&t, v->r->ip);
		frames(v, &t, at, trace_base);
		return 1;
	}
	at.offset = AT_EXIT;
	if (find_exit(v, &t, &at.k, &trace_base)) {
		at.called = v->vmstate == PF_LUAJIT_COLLECTOR;
		frames(v, &t, at, trace_base);
		return 1;
	}
	if (!trace_base)
		return 0;
	if (in_interpreter(v))
		return 1;
	pf_luajit_fail(v, PF_UNWIND_NO_TRACE);
	pf_luajit_frames(v, trace_base, 0, &unknown);
	return 1;
}

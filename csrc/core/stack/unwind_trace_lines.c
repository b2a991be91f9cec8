/* The lines for which a stretch of compiled code stands: those of the bytecode from a snapshot's address to the next one's.
 *
 * A conditional jump has a separate snapshot, for its comparison alone, whose address is that of the branch that was not taken. The
 * jump itself is one of those with this target. */
#include "core/stack/unwind_trace_walk.h"

#include <string.h>

enum { IR_GUARD = 0x80, IR_LAST_COMPARISON = 9, IR_PHI = 19, IR_RENAME = 20 };

/* Are the instructions of the trace from one reference to another only conversions? The compiler adds them for the trace that follows. */
static int are_conversions(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t from, uint32_t end)
{
	enum { CONVERSION = 10 };
	const uint32_t most = from + PF_TRACE_SLOTS;

	while (from < end && from < most && v->l->ir_table &&
	       pf_trace_ir_op(pf_luajit_word(v, t->ir + (uint64_t)from * PF_TRACE_IR_SIZE)) == (unsigned)v->l->ir_table + CONVERSION)
		from++;
	return from == end;
}

/* Does the trace have only a comparison, and conversions after it, between this snapshot and the next? */
static int is_comparison(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, uint32_t next_ref)
{
	uint16_t type;

	if (!pf_luajit_read(v, &type, t->ir + (uint64_t)s->ref * PF_TRACE_IR_SIZE + 4, sizeof type))
		return 0;
	return type & IR_GUARD && type >> 8 <= IR_LAST_COMPARISON && (!next_ref || are_conversions(v, t, s->ref + 1, next_ref));
}

/* May the guard after a snapshot check what the compiler has assumed, rather than be a jump? At the start of a numeric loop, any
 * guard may. Elsewhere, a guard that compares the order of values may not; others may if they test a function or a pointer, or if
 * the snapshot is at a call. */
static int may_assume(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s)
{
	enum { LAST_ORDER = 7, TYPE = 0x1f, POINTER = 5, PROTOTYPE = 7, LONG_POINTER = 9 /* 8: a function */ };
	enum { FIRST_START = 11, LAST_START = 10 }; /* opcodes of the start of a numeric loop, before that of a jump */
	const struct pf_luajit_layout *l = v->l;
	const uint64_t word = pf_luajit_word(v, t->ir + (uint64_t)s->ref * PF_TRACE_IR_SIZE);
	const unsigned type = word >> 32 & TYPE, op = pf_trace_instruction(v, s->pc) & 0xff;

	if (op + FIRST_START >= l->op_jump && op + LAST_START <= l->op_jump)
		return 1;
	if (pf_trace_ir_op(word) <= LAST_ORDER)
		return 0;
	return type == POINTER || (type >= PROTOTYPE && type <= LONG_POINTER) ||
	       (op >= l->op_call_first && op <= l->op_call_last) || (op >= l->op_tailcall_first && op <= l->op_tailcall_last);
}

/* Is the address of a snapshot that of the branch which was not taken? It is if only a comparison follows before the next
 * snapshot, or if the first instruction compares the order of values. Otherwise a test of equality may also check what the
 * compiler has assumed. */
enum jump { NO_JUMP, PERHAPS, JUMP };

static enum jump is_jump(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, uint32_t next_ref)
{
	enum { LAST_SIGNED_ORDER = 3 };
	uint64_t word;
	int alone;

	if (!is_comparison(v, t, s, 0))
		return NO_JUMP;
	alone = is_comparison(v, t, s, next_ref);
	if (may_assume(v, t, s))
		return alone ? PERHAPS : NO_JUMP;
	word = pf_luajit_word(v, t->ir + (uint64_t)s->ref * PF_TRACE_IR_SIZE);
	return alone || pf_trace_ir_op(word) <= LAST_SIGNED_ORDER ? JUMP : PERHAPS;
}

int pf_trace_begins_with_comparison(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s)
{
	return is_comparison(v, t, s, 0);
}

/* Does no code follow an instruction? Then only those follow it that name values for the next iteration. */
static int is_last(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t ref)
{
	const uint64_t next = t->ir + (uint64_t)(ref + 1) * PF_TRACE_IR_SIZE;
	const unsigned op = pf_trace_ir_op(pf_luajit_word(v, next));

	return next >= t->snapshots || op == IR_PHI || op == IR_RENAME;
}

uint64_t pf_trace_return_address(const struct pf_luajit_view *v, const struct pf_snapshot *called, const struct pf_trace_slots *slots, unsigned base)
{
	unsigned at = called->base;
	uint64_t pc = 0;

	for (unsigned i = 0; i < PF_TRACE_SLOTS && at > base; i++) {
		unsigned size;

		if (!pf_trace_knows(slots, at - 1))
			return 0;
		size = pf_trace_frame_size(v, slots, at, &pc);
		if (!size || size > at - base)
			return 0;
		at -= size;
	}
	return at == base ? pc : 0;
}

/* Find where the code of snapshot k begins, as an address, and the snapshot before which it ends. */
static uint64_t next_pc(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, struct pf_snapshot *next, int *there)
{
	struct pf_trace linked;

	*there = 0;
	if (k + 1 < t->snapshots_n)
		*there = pf_trace_read_snapshot(v, t, k + 1, next);
	else if (t->link == t->number && t->loop)
		*there = pf_trace_read_snapshot(v, t, pf_trace_snapshot_at(v, t, t->loop), next);
	else
		return t->link && pf_trace_read_numbered(v, t->link, &linked) ? linked.start : 0;
	return *there ? next->pc : 0;
}

int pf_trace_next_snapshot(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, struct pf_snapshot *next)
{
	int there;

	next_pc(v, t, k, next, &there);
	return there;
}

/* Walk from an instruction to the jump of snapshot k (s), whose part of the trace is a single comparison. Each of the next snapshots for
 * which this holds too, with the same target, stands for one more jump to that target. */
static struct pf_trace_walk walk_to_jump(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					 const struct pf_snapshot *s, uint64_t from)
{
	enum { JUMPS_MOST = 16 };
	const uint64_t to = s->pc;
	struct pf_trace_slots slots;
	struct pf_snapshot at = *s, next = *s;
	uint64_t beyond = 0;
	unsigned more = 0;

	for (unsigned i = 0; i < JUMPS_MOST && k + 1 < t->snapshots_n && pf_trace_read_snapshot(v, t, ++k, &next); i++, at = next) {
		if (at.pc != to || at.base != s->base || !is_comparison(v, t, &at, next.ref))
			break;
		more = i;
		if (next.base == s->base) {
			beyond = next.pc == to ? 0 : next.pc; /* the address of one more jump does not tell where this one leads */
			continue;
		}
		beyond = 0;
		if (next.base > s->base) {
			pf_trace_read_slots(v, t, &next, &slots);
			beyond = pf_trace_return_address(v, &next, &slots, s->base);
		}
		beyond -= beyond ? PF_LUAJIT_INSTRUCTION : 0;
		break;
	}
	return pf_trace_walk_to_jump(v, f, from, to, beyond, more);
}

/* A comparison of numbers calls nothing. If the walk to its jump has calls on several lines, leave out those of the comparison, which is
 * before the jump or, at the end of a numeric loop, the jump itself. */
static void leave_comparison(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint64_t from,
			     const struct pf_snapshot *comparison, struct pf_trace_walk *w)
{
	enum { TYPE = 0x1f, NUMBER = 14 };
	const uint64_t word = pf_luajit_word(v, t->ir + (uint64_t)comparison->ref * PF_TRACE_IR_SIZE);
	uint64_t at = w->last;

	if (!w->found || w->stretch.calls.first == w->stretch.calls.last || (word >> 32 & TYPE) != NUMBER)
		return;
	if ((pf_trace_instruction(v, at) & 0xff) == v->l->op_jump)
		at -= PF_LUAJIT_INSTRUCTION;
	if (at > from) {
		const struct pf_trace_walk before = pf_trace_walk(v, f, from, PF_TRACE_AT, at);

		if (before.found)
			w->stretch.calls = before.stretch.calls;
	}
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/* The lines of the jump of snapshot k, whose address is one of the jump's targets; none if no such jump is found. Several jumps may have
 * this target, as in `if a and b`. The compiler knows some conditions, and makes neither code nor a snapshot for their jumps. So all jumps
 * to the target count that lie between the previous snapshot and the next one, without those that have snapshots themselves. */
static struct pf_luajit_lines lines_of_jump(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					    const struct pf_snapshot *s, const struct pf_snapshot *next)
{
	uint64_t jumps[PF_TRACE_JUMPS_MOST], low = 0, high = UINT64_MAX;
	const unsigned n = pf_trace_jumps_to(v, f, s->pc, jumps);
	struct pf_luajit_lines lines = {0, 0};
	struct pf_snapshot previous = *s, at = *s, after;
	struct pf_trace_loop loop;
	unsigned first = 0, last = n, earlier = 0, later = 0;
	uint32_t i = k;

	/* The jump may be out of reach. Then a nearer one with the same target would be taken for it. */
	if (next->base == s->base && distance(next->pc, s->pc) > PF_TRACE_JUMPS_REACH * PF_LUAJIT_INSTRUCTION)
		return lines;
	while (i > 0 && pf_trace_read_snapshot(v, t, --i, &previous) && previous.base == s->base && previous.pc == s->pc &&
	       is_comparison(v, t, &previous, at.ref)) {
		earlier++;
		at = previous;
	}
	if (n > 1 && k > 0 && previous.base == s->base && !is_comparison(v, t, &previous, 0)) {
		at = *next;
		for (i = k + 1; at.pc == s->pc && i + 1 < t->snapshots_n && pf_trace_read_snapshot(v, t, ++i, &after) && is_comparison(v, t, &at, after.ref);
		     at = after)
			later++;
		low = previous.pc;
		if (at.base == s->base && at.pc > low && !is_comparison(v, t, &at, 0))
			high = at.pc;
		while (first < last && jumps[first] < low)
			first++;
		while (first < last && jumps[last - 1] >= high)
			last--;
		if (last - first > earlier + later) {
			first += earlier;
			last -= later;
		}
		if (first == last || pf_trace_goes_round(v, t, f, &previous, next, jumps[first], &loop)) {
			first = 0;
			last = n;
		}
	}
	for (; first < last; first++)
		pf_trace_widen(&lines, pf_luajit_line(v, f, jumps[first] + PF_LUAJIT_INSTRUCTION));
	return lines;
}

/* Find the jump one of whose targets is the address of snapshot k, and its other target; 0 if there is none. */
static uint64_t other_target(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
			     const struct pf_snapshot *s, uint64_t *jump)
{
	struct pf_trace_walk w = {.found = 0};
	struct pf_snapshot previous;

	/* The previous snapshot's address may be that of a branch that was not taken, too. */
	if (k > 0 && pf_trace_read_snapshot(v, t, k - 1, &previous) && previous.base == s->base && !is_comparison(v, t, &previous, 0))
		w = pf_trace_walk(v, f, previous.pc, PF_TRACE_AFTER_JUMP_TO, s->pc);
	if (!w.found) /* perhaps the code has called the function, or called it again, since the previous snapshot */
		w = pf_trace_walk(v, f, f->code + PF_LUAJIT_INSTRUCTION, PF_TRACE_AFTER_JUMP_TO, s->pc);
	*jump = w.last;
	if (!w.found)
		return 0;
	return *jump + PF_LUAJIT_INSTRUCTION == s->pc ? pf_trace_jump(v->l, *jump, pf_trace_instruction(v, *jump)) : *jump + PF_LUAJIT_INSTRUCTION;
}

/* Finish a walk from s that has reached the instruction `to`: add the loop around it that the code goes round. If there is an
 * alternative and the walk has gone back, but the code has not, the walk is no longer found. */
static void add_rounds(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f,
		       const struct pf_snapshot *s, const struct pf_snapshot *next, uint64_t to, int alternative,
		       struct pf_trace_walk *w)
{
	struct pf_trace_loop loop;

	if (!w->found)
		return;
	if (!pf_trace_goes_round(v, t, f, s, next, to, &loop))
		w->found = !alternative || to >= s->pc;
	else if (loop.often)
		pf_trace_walk_all(v, f, loop.from, loop.end, w);
}

/* The compiler may drop the snapshot after a jump. Then the jump's snapshot also stands for the code that follows, from the jump
 * to its other target. */
static struct pf_trace_walk walk_past_jump(const struct pf_luajit_view *v, const struct pf_trace *t,
					   const struct pf_luajit_function *f, uint32_t k, const struct pf_snapshot *s,
					   const struct pf_snapshot *next, enum pf_trace_stop how, uint64_t to)
{
	struct pf_trace_walk w = {.found = 0};
	struct pf_snapshot from = *s;
	uint64_t jump;
	const uint64_t other = other_target(v, t, f, k, s, &jump);

	if (!other)
		return w;
	w = pf_trace_walk(v, f, other, how, to);
	/* After a loop's own jump, pf_trace_goes_round itself begins at the loop's start. */
	if (!pf_trace_is_loop(v->l, pf_trace_instruction(v, jump)))
		from.pc = other;
	add_rounds(v, t, f, &from, next, to, 0, &w);
	pf_trace_widen(&w.stretch.all, pf_luajit_line(v, f, jump + PF_LUAJIT_INSTRUCTION));
	return w;
}

struct pf_trace_walk pf_trace_walk_branches(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					    const struct pf_snapshot *s, enum pf_trace_stop how, uint64_t to)
{
	const struct pf_trace_walk nothing = {.found = 1};
	struct pf_trace_walk w = s->pc == to ? nothing : pf_trace_walk(v, f, s->pc, how, to), past;
	struct pf_snapshot own;
	uint64_t jump, other;

	/* The code of a comparison's snapshot is that of the other branch. */
	if (!is_comparison(v, t, s, 0) || !pf_trace_read_snapshot(v, t, k, &own) || own.pc != s->pc || own.base != s->base)
		return w;
	other = other_target(v, t, f, k, s, &jump);
	if (!other)
		return w;
	past = other == to ? nothing : pf_trace_walk(v, f, other, how, to);
	if (how != PF_TRACE_AT_RETURN && !w.found)
		return past;
	if (how == PF_TRACE_AT_RETURN || past.found)
		pf_trace_add_walk(&w, &past);
	return w;
}

struct pf_trace_walk pf_trace_walk_to_next(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					   const struct pf_snapshot *s, const struct pf_snapshot *next)
{
	const uint32_t following = k + 1 < t->snapshots_n ? k + 1 : pf_trace_snapshot_at(v, t, t->loop);
	struct pf_trace_walk w = {.found = 0}, to_jump = {.found = 0};
	struct pf_snapshot after;
	enum jump jump = NO_JUMP;

	if (pf_trace_next_snapshot(v, t, following, &after))
		jump = is_jump(v, t, next, following + 1 < t->snapshots_n ? after.ref : 0);
	if (jump) {
		to_jump = walk_to_jump(v, t, f, following, next, s->pc);
		leave_comparison(v, t, f, s->pc, next, &to_jump);
		add_rounds(v, t, f, s, next, to_jump.last, jump == PERHAPS, &to_jump);
	}
	if (jump == JUMP)
		return to_jump;
	w = pf_trace_walk(v, f, s->pc, PF_TRACE_AT, next->pc);
	add_rounds(v, t, f, s, next, next->pc, to_jump.found, &w);
	if (!w.found)
		return to_jump;
	if (to_jump.found)
		pf_trace_add_walk(&w, &to_jump);
	return w;
}

struct pf_trace_stretch pf_trace_lines(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
				    const struct pf_snapshot *s)
{
	struct pf_snapshot next;
	struct pf_trace_slots slots;
	struct pf_trace_walk w = {.found = 0}, past = {.found = 0};
	int there;
	const uint64_t actual = next_pc(v, t, k, &next, &there);
	const int last = k + 1 == t->snapshots_n;
	struct pf_trace_loop loop;
	uint64_t jump, to = 0;
	int enters = 0;

	if (there && is_comparison(v, t, s, last ? 0 : next.ref) && (!last || is_last(v, t, s->ref))) {
		w.stretch.all = lines_of_jump(v, t, f, k, s, &next);
		if (w.stretch.all.first && may_assume(v, t, s))
			pf_trace_widen(&w.stretch.all, pf_luajit_line(v, f, s->pc + PF_LUAJIT_INSTRUCTION));
		if (w.stretch.all.first)
			return w.stretch;
	}
	if (!there) { /* the code only continues in another trace or in the interpreter */
		pf_trace_widen(&w.stretch.all, pf_luajit_line(v, f, s->pc + PF_LUAJIT_INSTRUCTION));
		return w.stretch;
	}
	if (next.base > s->base) {
		pf_trace_read_slots(v, t, &next, &slots);
		jump = pf_trace_return_address(v, &next, &slots, s->base);
		to = jump ? jump - PF_LUAJIT_INSTRUCTION : 0;
		enters = to != 0;
		if (enters)
			w = pf_trace_walk(v, f, s->pc, PF_TRACE_AFTER, to);
	} else if (next.base == s->base && actual) {
		w = pf_trace_walk_to_next(v, t, f, k, s, &next);
	}
	if (enters && w.found && pf_trace_goes_round(v, t, f, s, &next, to, &loop) && loop.often)
		pf_trace_walk_all(v, f, loop.from, loop.end, &w);
	if (k > 0 && (next.base == s->base || enters) && (!w.found || is_comparison(v, t, s, 0))) {
		past = walk_past_jump(v, t, f, k, s, &next, enters ? PF_TRACE_AFTER : PF_TRACE_AT, enters ? to : actual);
		if (!w.found && is_comparison(v, t, s, 0))
			w = past;
		else if (w.found && past.found) /* Either branch may be the one that was not taken. */
			pf_trace_add_walk(&w, &past);
	}
	if (!w.found) {
		w = pf_trace_walk_branches(v, t, f, k, s, PF_TRACE_AT_RETURN, 0);
		if (past.found)
			pf_trace_add_walk(&w, &past);
		if (next.base == s->base && pf_luajit_holds(f, actual + PF_LUAJIT_INSTRUCTION))
			pf_trace_widen(&w.stretch.all, pf_luajit_line(v, f, actual + PF_LUAJIT_INSTRUCTION));
	}
	return w.stretch;
}

/* --- marks -------------------------------------------------------------------------------------------------------------- */

/* The first instruction after pc with another line; 0 if a jump or a return comes first. */
static uint64_t where_line_changes(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc)
{
	const struct pf_luajit_layout *l = v->l;
	const uint32_t line = pf_luajit_line(v, f, pc + PF_LUAJIT_INSTRUCTION);

	for (unsigned i = 0; i < PF_TRACE_WALK_MOST && pf_luajit_holds(f, pc + PF_LUAJIT_INSTRUCTION); i++, pc += PF_LUAJIT_INSTRUCTION) {
		const uint8_t op = pf_trace_instruction(v, pc) & 0xff;

		if (pf_luajit_line(v, f, pc + PF_LUAJIT_INSTRUCTION) != line)
			return pc;
		if (op == l->op_jump || pf_trace_returns(l, op))
			return 0;
	}
	return 0;
}

/* While LuaJIT's profiler runs, compiled code tests a byte of the global state at each change of the line, and exits if the byte
 * is set. A snapshot follows, but the compiler drops it if no later code can exit, as at the end of a loop. Then the test itself
 * divides the stretch. It is recognized by its machine code, which is the same as that right before the stretch. */
struct pf_trace_stretch pf_trace_lines_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					 const struct pf_snapshot *s, uint64_t offset, const struct pf_trace_stretch *whole)
{
	enum { READ_MOST = 768 };
	const struct pf_trace_stretch lines = whole ? *whole : pf_trace_lines(v, t, f, k, s);
	unsigned char code[READ_MOST];
	uint32_t begins, ends;
	struct pf_snapshot after = *s;
	uint64_t size;

	if (lines.all.first == lines.all.last || k == 0 || !pf_trace_offset(v, t, k, &begins) || begins < PF_TRACE_MARK || offset < begins)
		return lines;
	size = t->code_size;
	if (k + 1 < t->snapshots_n) {
		if (!pf_trace_offset(v, t, k + 1, &ends))
			return lines;
		size = ends;
	}
	if (size < begins)
		return lines;
	size = size - begins + PF_TRACE_MARK < READ_MOST ? size - begins + PF_TRACE_MARK : READ_MOST;
	if (!pf_luajit_read(v, code, t->code + begins - PF_TRACE_MARK, (size_t)size) || !pf_trace_is_mark(code))
		return lines;
	v->memo->marked = 1;
	for (uint64_t i = PF_TRACE_MARK; i + PF_TRACE_MARK <= size; i += PF_TRACE_OFFSET) {
		struct pf_trace_stretch line = {.all = {0, 0}};

		if (memcmp(code + i, code, PF_TRACE_TEST) != 0 || !pf_trace_is_mark(code + i))
			continue;
		if (offset - begins < i) {
			pf_trace_widen(&line.all, pf_luajit_line(v, f, s->pc + PF_LUAJIT_INSTRUCTION));
			return line.all.first ? line : lines;
		}
		after.pc = where_line_changes(v, f, s->pc);
		line = after.pc ? pf_trace_lines(v, t, f, k, &after) : lines;
		return line.all.first ? line : lines;
	}
	return lines;
}

uint32_t pf_trace_marks(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t begins, uint32_t ends, uint64_t offset, uint32_t *before)
{
	enum { READ_AT_ONCE = 256 };
	unsigned char code[READ_AT_ONCE + PF_TRACE_MARK];
	uint32_t marks = 0;

	for (*before = 0; begins < ends; begins += READ_AT_ONCE) {
		const uint32_t left = ends - begins, size = left < sizeof code ? left : sizeof code;

		if (!pf_luajit_read(v, code, t->code + begins, size))
			return 0;
		for (uint32_t i = 0; i < READ_AT_ONCE && i + PF_TRACE_MARK <= size; i += PF_TRACE_OFFSET) {
			if (!pf_trace_is_mark(code + i))
				continue;
			marks++;
			*before += begins + i <= offset;
			v->memo->marked = 1;
		}
	}
	return marks;
}

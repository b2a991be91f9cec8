/* The lines for which a stretch of compiled code stands: those of the bytecode from a snapshot's address to the next one's.
 *
 * A conditional jump has a separate snapshot, for its comparison alone, whose address is that of the branch that was not taken. The
 * jump itself is found by its two targets. */
#include "core/stack/unwind_trace.h"

#include <string.h>

enum { IR_GUARD = 0x80, IR_LAST_COMPARISON = 9, IR_PHI = 19, IR_RENAME = 20, WALK_MOST = 512 };

static uint64_t target(uint64_t pc, uint32_t code)
{
	return pc + PF_LUAJIT_INSTRUCTION + ((uint64_t)(code >> 16) - PF_TRACE_IR_BIAS) * PF_LUAJIT_INSTRUCTION;
}

/* Is a single comparison all that the trace has between this snapshot and the next? */
static int is_comparison(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, uint32_t next_ref)
{
	uint16_t type;

	if (next_ref && next_ref != s->ref + 1)
		return 0;
	if (!pf_luajit_read(v, &type, t->ir + (uint64_t)s->ref * PF_TRACE_IR_SIZE + 4, sizeof type))
		return 0;
	return type & IR_GUARD && type >> 8 <= IR_LAST_COMPARISON;
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

/* How a walk along the bytecode ends: at an instruction, after an instruction, or after a jump one of whose targets is given. */
enum stop { STOP_AT, STOP_AFTER, STOP_AFTER_JUMP_TO, STOP_AT_END };

struct walk {
	struct pf_trace_stretch stretch;
	uint64_t last; /* the last instruction */
	int found;
	enum pf_trace_work work;
};

static void widen(struct walk *w, uint32_t line)
{
	pf_trace_widen(&w->stretch.all, line);
}

static void both(struct pf_luajit_lines *to, const struct pf_luajit_lines *lines)
{
	pf_trace_widen(to, lines->first);
	pf_trace_widen(to, lines->last);
}

static int may_allocate(const struct pf_luajit_layout *l, uint8_t op)
{
	return op == l->op_table || op == l->op_filled_table || op == l->op_concatenate || (op >= l->op_call_first && op <= l->op_call_last);
}

/* Can compiled code call C code for this instruction? Not for those that compare for equality, move, compute (except % and ^), load
 * a constant or a table's field, jump or return. Their opcodes are counted from that of `..`. */
static int may_call(const struct pf_luajit_layout *l, uint8_t op)
{
	enum { LAST_ORDER = 3, LENGTH = -17, ADD = -16, POWER = -1, MODULO = 4, OPERATORS = 5, UPVALUE = 7, TABLE = 14, FILLED_TABLE = 15, GLOBAL = 16,
	       FIRST_INDEX = 18, LAST_INDEX = 21, CALL = 27 };
	const int at = op - l->op_concatenate;

	if (l->op_table - l->op_concatenate != TABLE || l->op_filled_table - l->op_concatenate != FILLED_TABLE ||
	    l->op_call_first - l->op_concatenate != CALL)
		return 1; /* the opcodes have another order */
	if (at < LENGTH)
		return op <= LAST_ORDER;
	if (at >= ADD && at < POWER)
		return (at - ADD) % OPERATORS == MODULO;
	if ((at > 0 && at <= UPVALUE) || at == GLOBAL || (at >= FIRST_INDEX && at <= LAST_INDEX))
		return 0;
	return op < l->op_return_first || op > l->op_jump;
}

/* How much machine code does for this instruction: nothing to move a value, to load a constant, to jump or to return; little to
 * compare, to get an upvalue, to add, subtract, multiply or loop. */
static enum pf_trace_work work_of(const struct pf_luajit_layout *l, uint8_t op)
{
	enum { MOVE = -20, LENGTH = -17, ADD = -16, POWER = -1, DIVIDE = 3, OPERATORS = 5, FIRST_CONSTANT = 1, LAST_CONSTANT = 6, UPVALUE = 7 };
	const int at = op - l->op_concatenate;

	if (at == MOVE || (at >= FIRST_CONSTANT && at <= LAST_CONSTANT) || op == l->op_jump || (op >= l->op_return_first && op <= l->op_return_last))
		return PF_TRACE_NO_WORK;
	if (at < LENGTH || (at >= ADD && at < POWER && (at - ADD) % OPERATORS < DIVIDE) || at == UPVALUE || pf_trace_is_loop(l, op))
		return PF_TRACE_LITTLE_WORK;
	return PF_TRACE_WORK;
}

/* Follow the code of f from an instruction on. Forward jumps are not taken, so both branches count. Unconditional backward jumps
 * are taken, and the first `back` conditional ones. */
static struct walk follow(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum stop how, uint64_t to,
			  unsigned back)
{
	const struct pf_luajit_layout *l = v->l;
	struct walk w = {.found = 0};

	for (unsigned i = 0; i < WALK_MOST && pf_luajit_holds(f, from + PF_LUAJIT_INSTRUCTION); i++) {
		const uint32_t code = pf_trace_instruction(v, from);
		const uint8_t op = code & 0xff;
		const uint64_t next = from + PF_LUAJIT_INSTRUCTION, jump = target(from, code);
		uint32_t line;

		if (how == STOP_AT && from == to && i > 0) {
			w.found = 1;
			return w;
		}
		line = pf_luajit_line(v, f, next);
		widen(&w, line);
		if (may_allocate(l, op))
			pf_trace_widen(&w.stretch.allocations, line);
		if (may_call(l, op))
			pf_trace_widen(&w.stretch.calls, line);
		w.work = work_of(l, op) > w.work ? work_of(l, op) : w.work;
		w.last = from;
		if ((how == STOP_AFTER && from == to) || (how == STOP_AFTER_JUMP_TO && (next == to || jump == to))) {
			w.found = 1;
			return w;
		}
		if ((op >= l->op_return_first && op <= l->op_return_last) ||
		    (op >= l->op_tailcall_first && op <= l->op_tailcall_last)) {
			w.found = how == STOP_AT_END;
			return w;
		}
		from = next;
		/* Another instruction's operand is never as large as that of a jump within a function. */
		if (jump > f->code && jump < next && (op == l->op_jump || back > 0)) {
			back -= op != l->op_jump;
			from = jump;
		}
	}
	return w;
}

static struct walk walk(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum stop how, uint64_t to)
{
	const struct walk w = follow(v, f, from, how, to, 0);

	return w.found || how == STOP_AT_END ? w : follow(v, f, from, how, to, 1);
}

int pf_trace_calls_between(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to)
{
	return from != to && walk(v, f, from, to ? STOP_AT : STOP_AT_END, to).stretch.calls.first != 0;
}

enum pf_trace_work pf_trace_work_between(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to)
{
	struct walk w = {.found = 1, .work = PF_TRACE_NO_WORK};

	if (from != to)
		w = walk(v, f, from, to ? STOP_AT : STOP_AT_END, to);
	return w.found ? w.work : PF_TRACE_WORK;
}

int pf_trace_may_go_back(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc)
{
	uint64_t at = pc;

	for (unsigned i = 0; i < WALK_MOST && pf_luajit_holds(f, at + PF_LUAJIT_INSTRUCTION); i++, at += PF_LUAJIT_INSTRUCTION) {
		const uint32_t code = pf_trace_instruction(v, at);

		if (((code & 0xff) == v->l->op_jump || pf_trace_is_loop(v->l, code)) && target(at, code) <= pc)
			return 1;
	}
	return pf_luajit_holds(f, at + PF_LUAJIT_INSTRUCTION);
}

uint64_t pf_trace_return_address(const struct pf_luajit_view *v, const struct pf_snapshot *called, const struct pf_trace_slots *slots, unsigned base)
{
	unsigned at = called->base;
	uint64_t pc = 0;

	for (unsigned i = 0; i < PF_TRACE_SLOTS && at > base; i++) {
		const uint64_t link = pf_trace_value(v, slots, at - 1);
		unsigned size;

		if (!pf_trace_knows(slots, at - 1))
			return 0;
		if ((link & PF_LINK_MASK) == PF_LINK_LUA) {
			pc = link;
			size = 2 + (pf_trace_instruction(v, link - PF_LUAJIT_INSTRUCTION) >> 8 & 0xff);
		} else {
			pc = (link & PF_LINK_MASK_P) == PF_LINK_CONTINUATION && at > 4 && pf_trace_knows(slots, at - 3) ? pf_trace_value(v, slots, at - 3) : pc;
			size = (unsigned)(link >> 3 & 0xff);
		}
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

/* Find the jump of snapshot k: the snapshot's address is one of its targets, and the code before leads to it. */
static uint64_t find_jump(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
			  const struct pf_snapshot *s, uint64_t actual)
{
	const uint64_t before = s->pc - PF_LUAJIT_INSTRUCTION, before_actual = actual - PF_LUAJIT_INSTRUCTION;
	struct pf_snapshot previous;
	struct walk w;

	if (actual && pf_luajit_holds(f, s->pc) && target(before, pf_trace_instruction(v, before)) == actual)
		return before;
	if (actual && pf_luajit_holds(f, actual) && target(before_actual, pf_trace_instruction(v, before_actual)) == s->pc)
		return before_actual;
	if (k == 0 || !pf_trace_read_snapshot(v, t, k - 1, &previous) || previous.base != s->base)
		return 0;
	w = walk(v, f, previous.pc, STOP_AFTER_JUMP_TO, s->pc);
	return w.found ? w.last : 0;
}

/* The compiler may drop the snapshot after a jump. Then the jump's snapshot also stands for the code that follows, from the jump
 * to its other target. */
static struct walk walk_past_jump(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
				  const struct pf_snapshot *s, uint64_t actual)
{
	struct walk none = {.found = 0}, w;
	struct pf_snapshot previous;
	uint64_t jump, other;

	if (!pf_trace_read_snapshot(v, t, k - 1, &previous) || previous.base != s->base)
		return none;
	w = walk(v, f, previous.pc, STOP_AFTER_JUMP_TO, s->pc);
	if (!w.found)
		return none;
	jump = w.last;
	other = jump + PF_LUAJIT_INSTRUCTION == s->pc ? target(jump, pf_trace_instruction(v, jump)) : jump + PF_LUAJIT_INSTRUCTION;
	w = walk(v, f, other, STOP_AT, actual);
	widen(&w, pf_luajit_line(v, f, jump + PF_LUAJIT_INSTRUCTION));
	return w;
}

struct pf_trace_stretch pf_trace_lines(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
				    const struct pf_snapshot *s)
{
	struct pf_snapshot next, after;
	struct pf_trace_slots slots;
	struct walk w = {.found = 0};
	int there, after_there;
	const uint64_t actual = next_pc(v, t, k, &next, &there);
	const int last = k + 1 == t->snapshots_n;
	uint64_t jump;

	if (there && is_comparison(v, t, s, last ? 0 : next.ref) && (!last || is_last(v, t, s->ref))) {
		jump = find_jump(v, t, f, k, s, actual);
		if (jump) {
			widen(&w, pf_luajit_line(v, f, jump + PF_LUAJIT_INSTRUCTION));
			return w.stretch;
		}
	}
	if (!there) { /* the code only continues in another trace or in the interpreter */
		widen(&w, pf_luajit_line(v, f, s->pc + PF_LUAJIT_INSTRUCTION));
		return w.stretch;
	}
	if (next.base > s->base) {
		pf_trace_read_slots(v, t, &next, &slots);
		jump = pf_trace_return_address(v, &next, &slots, s->base);
		if (jump)
			w = walk(v, f, s->pc, STOP_AFTER, jump - PF_LUAJIT_INSTRUCTION);
	} else if (next.base == s->base && actual) {
		const uint32_t following = k + 1 < t->snapshots_n ? k + 1 : pf_trace_snapshot_at(v, t, t->loop);

		next_pc(v, t, following, &after, &after_there);
		if (after_there && is_comparison(v, t, &next, following + 1 < t->snapshots_n ? after.ref : 0))
			w = walk(v, f, s->pc, STOP_AFTER_JUMP_TO, next.pc);
		else
			w = walk(v, f, s->pc, STOP_AT, next.pc);
	}
	if (k > 0 && next.base == s->base && (!w.found || is_comparison(v, t, s, 0))) {
		const struct walk past = walk_past_jump(v, t, f, k, s, actual);

		if (!w.found)
			w = past;
		else if (past.found) { /* Either branch may be the one that was not taken. */
			both(&w.stretch.all, &past.stretch.all);
			both(&w.stretch.calls, &past.stretch.calls);
			both(&w.stretch.allocations, &past.stretch.allocations);
		}
	}
	if (!w.found) {
		w = walk(v, f, s->pc, STOP_AT_END, 0);
		if (next.base == s->base && pf_luajit_holds(f, actual + PF_LUAJIT_INSTRUCTION))
			widen(&w, pf_luajit_line(v, f, actual + PF_LUAJIT_INSTRUCTION));
	}
	return w.stretch;
}

/* --- marks -------------------------------------------------------------------------------------------------------------- */

/* The first instruction after pc with another line; 0 if a jump or a return comes first. */
static uint64_t where_line_changes(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc)
{
	const struct pf_luajit_layout *l = v->l;
	const uint32_t line = pf_luajit_line(v, f, pc + PF_LUAJIT_INSTRUCTION);

	for (unsigned i = 0; i < WALK_MOST && pf_luajit_holds(f, pc + PF_LUAJIT_INSTRUCTION); i++, pc += PF_LUAJIT_INSTRUCTION) {
		const uint8_t op = pf_trace_instruction(v, pc) & 0xff;

		if (pf_luajit_line(v, f, pc + PF_LUAJIT_INSTRUCTION) != line)
			return pc;
		if (op == l->op_jump || (op >= l->op_return_first && op <= l->op_return_last) ||
		    (op >= l->op_tailcall_first && op <= l->op_tailcall_last))
			return 0;
	}
	return 0;
}

/* While LuaJIT's profiler runs, compiled code tests a byte of the global state at each change of the line, and exits if the byte
 * is set. A snapshot follows, but the compiler drops it if no later code can exit, as at the end of a loop. Then the test itself
 * divides the stretch. It is recognized by its machine code, which is the same as that right before the stretch. */
struct pf_trace_stretch pf_trace_lines_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					 const struct pf_snapshot *s, uint64_t offset)
{
	enum { READ_MOST = 768 };
	const struct pf_trace_stretch lines = pf_trace_lines(v, t, f, k, s);
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
	if (!pf_luajit_read(v, code, t->code + begins - PF_TRACE_MARK, size) || !pf_trace_is_mark(code))
		return lines;
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
		}
	}
	return marks;
}

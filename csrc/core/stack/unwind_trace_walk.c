/* Walks along the bytecode for which compiled code stands: its lines, which of them may call C code or allocate, and how much it does. */
#include "core/stack/unwind_trace_walk.h"

#include <string.h>

static int may_allocate(const struct pf_luajit_layout *l, uint8_t op)
{
	return op == l->op_table || op == l->op_filled_table || op == l->op_concatenate || (op >= l->op_call_first && op <= l->op_call_last);
}

/* Have the opcodes the order of LuaJIT 2.1? */
static int has_known_order(const struct pf_luajit_layout *l)
{
	enum { TABLE = 14, FILLED_TABLE = 15, CALL = 27 };

	return l->op_table - l->op_concatenate == TABLE && l->op_filled_table - l->op_concatenate == FILLED_TABLE &&
	       l->op_call_first - l->op_concatenate == CALL;
}

uint64_t pf_trace_jump(const struct pf_luajit_layout *l, uint64_t pc, uint32_t code)
{
	enum { CLOSE = 12 };
	const int op = code & 0xff;

	/* Other jumps are those that close upvalues, counted from `..`, and those that begin a loop of `pairs`, before the first return. */
	if (has_known_order(l) && op != l->op_jump && !pf_trace_is_loop(l, code) && op != l->op_concatenate + CLOSE && op != l->op_return_first - 1)
		return 0;
	return pf_trace_target(pc, code);
}

/* Can compiled code call C code for this instruction? Not for those that compare for equality, move, compute (except % and ^), load
 * a constant or a table's field, jump or return, except by the metamethods of some operators. Opcodes are counted from that of `..`. */
static int may_call(const struct pf_luajit_view *v, uint8_t op)
{
	enum { LAST_ORDER = 3, LAST_EQUALITY = 5, MINUS = -18, LENGTH = -17, ADD = -16, POWER = -1, MODULO = 4, OPERATORS = 5, UPVALUE = 7,
	       GLOBAL = 16, FIRST_INDEX = 18, LAST_INDEX = 21 };
	const struct pf_luajit_layout *l = v->l;
	const unsigned operators = v->memo->operators;
	const int at = op - l->op_concatenate;

	if (!has_known_order(l))
		return 1;
	if (at == MINUS)
		return (operators & PF_TRACE_MINUS) != 0;
	if (at < LENGTH)
		return op <= LAST_ORDER || (op <= LAST_EQUALITY && operators & PF_TRACE_EQUALITY);
	if (at >= ADD && at < POWER)
		return (at - ADD) % OPERATORS == MODULO || operators >> (at - ADD) % OPERATORS & PF_TRACE_ADD;
	if (at == GLOBAL || (at >= FIRST_INDEX && at <= LAST_INDEX))
		return (operators & PF_TRACE_INDEX) != 0;
	if (at > 0 && at <= UPVALUE)
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

/* Copy n bytes at an address, before `end`. Returns 0 if they cannot be read. */
static inline int look(const struct pf_luajit_view *v, struct pf_trace_window *w, void *to, uint64_t at, size_t n, uint64_t end)
{
	if (at - w->from >= w->n || w->n - (at - w->from) < n) {
		w->from = at;
		w->n = end - at < sizeof w->bytes ? (size_t)(end - at) : sizeof w->bytes;
		if (!pf_luajit_read(v, w->bytes, at, w->n))
			w->n = 0;
		if (w->n < n)
			return pf_luajit_read(v, to, at, n);
	}
	memcpy(to, w->bytes + (at - w->from), n);
	return 1;
}

uint32_t pf_trace_window_instruction(const struct pf_luajit_view *v, const struct pf_luajit_function *f, struct pf_trace_window *w, uint64_t pc)
{
	uint32_t code;

	return look(v, w, &code, pc, sizeof code, f->code + (uint64_t)f->n * PF_LUAJIT_INSTRUCTION) ? pf_trace_original(v, pc, code) : 0;
}

static uint32_t line_at(const struct pf_luajit_view *v, const struct pf_luajit_function *f, struct pf_trace_window *w, uint64_t pc)
{
	const unsigned size = pf_luajit_line_size(f);
	const uint64_t at = pf_luajit_line_place(f, pc);
	uint32_t line = 0;

	if (!at)
		return pf_luajit_line(v, f, pc);
	return look(v, w, &line, at, size, f->lineinfo + ((uint64_t)f->n - 1) * size) ? f->first + line : 0;
}

static void add(const struct pf_luajit_view *v, struct pf_trace_walk *w, uint8_t op, uint32_t line)
{
	pf_trace_widen(&w->stretch.all, line);
	if (may_allocate(v->l, op))
		pf_trace_widen(&w->stretch.allocations, line);
	if (may_call(v, op))
		pf_trace_widen(&w->stretch.calls, line);
}

void pf_trace_walk_all(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to, struct pf_trace_walk *w)
{
	struct pf_trace_window codes = {.n = 0}, lines = {.n = 0};

	for (unsigned i = 0; i < PF_TRACE_WALK_MOST && from < to; i++, from += PF_LUAJIT_INSTRUCTION)
		add(v, w, pf_trace_window_instruction(v, f, &codes, from) & 0xff, line_at(v, f, &lines, from + PF_LUAJIT_INSTRUCTION));
}

/* Is an instruction a conditional jump? The compiler of Lua puts each jump of a condition after a comparison. */
static int is_branch(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc, uint32_t code)
{
	enum { LAST_COMPARISON = -23 };

	if ((code & 0xff) != v->l->op_jump)
		return pf_luajit_holds(f, pf_trace_jump(v->l, pc, code) + PF_LUAJIT_INSTRUCTION);
	pc -= PF_LUAJIT_INSTRUCTION;
	return pc > f->code && (int)(pf_trace_instruction(v, pc) & 0xff) - v->l->op_concatenate <= LAST_COMPARISON;
}

static int leads_to(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to);

enum { LOOPS_MOST = 4 * PF_TRACE_WALK_MOST /* instructions of the loops that a walk leaves */ };

/* Follow the code of f from an instruction on. Forward jumps are not taken, so both branches count. Unconditional backward jumps
 * are taken, and the first `back` conditional ones. If the code leaves a loop in which it began, all lines of the loop count: the
 * compiler unrolls short loops, and drops the exits that are not needed, so the loop may have run again. If several jumps have the
 * target, the walk passes `more` of them. It ends early at a jump that leads to the instruction `beyond`, or over it.
 *
 * Bytecode that no compiler has made may leave a loop at each instruction. So each instruction before the start is read only once, and
 * the walk gives up when there are too many. */
static struct pf_trace_walk follow(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum pf_trace_stop how,
				   uint64_t to, unsigned back, unsigned more, uint64_t beyond)
{
	const struct pf_luajit_layout *l = v->l;
	struct pf_trace_window codes = {.n = 0}, lines = {.n = 0};
	struct pf_trace_walk w = {.found = 0, .since = from};
	unsigned left = LOOPS_MOST;
	uint64_t first = from; /* from here to the start, all lines count */

	for (unsigned i = 0; i < PF_TRACE_WALK_MOST && pf_luajit_holds(f, from + PF_LUAJIT_INSTRUCTION); i++) {
		const uint32_t code = pf_trace_window_instruction(v, f, &codes, from);
		const uint8_t op = code & 0xff;
		const uint64_t next = from + PF_LUAJIT_INSTRUCTION, jump = pf_trace_jump(l, from, code);
		const enum pf_trace_work work = work_of(l, op);

		if (how == PF_TRACE_AT && from == to && i > 0) {
			w.found = 1;
			return w;
		}
		if (w.found && from == beyond)
			return w;
		add(v, &w, op, line_at(v, f, &lines, next));
		w.work = work > w.work ? work : w.work;
		w.last = from;
		if (how == PF_TRACE_AFTER && from == to) {
			w.found = 1;
			return w;
		}
		if (how == PF_TRACE_AFTER_JUMP_TO && (next == to || jump == to) && is_branch(v, f, from, code)) {
			w.found++;
			if (!more-- || next == beyond || jump == beyond || (jump < beyond && beyond < next))
				return w;
		}
		if (pf_trace_returns(l, op))
			return w;
		from = next;
		if (op == l->op_jump && jump > w.over && !is_branch(v, f, w.last, code))
			w.over = jump;
		if (jump <= f->code || jump >= next)
			continue;
		if (how == PF_TRACE_AFTER_JUMP_TO && w.found) {
			if (is_branch(v, f, w.last, code)) /* of the condition of an `if` that ends a loop */
				continue;
			return w;
		}
		if (op == l->op_jump || back > 0) {
			back -= op != l->op_jump;
			w.strays |= w.over > w.last && !leads_to(v, f, w.since, w.last);
			w.over = 0;
			w.since = from = jump;
		} else if (jump < first) {
			const uint64_t n = (first - jump) / PF_LUAJIT_INSTRUCTION;

			if (n > left) {
				w.found = 0;
				return w;
			}
			left -= (unsigned)n;
			for (uint64_t at = jump; at < first; at += PF_TRACE_WALK_MOST * PF_LUAJIT_INSTRUCTION)
				pf_trace_walk_all(v, f, at, first, &w);
			first = jump;
		}
	}
	return w;
}

/* --- all paths ---------------------------------------------------------------------------------------------------------- */

enum { REGION = 1024 /* instructions */, BITS = 64, PASSES_MOST = 8 };

/* A set of instructions of a function, by number. */
struct region {
	uint64_t bits[REGION / BITS];
};

static int has(const struct region *r, uint64_t i)
{
	return i < REGION && r->bits[i / BITS] >> i % BITS & 1;
}

static void include(struct region *r, uint64_t i)
{
	r->bits[i / BITS] |= 1ULL << i % BITS;
}

/* An instruction: up to two others that may follow it (0: none), and whether the walk ends there. */
struct step {
	uint64_t to[2];
	int ends;
	uint8_t op;
};

static struct step step_from(const struct pf_luajit_view *v, const struct pf_luajit_function *f, struct pf_trace_window *codes, uint64_t from,
			     enum pf_trace_stop how, uint64_t to)
{
	const struct pf_luajit_layout *l = v->l;
	const uint32_t code = pf_trace_window_instruction(v, f, codes, from);
	const uint64_t next = from + PF_LUAJIT_INSTRUCTION, jump = pf_trace_jump(l, from, code);
	struct step s = {.op = code & 0xff};
	const int branches = is_branch(v, f, from, code), returns = pf_trace_returns(l, s.op);

	if (!returns) {
		s.to[0] = branches || s.op != l->op_jump ? next : 0;
		s.to[1] = branches || s.op == l->op_jump ? jump : 0;
	}
	s.ends = (how == PF_TRACE_AT && (s.to[0] == to || s.to[1] == to)) || (how == PF_TRACE_AFTER && from == to) ||
		 (how == PF_TRACE_AFTER_JUMP_TO && branches && (next == to || jump == to)) || (how == PF_TRACE_AT_RETURN && returns);
	return s;
}

/* Follow all paths that go through the last instruction only once. `follow` does not find the way out of a loop whose only
 * exit is a jump that it does not take, such as one to the start of an outer loop. The walk gives up if a path
 * leaves the region: the REGION instructions from the function's first one on, or from REGION / 2 before the start. */
static struct pf_trace_walk follow_all(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum pf_trace_stop how,
				       uint64_t to)
{
	struct region reached = {{0}}, leading = {{0}};
	struct pf_trace_window codes = {.n = 0}, lines = {.n = 0};
	struct pf_trace_walk w = {.found = 0};
	const uint64_t before = (from - f->code) / PF_LUAJIT_INSTRUCTION, first = before < REGION / 2 ? before : REGION / 2;
	const uint64_t origin = from - first * PF_LUAJIT_INSTRUCTION;
	uint64_t lowest = first, highest = first;
	unsigned passes = 0; /* a backward jump may reach instructions that the pass has already gone by */
	int again = pf_luajit_holds(f, from + PF_LUAJIT_INSTRUCTION);

	if (again)
		include(&reached, first);
	while (again && passes++ < PASSES_MOST) {
		again = 0;
		for (uint64_t i = lowest; i <= highest; i++) {
			struct step s;

			if (!has(&reached, i))
				continue;
			s = step_from(v, f, &codes, origin + i * PF_LUAJIT_INSTRUCTION, how, to);
			for (unsigned j = 0; j < 2 && !(s.ends && how != PF_TRACE_AT); j++) {
				const uint64_t target = (s.to[j] - origin) / PF_LUAJIT_INSTRUCTION;

				if (s.to[j] <= f->code || !pf_luajit_holds(f, s.to[j] + PF_LUAJIT_INSTRUCTION) || (how == PF_TRACE_AT && s.to[j] == to) ||
				    has(&reached, target))
					continue;
				if (target >= REGION)
					return w;
				include(&reached, target);
				again |= target < i;
				lowest = target < lowest ? target : lowest;
				highest = target > highest ? target : highest;
			}
		}
	}
	if (again)
		return w;
	for (again = 1, passes = 0; again && passes++ < PASSES_MOST;) {
		again = 0;
		for (uint64_t i = highest + 1; i-- > lowest;) {
			const uint64_t at = origin + i * PF_LUAJIT_INSTRUCTION;
			struct step s;
			int leads;

			if (!has(&reached, i) || has(&leading, i))
				continue;
			s = step_from(v, f, &codes, at, how, to);
			leads = s.ends || how == PF_TRACE_AT_RETURN; /* there may be no return, but an endless loop */
			for (unsigned j = 0; j < 2; j++)
				leads |= s.to[j] && has(&leading, (s.to[j] - origin) / PF_LUAJIT_INSTRUCTION);
			if (!leads)
				continue;
			include(&leading, i);
			again = 1;
			add(v, &w, s.op, line_at(v, f, &lines, at + PF_LUAJIT_INSTRUCTION));
			w.work = work_of(v->l, s.op) > w.work ? work_of(v->l, s.op) : w.work;
			if (s.ends)
				w.last = at;
		}
	}
	w.found = !again && has(&leading, first);
	return w;
}

/* Follow the code up to all the returns that it may reach, also those in the middle of the function. If that walk gives up, the lines are
 * those of the whole function. */
static struct pf_trace_walk follow_to_returns(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from)
{
	struct pf_trace_walk w = follow_all(v, f, from, PF_TRACE_AT_RETURN, 0);

	if (w.found || !f->lineinfo || !pf_luajit_holds(f, from + PF_LUAJIT_INSTRUCTION))
		return w;
	w.stretch.all = pf_trace_all_lines(f);
	w.stretch.calls = w.stretch.allocations = w.stretch.all;
	return w;
}

/* Does the code lead from an instruction to a later one without going back? */
static int leads_to(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to)
{
	struct region reached = {{1}};
	struct pf_trace_window codes = {.n = 0};
	const uint64_t n = (to - from) / PF_LUAJIT_INSTRUCTION;

	if (n >= REGION)
		return 1;
	for (uint64_t i = 0; i < n; i++) {
		struct step s;

		if (!has(&reached, i))
			continue;
		s = step_from(v, f, &codes, from + i * PF_LUAJIT_INSTRUCTION, PF_TRACE_AT, to);
		for (unsigned j = 0; j < 2; j++) {
			const uint64_t target = (s.to[j] - from) / PF_LUAJIT_INSTRUCTION;

			if (s.to[j] > from && target <= n)
				include(&reached, target);
		}
	}
	return has(&reached, n);
}

/* Finish a walk. If it has passed a jump over its end, the code may lead there only by another way that goes back: by a `goto`, or around a
 * loop. Then the lines of all ways count. */
static struct pf_trace_walk with_ways_back(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum pf_trace_stop how,
					   uint64_t to, struct pf_trace_walk w)
{
	const uint64_t end = how == PF_TRACE_AT ? to : w.last;
	struct pf_trace_walk all;

	if (!w.found || (!w.strays && (w.over <= end || leads_to(v, f, w.since, end))))
		return w;
	all = follow_all(v, f, from, how == PF_TRACE_AT ? how : PF_TRACE_AFTER, end);
	if (!all.found) {
		w.found = 0;
		return w;
	}
	pf_trace_add_walk(&w, &all);
	return w;
}

struct pf_trace_walk pf_trace_walk(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, enum pf_trace_stop how, uint64_t to)
{
	struct pf_trace_walk w, all;

	if (how == PF_TRACE_AT_RETURN)
		return follow_to_returns(v, f, from);
	for (unsigned back = 0; back < 2; back++) {
		w = follow(v, f, from, how, to, back, 0, 0);
		if (w.found)
			return with_ways_back(v, f, from, how, to, w);
	}
	all = follow_all(v, f, from, how, to);
	return all.found ? all : w;
}

unsigned pf_trace_jumps_to(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t to, uint64_t jumps[PF_TRACE_JUMPS_MOST])
{
	struct pf_trace_window codes = {.n = 0};
	unsigned n = 0;
	const uint64_t here = (to - f->code) / PF_LUAJIT_INSTRUCTION;
	const uint64_t end = here + PF_TRACE_JUMPS_REACH < f->n ? here + PF_TRACE_JUMPS_REACH : f->n;

	if (!pf_luajit_holds(f, to))
		return 0;
	for (uint64_t i = here > PF_TRACE_JUMPS_REACH ? here - PF_TRACE_JUMPS_REACH : 1; i < end; i++) {
		const uint64_t pc = f->code + i * PF_LUAJIT_INSTRUCTION;
		const uint32_t code = pf_trace_window_instruction(v, f, &codes, pc);

		if ((pc + PF_LUAJIT_INSTRUCTION != to && pf_trace_jump(v->l, pc, code) != to) || !is_branch(v, f, pc, code))
			continue;
		if (n == PF_TRACE_JUMPS_MOST)
			return 0;
		jumps[n++] = pc;
	}
	return n;
}

struct pf_trace_walk pf_trace_walk_to_jump(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t from, uint64_t to,
					   uint64_t beyond, unsigned more)
{
	enum { TRIES_MOST = 8 };
	int tries = 0;

	for (unsigned back = 0; back < 2; back++) {
		const int n = follow(v, f, from, PF_TRACE_AFTER_JUMP_TO, to, back, PF_TRACE_WALK_MOST, beyond).found;

		/* The walk also passes the other branch of an `if`, where the code does not come to the jumps. So another jump is
		 * tried if there is no way from this one. Hostile bytecode may have many. */
		for (int at = n > (int)more ? n - (int)more : 1; at > 0 && at <= n && tries++ < TRIES_MOST; at--) {
			struct pf_trace_walk w = follow(v, f, from, PF_TRACE_AFTER_JUMP_TO, to, back, (unsigned)at - 1, beyond);

			w = with_ways_back(v, f, from, PF_TRACE_AFTER_JUMP_TO, to, w);
			if (w.found)
				return w;
		}
	}
	return follow_all(v, f, from, PF_TRACE_AFTER_JUMP_TO, to);
}

/* Finds the place of a call in compiled code, while the called function runs.
 *
 * A trace of a loop has its body twice: the first iteration as it was recorded, and a copy for the others. While it copies, the
 * compiler drops each snapshot after which no code can exit, so a stretch of the copy may go on in other functions than its
 * snapshot's: that of the last call in the body, for example. The recorded body has a snapshot near each of its calls, and
 * instructions with side effects are copied in their order, so the call in the copy is found in the recorded body by its number.
 * Marks of new lines are copied too. Between two of them, all calls are on one line. */
#include "core/stack/unwind_trace_walk.h"

enum { READ_AT_ONCE = 64, IR_MOST = 1 << 12, CALLS_MOST = 8 };

/* Opcodes that call functions, counted from that of an empty table. */
enum { FIRST_STRING = -2, LAST_C_DATA = 3, BUFFER_STRING = 6, NUMBER_STRING = 12, FIRST_CALL = 14, LAST_CALL = 18, KINDS = LAST_CALL - FIRST_STRING + 1 };

struct ir_call {
	unsigned kind;
	uint32_t number; /* its index among the calls of its kind in the loop's copy */
	uint32_t ref;    /* its reference in the recorded body */
};

struct ir_calls {
	uint32_t recorded[KINDS], copied[KINDS]; /* how many calls of each kind */
	struct ir_call at[CALLS_MOST];           /* the calls in the stretch */
	unsigned n;
};

/* The kind of call that the instruction makes; KINDS if it makes none. */
static unsigned kind_of(const struct pf_luajit_layout *l, uint64_t instruction)
{
	const int op = (int)pf_trace_ir_op(instruction) - l->ir_table;

	if ((op >= FIRST_STRING && op <= LAST_C_DATA && !pf_trace_ir_is_sunk(instruction)) || op == BUFFER_STRING || op == NUMBER_STRING ||
	    (op >= FIRST_CALL && op <= LAST_CALL))
		return (unsigned)(op - FIRST_STRING);
	return KINDS;
}

/* Count the calls before and in the loop's copy, and list those between two references. If the list is there, find the recorded
 * calls of the same numbers instead. */
static int look(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t loop, uint32_t first, uint32_t end, uint32_t last, struct ir_calls *c)
{
	uint64_t words[READ_AT_ONCE];
	const unsigned listed = c->n;
	uint32_t seen[KINDS] = {0};

	for (uint32_t ref = PF_TRACE_IR_BIAS; ref < last; ref++) {
		const uint32_t i = (ref - PF_TRACE_IR_BIAS) % READ_AT_ONCE, left = last - ref;
		unsigned kind;

		if (i == 0 && !pf_luajit_read(v, words, t->ir + (uint64_t)ref * PF_TRACE_IR_SIZE, (left < READ_AT_ONCE ? left : READ_AT_ONCE) * sizeof *words))
			return 0;
		kind = kind_of(v->l, words[i]);
		if (kind == KINDS)
			continue;
		if (listed) {
			for (unsigned j = 0; j < listed; j++)
				if (c->at[j].kind == kind && c->at[j].number == seen[kind])
					c->at[j].ref = ref;
			seen[kind]++;
			continue;
		}
		if (ref >= first && ref < end) {
			if (c->n == CALLS_MOST)
				return 0;
			c->at[c->n].kind = kind;
			c->at[c->n++].number = c->copied[kind];
		}
		if (ref < loop)
			c->recorded[kind]++;
		else
			c->copied[kind]++;
	}
	return 1;
}

uint32_t pf_trace_snapshot_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t n, uint32_t ref)
{
	uint32_t low = 0, high = n;
	struct pf_snapshot s;

	while (high - low > 1) {
		const uint32_t middle = (low + high) / 2;

		if (!pf_trace_read_snapshot(v, t, middle, &s))
			return 0;
		if (s.ref <= ref)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Does a mark of a new line begin or precede the code at the offset? Then the calls up to the next mark are on one line. */
static int marked(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t offset)
{
	unsigned char code[2 * PF_TRACE_MARK];

	return offset >= PF_TRACE_MARK && offset + PF_TRACE_MARK <= t->code_size &&
	       pf_luajit_read(v, code, t->code + offset - PF_TRACE_MARK, sizeof code) && (pf_trace_is_mark(code) || pf_trace_is_mark(code + PF_TRACE_MARK));
}

uint32_t pf_trace_recorded_call(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, uint64_t offset)
{
	const uint32_t loop = t->loop ? pf_trace_snapshot_at(v, t, t->loop) : t->snapshots_n;
	const uint32_t last = (uint32_t)((t->snapshots - t->ir) / PF_TRACE_IR_SIZE);
	struct ir_calls calls = {.n = 0};
	struct pf_snapshot copy, s, next = {.ref = last};
	uint32_t begins, ends = t->code_size, recorded;
	unsigned at;
	int marks;

	if (!v->l->ir_table || k < loop || loop == 0 || last < PF_TRACE_IR_BIAS || last - PF_TRACE_IR_BIAS > IR_MOST ||
	    !pf_trace_read_snapshot(v, t, loop, &copy) || !pf_trace_read_snapshot(v, t, k, &s) || !pf_trace_offset(v, t, k, &begins) ||
	    (k + 1 < t->snapshots_n && (!pf_trace_read_snapshot(v, t, k + 1, &next) || !pf_trace_offset(v, t, k + 1, &ends))))
		return k;
	marks = pf_trace_between_marks(v, t, copy.ref, k, offset, &s.ref, &next.ref);
	if (!look(v, t, copy.ref, s.ref, next.ref, last, &calls) || !calls.n)
		return k;
	for (unsigned i = 0; i < calls.n; i++)
		if (calls.recorded[calls.at[i].kind] != calls.copied[calls.at[i].kind])
			return k;
	if (!look(v, t, copy.ref, s.ref, next.ref, copy.ref, &calls))
		return k;
	recorded = pf_trace_snapshot_of(v, t, loop, calls.at[0].ref);
	if (recorded == pf_trace_snapshot_of(v, t, loop, calls.at[calls.n - 1].ref) || marks > 0 || (marks == 0 && marked(v, t, begins)))
		return recorded;
	at = pf_trace_call_number(v, t, begins, ends, offset, calls.n);
	return at < calls.n ? pf_trace_snapshot_of(v, t, loop, calls.at[at].ref) : k;
}

/* The metamethod's name is a constant of the trace, which has compared the metamethod in the operand's metatable. */
unsigned pf_trace_operators(const struct pf_luajit_view *v, const struct pf_trace *t)
{
	enum { CONSTANTS_MOST = 1 << 11, OBJECT = 24, STRING = 4, TYPE = 0x1f, TEXT_MOST = 6 };
	static const struct {
		char name[TEXT_MOST];
		unsigned char operator;
	} names[] = {{"__add", PF_TRACE_ADD},    {"__sub", PF_TRACE_SUBTRACT}, {"__mul", PF_TRACE_MULTIPLY},
		     {"__div", PF_TRACE_DIVIDE}, {"__unm", PF_TRACE_MINUS},    {"__eq", PF_TRACE_EQUALITY}};
	const uint32_t n = PF_TRACE_IR_BIAS - t->ir_low;
	uint64_t words[READ_AT_ONCE];
	uint32_t from = 0, end = 0;
	unsigned found = 0;

	for (uint32_t i = 0; i + 1 < n && i < CONSTANTS_MOST; i++) {
		char text[TEXT_MOST];

		if (i + 1 >= end) {
			from = i;
			end = n - i < READ_AT_ONCE ? n : i + READ_AT_ONCE;
			if (!pf_luajit_read(v, words, t->ir + ((uint64_t)t->ir_low + i) * PF_TRACE_IR_SIZE, (end - from) * sizeof *words))
				return 0;
		}
		if (pf_trace_ir_op(words[i - from]) != OBJECT || (words[i - from] >> 32 & TYPE) != STRING ||
		    !pf_luajit_read(v, text, words[i - from + 1] + v->l->string_text, sizeof text))
			continue;
		for (unsigned j = 0; j < sizeof names / sizeof *names; j++)
			if (memcmp(text, names[j].name, strlen(names[j].name) + 1) == 0)
				found |= names[j].operator;
		i++; /* the object itself is where the next one would be */
	}
	return found;
}

/* Does a function have a tail call? A function that is too long is taken to have one. *left: how many more instructions may be examined. */
static int has_tail_call(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint32_t *left)
{
	struct pf_trace_window codes = {.n = 0};

	for (uint32_t i = 1; i < f->n; i++) {
		const uint8_t op = pf_trace_window_instruction(v, f, &codes, f->code + (uint64_t)i * PF_LUAJIT_INSTRUCTION) & 0xff;

		if ((op >= v->l->op_tailcall_first && op <= v->l->op_tailcall_last) || !(*left)--)
			return 1;
	}
	return 0;
}

int pf_trace_may_tail_call(const struct pf_luajit_view *v, const struct pf_trace *t)
{
	enum { CONSTANTS_MOST = 1 << 9, INSTRUCTIONS_MOST = 1 << 10, OBJECT = 24, POINTER = 25, PROTOTYPE = 7, FUNCTION = 8, TYPE = 0x1f };
	const uint32_t n = PF_TRACE_IR_BIAS - t->ir_low;
	uint32_t left = INSTRUCTIONS_MOST;

	for (uint32_t i = 0; i + 1 < n; i++) {
		const uint64_t at = t->ir + ((uint64_t)t->ir_low + i) * PF_TRACE_IR_SIZE, word = pf_luajit_word(v, at);
		const unsigned type = word >> 32 & TYPE;
		struct pf_luajit_function f = {.id = 1};
		uint64_t value;

		if (i == CONSTANTS_MOST)
			return 1;
		if (pf_trace_ir_op(word) != OBJECT && pf_trace_ir_op(word) != POINTER)
			continue;
		value = pf_luajit_word(v, at + PF_TRACE_IR_SIZE);
		i++; /* the value itself is where the next constant would be */
		if (pf_trace_ir_op(word) == POINTER || type == PROTOTYPE)
			value += type == PROTOTYPE ? v->l->prototype_end : 0;
		else if (type != FUNCTION)
			continue;
		if ((type == FUNCTION ? pf_luajit_object(v, value, &f) : pf_luajit_function_of_code(v, value, &f)) && !f.id && has_tail_call(v, &f, &left))
			return 1;
	}
	return 0;
}

int pf_trace_function_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_trace_slots *slots, uint64_t base,
			 const struct pf_snapshot *s, struct pf_luajit_function *f)
{
	const uint64_t pc = s->pc + PF_LUAJIT_INSTRUCTION;

	if (s->base == 2 && !pf_trace_knows(slots, 0) && pf_luajit_function_at(v, base, f) && pf_luajit_holds(f, pc))
		return 1;
	return pf_trace_function(v, t, pf_trace_knows(slots, s->base - 2), pf_trace_value(v, slots, s->base - 2), pc, f) && !f->id;
}

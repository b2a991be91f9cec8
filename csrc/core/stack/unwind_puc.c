/* PUC Lua 5.1 to 5.4.
 *
 * Which thread runs: each protected call, and each resumption, has a lua_longjmp on the C stack, to which its lua_State points.
 * The running thread's is the lowest one above the stack pointer. Its lua_State is in a register, or in a word of the C stack. A
 * thread that has resumed another one is in a C function; so a thread in a Lua function is the running one. */
#include "core/stack/unwind_puc.h"

#include <string.h>

#include "core/stack/sampling.h"

enum {
	MOST_WORDS = 1536, /* of the C stack, until a thread is found; a luaL_Buffer has up to 1,024 */
	MORE_WORDS = 1024, /* after that, until one that it has resumed is found */
	PC_WORDS = 512,
	CHUNK = 32,
	MOST_FIELDS = 192, /* bytes that are read of a structure */
	MOST_NESTED = 256, /* protected calls, or threads, one in another */
	INSTRUCTION = 4,
	GUESSES = 64, /* instructions between two of which the line is known */
};

static const uint64_t REACH = 64u << 20; /* of a C stack */
static const uint64_t NEAR = UINT64_C(1) << 32;
static const uint64_t UNPROTECTED = UINT64_MAX;

struct unwinder {
	const struct pf_puc_layout *l;
	const struct pf_registers *r;
	const struct pf_memory *m;
	struct pf_unwound *u;
	uint64_t global;
	int stopped;
	/* Some words of the C stack. */
	uint64_t words_at;
	unsigned words;
	uint8_t bytes[CHUNK * 8];
};

struct thread {
	uint64_t at, ci, base, stack;
	uint64_t error; /* the innermost lua_longjmp */
	int in_lua;     /* its innermost function is a Lua function */
};

/* A function on the stack, its prototype or code. */
struct call {
	struct pf_place place;
	uint64_t previous, pc;
};

static uint64_t word(const struct unwinder *w, const uint8_t *bytes, unsigned offset)
{
	uint32_t narrow;
	uint64_t wide;

	if (w->l->pointer == sizeof narrow) {
		memcpy(&narrow, bytes + offset, sizeof narrow);
		return narrow;
	}
	memcpy(&wide, bytes + offset, sizeof wide);
	return wide;
}

static uint32_t number(const uint8_t *bytes, unsigned offset)
{
	uint32_t v;

	memcpy(&v, bytes + offset, sizeof v);
	return v;
}

static int copy(const struct unwinder *w, void *to, uint64_t address, size_t n)
{
	return w->m->read(w->m, to, address, n);
}

/* A pointer; 0 if it cannot be read. */
static uint64_t pointer_at(const struct unwinder *w, uint64_t address)
{
	uint8_t bytes[8];

	return copy(w, bytes, address, w->l->pointer) < 0 ? 0 : word(w, bytes, 0);
}

static unsigned byte_at(const struct unwinder *w, uint64_t address)
{
	uint8_t byte;

	return copy(w, &byte, address, 1) < 0 ? UINT8_MAX + 1u : byte;
}

/* A word of the C stack. Returns 0 or -EFAULT. */
static int stack_word(struct unwinder *w, uint64_t address, uint64_t *v)
{
	const unsigned size = w->l->pointer;
	const uint64_t at = address - w->words_at, end = (uint64_t)w->words * size;

	if (at >= end || at + size > end) { /* a damaged address need not be aligned */
		w->words_at = address;
		w->words = CHUNK;
		/* The last words of a stack are fewer. */
		while (copy(w, w->bytes, address, w->words * size) < 0)
			if ((w->words /= 2) == 0)
				return -1;
	}
	*v = word(w, w->bytes, (unsigned)(address - w->words_at));
	return 0;
}

/* --- functions ------------------------------------------------------------------------------------------------------ */

/* The function of a call. Returns an enum pf_unwind_failure; PF_UNWIND_BROKEN if its function is not one. */
static int function(const struct unwinder *w, uint64_t func, struct pf_place *place)
{
	const struct pf_puc_layout *l = w->l;
	uint8_t bytes[16];
	uint64_t object;
	unsigned kind;

	if (copy(w, bytes, func, l->value.tag + 1u) < 0)
		return PF_UNWIND_UNREADABLE;
	object = word(w, bytes, 0);
	memset(place, 0, sizeof *place);
	place->kind = PF_PLACE_C;
	if (bytes[l->value.tag] == l->value.light && l->value.light != l->value.lua) {
		place->function = object;
		return PF_UNWIND_COMPLETE;
	}
	if (bytes[l->value.tag] != l->value.lua && bytes[l->value.tag] != l->value.c)
		return PF_UNWIND_BROKEN;
	kind = byte_at(w, object + l->closure.kind);
	if (kind != l->closure.c && kind != l->closure.lua)
		return kind > UINT8_MAX ? PF_UNWIND_UNREADABLE : PF_UNWIND_BROKEN;
	if (kind == l->closure.lua)
		place->kind = PF_PLACE_LUA;
	place->function = pointer_at(w, object + (kind == l->closure.c ? l->closure.code : l->closure.proto));
	return place->function ? PF_UNWIND_COMPLETE : PF_UNWIND_UNREADABLE;
}

static int read_call(const struct unwinder *w, const struct thread *t, uint64_t ci, struct call *c)
{
	const struct pf_puc_layout *l = w->l;
	uint8_t bytes[MOST_FIELDS];
	uint64_t func;

	c->previous = 0;
	if (copy(w, bytes, ci, l->call.size) < 0)
		return PF_UNWIND_UNREADABLE;
	func = word(w, bytes, l->call.func);
	if (l->relative && func < t->stack)
		func += t->stack;
	c->pc = word(w, bytes, l->call.pc);
	c->previous = l->call.previous == PF_PUC_NONE ? ci - l->call.size : word(w, bytes, l->call.previous);
	return function(w, func, &c->place);
}

/* --- lines ---------------------------------------------------------------------------------------------------------- */

/* The line of an instruction where only the differences are kept: from the last one that is known. 0: unknown. */
static uint32_t add_up(const struct unwinder *w, const uint8_t *proto, uint32_t index)
{
	const struct pf_puc_layout *l = w->l;
	const uint64_t steps = word(w, proto, l->proto.steps);
	uint64_t known = word(w, proto, l->proto.known);
	uint32_t n = number(proto, l->proto.n_known), line = number(proto, l->proto.linedefined), from = 0, pair[2];
	int8_t step[GUESSES];

	for (uint32_t low = 0; low < n;) { /* the last pair whose instruction is not after ours */
		const uint32_t middle = low + (n - low) / 2;

		if (copy(w, pair, known + (uint64_t)middle * sizeof pair, sizeof pair) < 0)
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

		if (copy(w, step, steps + from, some) < 0)
			return 0;
		for (uint32_t i = 0; i < some; i++)
			line = (uint32_t)((int32_t)line + step[i]);
		from += some;
	}
	return line;
}

static uint32_t line_of(const struct unwinder *w, const uint8_t *proto, uint64_t pc)
{
	const struct pf_puc_layout *l = w->l;
	const uint64_t code = word(w, proto, l->proto.code);
	const uint32_t a = number(proto, l->proto.counts[0]), b = number(proto, l->proto.counts[1]);
	const uint64_t next = (pc - code) / INSTRUCTION;
	/* The pc is of the next instruction; before the first one there is none. */
	const uint32_t index = next ? (uint32_t)(next - 1) : 0;
	uint32_t line;

	if (pc < code || index >= a || index >= b) /* a stripped function has no lines */
		return 0;
	if (l->proto.lines == PF_PUC_NONE)
		return word(w, proto, l->proto.steps) ? add_up(w, proto, index) : 0;
	if (copy(w, &line, word(w, proto, l->proto.lines) + (uint64_t)index * sizeof line, sizeof line) < 0)
		return 0;
	return line;
}

static int is_instruction(uint64_t v, uint64_t first, uint32_t n)
{
	return v - first < (uint64_t)n * INSTRUCTION && (v - first) % INSTRUCTION == 0;
}

/* The first register that called functions keep, and that is one of n addresses of instructions from `first` on. Returns 0 if there is
 * none. */
static int find_kept_pc(const struct unwinder *w, uint64_t first, uint32_t n, uint64_t *pc)
{
	for (unsigned i = 0; i < PF_REGISTERS && w->r->kept >> i; i++)
		if ((w->r->kept >> i & 1) && is_instruction(w->r->general[i], first, n)) {
			*pc = w->r->general[i];
			return 1;
		}
	return 0;
}

/* The same of all registers, or else of the words of the C stack. */
static int find_pc(struct unwinder *w, const struct thread *t, uint64_t first, uint32_t n, uint64_t *pc)
{
	const unsigned registers = w->r->n < PF_REGISTERS ? w->r->n : PF_REGISTERS;

	for (unsigned i = 0; i < registers + PC_WORDS; i++) {
		const uint64_t at = w->r->sp + (uint64_t)(i - registers) * w->l->pointer;

		if (i < registers)
			*pc = w->r->general[i];
		else if (at >= t->error || stack_word(w, at, pc) < 0)
			break;
		if (is_instruction(*pc, first, n))
			return 1;
	}
	return 0;
}

/* The pc of the innermost function: of the instruction after the one that runs. */
static uint64_t live_pc(struct unwinder *w, const struct thread *t, const uint8_t *proto, uint64_t saved)
{
	const struct pf_puc_layout *l = w->l;
	const uint32_t a = number(proto, l->proto.counts[0]), b = number(proto, l->proto.counts[1]), n = a > b ? a : b;
	const uint64_t code = word(w, proto, l->proto.code);
	const uint64_t first = l->local_pc == PF_PUC_NEXT ? code + INSTRUCTION : code;
	uint64_t pc, after;

	if (saved - code > (uint64_t)n * INSTRUCTION) /* the call begins: it is still the caller's */
		saved = code;
	if (l->local_pc == PF_PUC_SAVED)
		return saved;
	/* The interpreter's loop may keep an older pc on the C stack, but its register is live until a helper needs that one. Such a helper
	 * may raise an error, so it is called with the pc saved. Then the words of older calls do not matter. */
	if (!find_kept_pc(w, first, n, &pc)) {
		if (find_pc(w, t, saved, 1, &pc))
			return saved;
		if (!find_pc(w, t, first, n, &pc))
			return saved;
	}
	if (l->local_pc == PF_PUC_CURRENT)
		return pc + INSTRUCTION;
	if (l->local_pc == PF_PUC_BOTH && find_pc(w, t, pc + INSTRUCTION, 1, &after))
		return after;
	return pc;
}


/* Find the text and the length of a chunk's name. */
static void name(const struct unwinder *w, uint64_t string, struct pf_place *place)
{
	const struct pf_puc_layout *l = w->l;

	place->source_size = 0;
	if (!string)
		return;
	if (l->string.kind != PF_PUC_NONE && byte_at(w, string + l->string.kind) == l->string.is_short)
		place->source_size = byte_at(w, string + l->string.short_size) & UINT8_MAX;
	else
		place->source_size = (uint32_t)pointer_at(w, string + l->string.size);
	place->source = string + l->string.text;
}

/* A Lua function's place. live: it is the innermost one. */
static int lua_place(struct unwinder *w, const struct thread *t, struct call *c, int live)
{
	const struct pf_puc_layout *l = w->l;
	uint8_t proto[MOST_FIELDS];

	if (copy(w, proto, c->place.function, l->proto.size) < 0)
		return PF_UNWIND_UNREADABLE;
	if (live && l->thread.pc != PF_PUC_NONE)
		c->pc = pointer_at(w, t->at + l->thread.pc);
	if (live)
		c->pc = live_pc(w, t, proto, c->pc);
	c->place.linedefined = (int32_t)number(proto, l->proto.linedefined);
	c->place.line = c->place.end = line_of(w, proto, c->pc);
	name(w, word(w, proto, l->proto.source), &c->place);
	return PF_UNWIND_COMPLETE;
}

/* --- threads -------------------------------------------------------------------------------------------------------- */

/* Can it be the address of a thread? A read that faults takes a thousand times as long as one that does not; so we read only near
 * the global state, and near the C stack, where memory is mapped. A word may have half of an old pointer. */
static int may_be_thread(const struct unwinder *w, uint64_t x)
{
	const uint64_t global = w->global;

	if (x % w->l->pointer != 0 || (uint32_t)x == 0)
		return 0;
	if (x - global + NEAR < 2 * NEAR || (x ^ w->r->sp) >> 40 == 0)
		return 1;
	return global >> 40 != 0 && (x ^ global) >> 44 == 0; /* an allocator may have a region for each size */
}

/* Is x a thread of our state that is in a call, of which some of the C stack is above an address? */
static int is_active(const struct unwinder *w, uint64_t x, uint64_t above, struct thread *t)
{
	const struct pf_puc_layout *l = w->l;
	struct call c;

	if (!may_be_thread(w, x) || pointer_at(w, x + l->thread.global) != w->global ||
	    byte_at(w, x + l->thread.type) != l->thread.is_thread)
		return 0;
	t->at = x;
	t->error = pointer_at(w, x + l->thread.error);
	/* A host may call Lua unprotected. A coroutine that has yielded or failed has no lua_longjmp either, but a status. */
	if (t->error == 0 && byte_at(w, x + l->thread.status) == 0)
		t->error = UNPROTECTED;
	else if (t->error <= above || t->error - above > REACH)
		return 0;
	t->ci = pointer_at(w, x + l->thread.ci);
	t->base = l->call.previous != PF_PUC_NONE ? x + l->thread.base : pointer_at(w, x + l->thread.base);
	if (t->ci == 0 || t->ci == t->base)
		return 0;
	t->stack = l->relative ? pointer_at(w, x + l->thread.stack) : 0;
	t->in_lua = read_call(w, t, t->ci, &c) == PF_UNWIND_COMPLETE && c.place.kind == PF_PLACE_LUA;
	return 1;
}

static int consider(const struct unwinder *w, uint64_t x, uint64_t above, struct thread *best)
{
	struct thread t;

	if (x == best->at || !is_active(w, x, above, &t) || (best->at && t.error >= best->error))
		return 0;
	*best = t;
	return 1;
}

/* Look for a thread in the words of the C stack from an address on. */
static void scan(struct unwinder *w, uint64_t from, unsigned most, struct thread *best)
{
	uint64_t v, before = 0;

	for (unsigned i = 0; i < most; i++) {
		const uint64_t at = from + (uint64_t)i * w->l->pointer;

		/* One that this thread has resumed has words below the lua_longjmp of this one. */
		if (best->at && at >= best->error)
			return;
		if (stack_word(w, at, &v) < 0)
			return;
		if (v == before)
			continue;
		before = v;
		if (consider(w, v, from, best)) {
			if (best->in_lua)
				return;
			if (most > i + MORE_WORDS)
				most = i + MORE_WORDS;
		}
	}
}

/* The running thread; at = 0 if there is none. */
static void find(struct unwinder *w, struct thread *best)
{
	const uint64_t sp = w->r->sp;

	best->at = 0;
	for (unsigned i = 0; i < w->r->n && i < PF_REGISTERS; i++)
		consider(w, w->r->general[i], sp, best);
	if (!best->at || !best->in_lua)
		scan(w, sp, best->at ? MORE_WORDS : MOST_WORDS, best);
	/* A C function may have more words of its own on the C stack than we look at. */
	if (!best->at && w->l->main != PF_PUC_NONE)
		consider(w, pointer_at(w, w->global + w->l->main), sp, best);
}

/* The thread that resumed t; at = 0 if none did. */
static void find_resumer(struct unwinder *w, const struct thread *t, struct thread *best)
{
	uint64_t outermost = t->error, outer;

	best->at = 0;
	if (outermost == UNPROTECTED || (w->l->main != PF_PUC_NONE && t->at == pointer_at(w, w->global + w->l->main)))
		return;
	for (unsigned i = 0; i < MOST_NESTED && (outer = pointer_at(w, outermost + w->l->previous)) > outermost &&
			     outer - outermost < REACH;
	     i++)
		outermost = outer;
	scan(w, outermost, MOST_WORDS, best);
}

static int emit(struct unwinder *w, const struct pf_place *place)
{
	struct pf_unwound *u = w->u;

	if (u->n >= PF_UNWIND_DEEPEST) {
		u->failed = PF_UNWIND_DEEP;
		return 1;
	}
	u->n++;
	w->stopped = u->found(u->to, place);
	return w->stopped;
}

/* All functions of a thread. Returns 0, or 1 if the unwinding has ended. */
static int walk(struct unwinder *w, const struct thread *t)
{
	struct pf_unwound *u = w->u;
	uint64_t ci = t->ci;
	int skipped = 0;

	for (unsigned i = 0; ci != t->base; i++) {
		struct call c;
		int failed = read_call(w, t, ci, &c);

		if (i > PF_UNWIND_DEEPEST)
			failed = PF_UNWIND_DEEP;
		if (failed == PF_UNWIND_COMPLETE && c.place.kind == PF_PLACE_LUA)
			failed = lua_place(w, t, &c, i == 0);
		/* The call begins, or its results are over its function already: perhaps only the value, which need not be an address. An
		 * error that is caught puts its message over the function that was called in protected mode. */
		if ((failed == PF_UNWIND_BROKEN || failed == PF_UNWIND_UNREADABLE) && c.previous && !skipped) {
			skipped = 1;
			ci = c.previous;
			continue;
		}
		if (failed != PF_UNWIND_COMPLETE) {
			u->failed = failed;
			return 1;
		}
		if (u->n == 0 && c.place.kind == PF_PLACE_C)
			u->state = PF_AT_C;
		c.place.thread = t->at;
		if (emit(w, &c.place))
			return 1;
		ci = c.previous;
	}
	return 0;
}

void pf_unwind_puc(const struct pf_puc_layout *l, uint64_t global, const struct pf_registers *r, const struct pf_memory *m,
		   struct pf_unwound *u)
{
	struct unwinder w = {.l = l, .r = r, .m = m, .u = u, .global = global};
	struct thread t, resumer;

	u->state = PF_OUTSIDE;
	u->failed = PF_UNWIND_COMPLETE;
	u->n = 0;
	find(&w, &t);
	if (!t.at)
		return;
	u->state = PF_AT_LUA;
	for (unsigned i = 0; i < MOST_NESTED && !walk(&w, &t); i++) {
		find_resumer(&w, &t, &resumer);
		if (!resumer.at)
			return;
		t = resumer;
	}
}

/* The unwinder for PUC Lua 5.1 to 5.4: finds the running thread, and the functions of all threads. unwind_puc_lines.c finds the line of
 * the innermost function, c_frames.c the frames of C functions that it needs for this.
 *
 * To find the running thread: each protected call, and each resumption, has a lua_longjmp on the C stack, to which its lua_State
 * points. The running thread has the lowest one above the stack pointer, and its lua_State is in a register or in a word of the C
 * stack. A thread that has resumed another one is in a C function, so a thread in a Lua function is the running one. */
#include "core/stack/sampling.h"
#include "core/stack/unwind_puc_internal.h"

enum {
	MOST_WORDS = 1536, /* words of the C stack to search for the first thread; a luaL_Buffer has up to 1,024 */
	MORE_WORDS = 1024, /* words to search for each further thread */
	MOST_NESTED = 256, /* nested protected calls, or nested threads */
};

static const uint64_t REACH = 64u << 20; /* bytes of a C stack */
static const uint64_t UNPROTECTED = UINT64_MAX;

/* A function on the stack, its prototype or code. */
struct call {
	struct pf_place place;
	uint64_t previous, pc;
	uint64_t func; /* the function's place on the Lua stack */
};

int pf_puc_look_at_stack(struct pf_puc_unwinder *w, uint64_t address)
{
	const unsigned pointer = w->l->pointer;
	const uint64_t stack_end = w->r ? w->r->stack_end : 0; /* a learner has no registers */
	size_t n = PF_PUC_CHUNK * pointer;

	if (stack_end && (address >= stack_end || stack_end - address < pointer))
		return -1;
	if (stack_end && stack_end - address < n)
		n = (size_t)(stack_end - address);
	w->words_at = address;
	/* The last words of a stack are fewer. */
	while (pf_puc_copy(w, w->bytes, address, n) < 0)
		if ((n /= 2) < pointer) {
			w->words_size = 0;
			return -1;
		}
	w->words_size = (unsigned)n & ~(pointer - 1);
	return 0;
}

/* --- functions ------------------------------------------------------------------------------------------------------ */

static inline int may_be_object(const struct pf_puc_unwinder *w, uint64_t x)
{
	if (x >= w->r->sp && x < w->r->stack_end)
		return 0;
	return (x & (w->l->pointer - 1u)) == 0 && pf_may_be_thread(w->global, w->r->sp, x);
}

/* Why an object at an address cannot be read: its memory cannot be read, or what was taken for its address is none. */
static int why_unreadable(const struct pf_puc_unwinder *w, uint64_t address)
{
	return may_be_object(w, address) ? PF_UNWIND_UNREADABLE : PF_UNWIND_BROKEN;
}

/* The function of a call. Returns an enum pf_unwind_failure; PF_UNWIND_BROKEN if its function is not one. */
static int function(struct pf_puc_unwinder *w, uint64_t func, struct pf_place *place)
{
	const struct pf_puc_layout *l = w->l;
	uint8_t bytes[PF_PUC_MOST_VALUE], closure[PF_PUC_MOST_HEAD];
	uint64_t object;
	unsigned kind;

	if (pf_puc_copy(w, bytes, func, l->value.tag + 1u) < 0)
		return PF_UNWIND_UNREADABLE;
	object = pf_puc_word(w, bytes, 0);
	if (object && object == w->closure && bytes[l->value.tag] == l->value.lua) {
		*place = w->closure_place;
		return PF_UNWIND_COMPLETE;
	}
	memset(place, 0, sizeof *place);
	place->kind = PF_PLACE_C;
	if (bytes[l->value.tag] == l->value.light && l->value.light != l->value.lua) {
		/* A result's value is stored before its type. An integer is hardly ever the address of code. */
		place->function = object;
		return pf_puc_byte_at(w, object) > UINT8_MAX ? PF_UNWIND_BROKEN : PF_UNWIND_COMPLETE;
	}
	if (bytes[l->value.tag] != l->value.lua && bytes[l->value.tag] != l->value.c)
		return PF_UNWIND_BROKEN;
	if (pf_puc_copy(w, closure, object, l->closure.size) < 0)
		return why_unreadable(w, object);
	kind = closure[l->closure.kind];
	if (kind != l->closure.c && kind != l->closure.lua)
		return PF_UNWIND_BROKEN;
	place->function = pf_puc_word(w, closure, kind == l->closure.c ? l->closure.code : l->closure.proto);
	if (!place->function)
		return PF_UNWIND_BROKEN;
	if (kind == l->closure.lua) {
		place->kind = PF_PLACE_LUA;
		w->closure = object;
		w->closure_place = *place;
	}
	return PF_UNWIND_COMPLETE;
}

/* An address in the Lua stack. */
static inline uint64_t on_stack(const struct pf_puc_unwinder *w, const struct pf_puc_thread *t, uint64_t address)
{
	return w->l->relative && address < t->stack ? address + t->stack : address;
}

static int read_call(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, uint64_t ci, struct call *c)
{
	const struct pf_puc_layout *l = w->l;
	uint8_t bytes[PF_PUC_MOST_FIELDS];

	c->previous = 0;
	if (pf_puc_copy(w, bytes, ci, l->call.size) < 0)
		return PF_UNWIND_UNREADABLE;
	c->func = on_stack(w, t, pf_puc_word(w, bytes, l->call.func));
	c->pc = pf_puc_word(w, bytes, l->call.pc);
	c->previous = l->call.previous == PF_PUC_NONE ? ci - l->call.size : pf_puc_word(w, bytes, l->call.previous);
	return function(w, c->func, &c->place);
}

/* Find the text and the length of a chunk's name. */
static void read_name(struct pf_puc_unwinder *w, uint64_t string)
{
	const struct pf_puc_layout *l = w->l;
	uint8_t head[PF_PUC_MOST_HEAD];

	w->source = string;
	w->source_size = 0;
	w->source_text = string ? string + l->string.text : 0;
	if (!string || pf_puc_copy(w, head, string, l->string.text) < 0)
		return;
	if (l->string.kind != PF_PUC_NONE && head[l->string.kind] == l->string.is_short)
		w->source_size = head[l->string.short_size];
	else
		w->source_size = (uint32_t)pf_puc_word(w, head, l->string.size);
}

/* Make it the last prototype. Returns 0 or -EFAULT. */
static int read_proto(struct pf_puc_unwinder *w, uint64_t at)
{
	uint64_t string;

	if (at == w->proto_at)
		return 0;
	w->proto_at = 0;
	if (pf_puc_copy(w, w->proto, at, w->l->proto.size) < 0)
		return -1;
	w->proto_at = at;
	string = pf_puc_word(w, w->proto, w->l->proto.source);
	if (string != w->source)
		read_name(w, string);
	return 0;
}

/* A Lua function's place. live: it is the innermost one. */
static int lua_place(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, struct call *c, int live)
{
	const struct pf_puc_layout *l = w->l;

	if (read_proto(w, c->place.function) < 0)
		return why_unreadable(w, c->place.function);
	if (live && l->thread.pc != PF_PUC_NONE)
		c->pc = pf_puc_pointer_at(w, t->at + l->thread.pc);
	if (live)
		c->pc = pf_puc_live_pc(w, t, w->proto, c->pc);
	c->place.linedefined = (int32_t)pf_puc_number(w->proto, l->proto.linedefined);
	if (c->place.function != w->line_function || c->pc != w->line_pc) {
		w->line = pf_puc_line(w, w->proto, c->pc);
		w->line_function = c->place.function;
		w->line_pc = c->pc;
	}
	c->place.line = c->place.end = w->line;
	c->place.source = w->source_text;
	c->place.source_size = w->source_size;
	return PF_UNWIND_COMPLETE;
}

/* --- threads -------------------------------------------------------------------------------------------------------- */

/* Does the object x have our global state, as a thread has? */
static inline int has_global(const struct pf_puc_unwinder *w, uint64_t x)
{
	return pf_puc_pointer_at(w, x + w->l->thread.global) == w->global;
}

/* Is x, which has our global state, a thread that is in a call and uses some of the C stack above an address? */
static int is_active(struct pf_puc_unwinder *w, uint64_t x, uint64_t above, struct pf_puc_thread *t)
{
	const struct pf_puc_layout *l = w->l;
	struct call c;

	if (pf_puc_byte_at(w, x + l->thread.type) != l->thread.is_thread)
		return 0;
	t->at = x;
	t->error = pf_puc_pointer_at(w, x + l->thread.error);
	/* A host may call Lua without lua_pcall, and then it has no lua_longjmp. Neither has a coroutine that has yielded or
	 * failed, but its status tells. */
	if (t->error == 0 && pf_puc_byte_at(w, x + l->thread.status) == 0)
		t->error = UNPROTECTED;
	else if (t->error <= above || t->error - above > REACH ||
		(x >= w->r->sp && x < t->error)) /* a frame of the C stack, whose words look like a thread */
		return 0;
	t->ci = pf_puc_pointer_at(w, x + l->thread.ci);
	t->base = l->call.previous != PF_PUC_NONE ? x + l->thread.base : pf_puc_pointer_at(w, x + l->thread.base);
	if (t->ci == 0 || t->ci == t->base)
		return 0;
	t->stack = l->relative ? pf_puc_pointer_at(w, x + l->thread.stack) : 0;
	t->in_lua = read_call(w, t, t->ci, &c) == PF_UNWIND_COMPLETE && c.place.kind == PF_PLACE_LUA;
	return 1;
}

static inline int consider(struct pf_puc_unwinder *w, uint64_t x, uint64_t above, struct pf_puc_thread *best)
{
	struct pf_puc_thread t;

	if (x == best->at || !may_be_object(w, x) || !has_global(w, x) || !is_active(w, x, above, &t) || (best->at && t.error >= best->error))
		return 0;
	*best = t;
	return 1;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Look for a thread in the words of the C stack from an address on. If `best` has resumed a thread, the words of that thread lie
 * below the lua_longjmp of `best`. */
static void scan(struct pf_puc_unwinder *w, uint64_t from, unsigned most, struct pf_puc_thread *best)
{
	const unsigned size = w->l->pointer;
	uint64_t at = from, end = from + (uint64_t)most * size, before = 0, stop;

	if (best->at)
		end = lower(end, best->error);
	while ((stop = pf_puc_stack_words(w, at, end)) != at)
		for (; at < stop; at += size) {
			const uint64_t v = pf_puc_word(w, w->bytes, (unsigned)(at - w->words_at));

			if (v == before)
				continue;
			before = v;
			if (!consider(w, v, from, best))
				continue;
			if (best->in_lua)
				return;
			end = lower(end, lower(at + (uint64_t)MORE_WORDS * size, best->error));
			stop = lower(stop, end);
		}
}

/* The running thread; at = 0 if there is none. */
static void find(struct pf_puc_unwinder *w, struct pf_puc_thread *best)
{
	const uint64_t sp = w->r->sp;
	const unsigned n = w->r->n < PF_REGISTERS ? w->r->n : PF_REGISTERS;

	best->at = 0;
	best->in_lua = 0;
	for (unsigned i = 0; i < n && !best->in_lua; i++)
		if (w->r->kept >> i & 1) /* the interpreter's loop mostly has it there */
			consider(w, w->r->general[i], sp, best);
	for (unsigned i = 0; i < n && !best->in_lua; i++)
		if (!(w->r->kept >> i & 1))
			consider(w, w->r->general[i], sp, best);
	if (!best->in_lua)
		scan(w, sp, best->at ? MORE_WORDS : MOST_WORDS, best);
	/* A C function may use more words of the C stack than are searched. */
	if (!best->at && w->l->main != PF_PUC_NONE)
		consider(w, pf_puc_pointer_at(w, w->global + w->l->main), sp, best);
}

/* The thread that resumed t; at = 0 if none did. */
static void find_resumer(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, struct pf_puc_thread *best)
{
	uint64_t outermost = t->error, outer;

	best->at = 0;
	if (outermost == UNPROTECTED || (w->l->main != PF_PUC_NONE && t->at == pf_puc_pointer_at(w, w->global + w->l->main)))
		return;
	for (unsigned i = 0; i < MOST_NESTED && (outer = pf_puc_pointer_at(w, outermost + w->l->previous)) > outermost &&
			     outer - outermost < REACH;
	     i++)
		outermost = outer;
	scan(w, outermost, MOST_WORDS, best);
}

static int emit(struct pf_puc_unwinder *w, const struct pf_place *place)
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

/* Has the innermost call begun? Most builds of 5.2 and 5.3 make a CallInfo the thread's innermost one before they store the function in it,
 * and the store may be a page fault. Until then it has the function of an earlier call. The function of a call that has begun is on
 * the Lua stack above its caller's, and below the end of the values. That of an earlier call is hardly ever there, except in the same
 * place as the new one. */
static int has_begun(const struct pf_puc_unwinder *w, const struct pf_puc_thread *t, const struct call *c)
{
	const uint64_t top = pf_puc_pointer_at(w, t->at + w->l->thread.top);
	const uint64_t caller = c->previous != t->base ? pf_puc_pointer_at(w, c->previous + w->l->call.func) : 0;

	return (!top || c->func < on_stack(w, t, top)) && (!caller || c->func > on_stack(w, t, caller));
}

/* All functions of a thread. Returns 0, or 1 if the unwinding has ended. */
static int walk(struct pf_puc_unwinder *w, const struct pf_puc_thread *t)
{
	struct pf_unwound *u = w->u;
	uint64_t ci = t->ci;
	int skipped = 0;

	for (unsigned i = 0; ci != t->base; i++) {
		struct call c;
		int failed = read_call(w, t, ci, &c);

		if (i == 0 && failed == PF_UNWIND_COMPLETE && !has_begun(w, t, &c)) {
			ci = c.previous;
			continue;
		}
		if (i > PF_UNWIND_DEEPEST)
			failed = PF_UNWIND_DEEP;
		if (failed == PF_UNWIND_COMPLETE && c.place.kind == PF_PLACE_LUA)
			failed = lua_place(w, t, &c, i == 0);
		/* The innermost call may be beginning, or its results may already be in the place of its function. They need not
		 * be addresses. A caught error puts its message in the place of the function that was called in protected
		 * mode. All other calls have their functions there. */
		if ((failed == PF_UNWIND_BROKEN || (failed == PF_UNWIND_UNREADABLE && i == 0)) && c.previous && !skipped) {
			skipped = 1;
			ci = c.previous;
			continue;
		}
		if (failed != PF_UNWIND_COMPLETE) {
			u->failed = failed;
			return 1;
		}
		if (u->n == 0 && c.place.kind == PF_PLACE_C) {
			u->state = PF_AT_C;
			w->collects = pf_puc_collects(w, t, c.place.function);
		}
		if (u->n == 0 && w->collects)
			u->state = PF_AT_GC;
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
	struct pf_puc_unwinder w = {.l = l, .r = r, .m = m, .u = u, .global = global};
	struct pf_puc_thread t, resumer;

	u->state = PF_OUTSIDE;
	u->failed = PF_UNWIND_COMPLETE;
	u->n = 0;
	find(&w, &t);
	if (!t.at)
		return;
	u->state = PF_AT_LUA;
	for (unsigned i = 0; i < MOST_NESTED && !walk(&w, &t); i++) {
		if (u->alone && u->n)
			return;
		find_resumer(&w, &t, &resumer);
		if (!resumer.at)
			return;
		t = resumer;
	}
}

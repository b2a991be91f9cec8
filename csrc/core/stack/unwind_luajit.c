/* The unwinder for LuaJIT: finds the running thread, its innermost function and the instruction. unwind_luajit_frames.c has the
 * frames of the callers, unwind_trace.c compiled code.
 *
 * The interpreter keeps the base of the running function's frame and the address of the next instruction (pc) in two registers.
 * Before most calls of C code it stores the base in the thread, and the pc in its frame on the C stack. But it does not for
 * routines that cannot fail (a table's length, math.sin): then the thread has the base of an older frame, and the two values are
 * in callee-saved registers, or on the C stack, where the called function has pushed them. So pairs of a base and a pc are tried,
 * the most reliable ones first. A pair is accepted if the function of that frame has an instruction at the pc. */
#include "core/stack/sampling.h"
#include "core/stack/unwind_luajit_internal.h"

enum {
	CFRAMES = 4, /* the most that are searched */
	PAGE = 4096, /* the smallest page; larger ones are multiples of it */
};

/* The callee-saved register that has the base while C code runs. */
#if defined(__aarch64__)
enum { KEPT_BASE = PF_LUAJIT_BASE };
#else
enum { KEPT_BASE = PF_X86_RBP };
#endif

/* --- the running thread -------------------------------------------------------------------------------------------------- */

static int plausible(const struct pf_luajit_view *v, uint64_t cframe)
{
	return cframe && cframe % 8 == 0 && cframe + 256 > v->r->sp && cframe - v->r->sp + 256 < PF_LUAJIT_C_STACK;
}

/* Find the running thread. Returns PF_AT_LUA, or the state to report without frames. */
static int find_thread(struct pf_luajit_view *v)
{
	const uint64_t running = pf_luajit_word(v, v->global + v->l->global_running);
	const uint64_t first = v->global - v->l->main_below;
	uint64_t cframe;

	if (running && pf_luajit_is_thread(v, running)) {
		cframe = pf_luajit_cframe(v, running);
		if (plausible(v, cframe)) {
			pf_luajit_look_at(v, running, cframe);
			return PF_AT_LUA;
		}
		if (!cframe && !pf_luajit_cframe(v, first))
			return PF_OUTSIDE;
	} else if (!pf_luajit_cframe(v, first)) {
		return PF_OUTSIDE;
	}
	/* A C function has called a function in another thread, and the global state still names the other one. */
	v->switching = 1;
	if (pf_luajit_find_above(v, v->r->sp & ~(uint64_t)7))
		return PF_AT_LUA;
	pf_luajit_fail(v, PF_UNWIND_NO_THREAD);
	return PF_OUTSIDE;
}

/* --- the innermost function ------------------------------------------------------------------------------------------ */

static uint64_t pc_register(const struct pf_luajit_view *v)
{
	return v->r->general[PF_LUAJIT_PC];
}

/* Is the link of this frame valid: is there a caller of its kind? */
static int has_caller(const struct pf_luajit_view *v, uint64_t base)
{
	const uint64_t link = pf_luajit_word(v, base - PF_LUAJIT_SLOT);
	struct pf_luajit_function caller;
	uint64_t outer;

	if ((link & PF_LINK_MASK) == PF_LINK_LUA)
		return pf_luajit_function_at(v, pf_luajit_lua_caller(v, base, link), &caller) && pf_luajit_holds(&caller, link);
	outer = base - (link & ~(uint64_t)PF_LINK_MASK_P);
	return outer < base && (pf_luajit_is_bottom(v, outer) || pf_luajit_function_at(v, outer, &caller));
}

/* The interpreter is calling or returning: base is already the callee's, pc still the caller's. */
static uint64_t caller_base(const struct pf_luajit_view *v, uint64_t base, uint64_t pc)
{
	const uint64_t outer = pc % PF_LUAJIT_INSTRUCTION ? 0 : pf_luajit_lua_caller(v, base, pc);
	struct pf_luajit_function f;

	return outer && pf_luajit_function_at(v, outer, &f) && pf_luajit_holds(&f, pc) && has_caller(v, outer) ? outer : 0;
}

struct top {
	uint64_t base, pc;
};

static int take(struct top *t, uint64_t base, uint64_t pc)
{
	t->base = base;
	t->pc = pc;
	return 1;
}

/* Is it the base of the outermost frame of a thread, from which its first function is called? */
static int is_begin(const struct pf_luajit_view *v, uint64_t base)
{
	return base == v->low + 2 * PF_LUAJIT_SLOT;
}

/* While a builtin runs, the pc is the address of its own instruction, or already that of its caller. */
static int is_builtin_pc(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t base, uint64_t pc)
{
	return f->id && (pc == f->code + PF_LUAJIT_INSTRUCTION || pc == pf_luajit_word(v, base - PF_LUAJIT_SLOT)) && has_caller(v, base);
}

/* C code has called the frame with this base, from a hook or a finalizer while f was running. Find the pc that f has saved: the newest
 * frame on the C stack is still that of the call, or already f's. */
static uint64_t pc_below_c(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t base, uint64_t outer)
{
	const uint64_t below = pf_luajit_cframe_below(v, v->cframe, base), pc = pf_luajit_saved_pc(v, pf_luajit_cframe_of(v, below, outer));

	return pf_luajit_holds(f, pc) ? pc : pf_luajit_saved_pc(v, pf_luajit_cframe_of(v, v->cframe, outer));
}

/* The function with this base is returning, or has overwritten its link with its result; the caller of this function has found
 * the link elsewhere. Report the frame that the link leads to. */
static int top_of_caller(const struct pf_luajit_view *v, struct top *t, uint64_t base, uint64_t link)
{
	for (int i = 0; i < 4; i++) {
		const uint64_t outer = (link & PF_LINK_MASK) == PF_LINK_LUA ? pf_luajit_lua_caller(v, base, link)
									    : base - (link & ~(uint64_t)PF_LINK_MASK_P);
		struct pf_luajit_function f;

		if (is_begin(v, outer))
			return take(t, outer, 0); /* a coroutine ends */
		if (outer >= base || !pf_luajit_function_at(v, outer, &f))
			return 0;
		if ((link & PF_LINK_MASK) == PF_LINK_LUA)
			return pf_luajit_holds(&f, link) ? take(t, outer, link) : 0;
		if ((link & PF_LINK_MASK_P) == PF_LINK_CONTINUATION)
			return take(t, outer, pf_luajit_word(v, base - 3 * PF_LUAJIT_SLOT));
		if ((link & PF_LINK_MASK_P) != PF_LINK_VARARG)
			return take(t, outer, f.id ? 0 : pc_below_c(v, &f, base, outer));
		base = outer;
		link = pf_luajit_word(v, base - PF_LUAJIT_SLOT);
	}
	return 0;
}

static int is_other_link(uint64_t link)
{
	return (link & PF_LINK_MASK) != PF_LINK_LUA && link < PF_LUAJIT_STACK;
}

/* While a function returns, base is already that of the frame below, and pc is still the link of the frame above, with or without the
 * bits of its kind. */
static int top_below(const struct pf_luajit_view *v, struct top *t, uint64_t base, uint64_t pc)
{
	const uint64_t upper = base + (pc & ~(uint64_t)PF_LINK_MASK_P);
	const uint64_t link = pc < PF_LUAJIT_STACK && pf_luajit_is_base(v, upper) ? pf_luajit_word(v, upper - PF_LUAJIT_SLOT) : 0;

	if (!is_other_link(link) || ((link ^ pc) & ~(uint64_t)PF_LINK_MASK_P) != 0)
		return 0;
	if ((link & PF_LINK_MASK_P) == PF_LINK_CONTINUATION)
		return take(t, base, pf_luajit_word(v, upper - 3 * PF_LUAJIT_SLOT));
	/* the upper frame had the variable arguments of the function */
	return (link & PF_LINK_MASK_P) == PF_LINK_VARARG && top_of_caller(v, t, base, pf_luajit_word(v, base - PF_LUAJIT_SLOT));
}

/* When the interpreter returns to C, the pc's register holds the base of the frame that called the interpreter; on x86-64 it holds
 * the negative of this for one instruction. */
static int top_of_c(const struct pf_luajit_view *v, struct top *t, uint64_t pc)
{
	const uint64_t bases[] = {pc, 0 - pc};
	struct pf_luajit_function f;

	for (unsigned i = 0; i < 2 && v->vmstate == PF_LUAJIT_C; i++)
		if (is_begin(v, bases[i]) || (pf_luajit_function_at(v, bases[i], &f) && f.id && has_caller(v, bases[i])))
			return take(t, bases[i], 0);
	return 0;
}

/* The interpreter's own code runs. */
static int top_in_vm(const struct pf_luajit_view *v, struct top *t)
{
	const uint64_t base = v->r->general[PF_LUAJIT_BASE], pc = pc_register(v), saved = pf_luajit_saved_pc(v, v->cframe);
	const uint64_t link = pf_luajit_is_base(v, base) ? pf_luajit_word(v, base - PF_LUAJIT_SLOT) : 0;
	const int returns = is_other_link(link) && (((link ^ pc) & ~(uint64_t)PF_LINK_MASK_P) == 0 || pc == link - PF_LINK_VARARG);
	struct pf_luajit_function f;
	uint64_t outer;

	if (!pf_luajit_function_at(v, base, &f)) { /* the result may have overwritten the function */
		if ((outer = caller_base(v, base, pc)) != 0)
			return take(t, outer, pc);
		return (returns && top_of_caller(v, t, base, link)) || top_of_c(v, t, pc);
	}
	if (pc == f.code && top_of_caller(v, t, base, link)) /* it is being called */
		return 1;
	if (pf_luajit_holds(&f, pc)) /* in a recursive function both links may be equal, or this one is not stored yet */
		return (link == pc || !has_caller(v, base)) && (outer = caller_base(v, base, pc)) != 0 ? take(t, outer, pc) : take(t, base, pc);
	if (is_builtin_pc(v, &f, base, pc))
		return take(t, base, 0);
	if ((outer = caller_base(v, base, pc)) != 0)
		return take(t, outer, pc);
	if (returns && top_of_caller(v, t, base, link))
		return 1;
	if (!f.id && pf_luajit_holds(&f, pf_luajit_replaced(v, pc)))
		return take(t, base, pf_luajit_replaced(v, pc));
	if (is_other_link(pc) && !has_caller(v, base) && top_of_caller(v, t, base, pc))
		return 1;
	if (top_below(v, t, base, pc))
		return 1;
	if (pf_luajit_holds(&f, saved))
		return take(t, base, saved);
	if (top_of_c(v, t, pc))
		return 1;
	return f.id && has_caller(v, base) ? take(t, base, 0) : 0;
}

static int among_words(const struct pf_luajit_view *v, uint64_t word)
{
	for (unsigned i = 0; i < v->words_n; i++)
		if (v->words[i] == word)
			return 1;
	return 0;
}

/* Is it an address of f's instructions, after one that may call C code? The last instruction returns; and the address after it is
 * often that of f's constants, which the interpreter has in a register. */
static int may_call(const struct pf_luajit_function *f, uint64_t pc)
{
	return pf_luajit_holds(f, pc) && pc != f->code + (uint64_t)f->n * PF_LUAJIT_INSTRUCTION;
}

/* Search the register and the C stack for such an address. */
static uint64_t pc_in(const struct pf_luajit_view *v, const struct pf_luajit_function *f)
{
	if (may_call(f, pc_register(v)))
		return pc_register(v);
	for (unsigned i = 0; i < v->words_n; i++)
		if (may_call(f, v->words[i]))
			return v->words[i];
	return 0;
}

static int take_preserved(const struct pf_luajit_view *v, struct top *t, uint64_t base)
{
	struct pf_luajit_function f;
	uint64_t pc;

	if (!pf_luajit_function_at(v, base, &f))
		return 0;
	if (!f.id)
		return (pc = pc_in(v, &f)) != 0 ? take(t, base, pc) : 0;
	pc = f.code + PF_LUAJIT_INSTRUCTION;
	return (pc_register(v) == pc || among_words(v, pc)) && has_caller(v, base) ? take(t, base, 0) : 0;
}

/* C code runs, which the interpreter has called. */
static int top_in_c(const struct pf_luajit_view *v, struct top *t)
{
	enum { NEAR = 24 };
	const uint64_t link = pf_luajit_word(v, v->base - PF_LUAJIT_SLOT), outermost = pf_luajit_cframe_of(v, v->cframe, v->base);
	const uint64_t saved = pf_luajit_saved_pc(v, outermost), pc = pc_register(v);
	uint64_t outer;
	struct pf_luajit_function f;
	const int known = pf_luajit_function_at(v, v->base, &f);

	if (known && f.id && (v->switching || v->vmstate == PF_LUAJIT_C || outermost != v->cframe || pc == link || among_words(v, link)))
		return take(t, v->base, 0);
	if (known && !f.id && pf_luajit_holds(&f, saved) && (outermost != v->cframe || pc == saved || among_words(v, saved)))
		return take(t, v->base, saved);
	if (take_preserved(v, t, v->r->general[PF_LUAJIT_BASE]) || take_preserved(v, t, v->r->general[KEPT_BASE]))
		return 1;
	for (unsigned i = 0; i < v->words_n && i < NEAR; i++)
		if (take_preserved(v, t, v->words[i]))
			return 1;
	if (!known && saved == link && top_of_caller(v, t, v->base, link)) /* a builtin's result has overwritten the function */
		return 1;
	if (!known && pf_luajit_tag(pf_luajit_word(v, v->base - 2 * PF_LUAJIT_SLOT)) == v->l->tag_thread)
		/* LuaJIT makes a frame without a function to report an error */
		return pf_luajit_is_bottom(v, v->base) ? 0 : take(t, v->base, 0);
	if (!known) /* further results have overwritten the link too, or the base is not that of a frame */
		return (outer = caller_base(v, v->base, saved)) != 0 ? take(t, outer, saved) : 0;
	if (f.id)
		return !has_caller(v, v->base) && top_of_caller(v, t, v->base, saved) ? 1 : take(t, v->base, 0);
	take(t, v->base, pc_in(v, &f));
	if (t->pc)
		return 1;
	/* If the newest frame on the C stack has no function yet, the frame before it has the address. */
	for (uint64_t i = 0, cframe = outermost; cframe && i < CFRAMES; i++, cframe = pf_luajit_previous_cframe(v, cframe))
		if (pf_luajit_holds(&f, pf_luajit_saved_pc(v, cframe)))
			return take(t, v->base, pf_luajit_saved_pc(v, cframe));
	/* C code is about to call this function, or already has its result */
	if (is_other_link(link) && top_of_caller(v, t, v->base, link))
		return 1;
	return take(t, v->base, 0);
}

static void read_words(struct pf_luajit_view *v)
{
	uint64_t n = v->cframe > v->r->sp ? (v->cframe - v->r->sp) / sizeof *v->words : 0;

	if (n > PF_LUAJIT_STACK_WORDS)
		n = PF_LUAJIT_STACK_WORDS;
	if (n && !pf_luajit_read(v, v->words, v->cframe - n * sizeof *v->words, (size_t)n * sizeof *v->words))
		n = 0;
	for (uint64_t i = 0; i < n / 2; i++) { /* from the frame downward */
		const uint64_t word = v->words[i];

		v->words[i] = v->words[n - 1 - i];
		v->words[n - 1 - i] = word;
	}
	v->words_n = (unsigned)n;
}

/* A register, or a word of the C stack. */
static uint64_t register_or_word(const struct pf_luajit_view *v, unsigned i)
{
	return i < v->r->n ? v->r->general[i] : v->words[i - v->r->n];
}

/* When a thread's stack grows, LuaJIT copies it and frees the old one before it stores the new address in the thread. The old
 * stack may be unmapped, or its first two slots, the thread and a function, overwritten. Then a register or a word of the C stack
 * has the new address, or the address of its page if the kernel has moved the pages. */
static void find_moved_stack(struct pf_luajit_view *v)
{
	const uint64_t first = pf_luajit_value(v->l->tag_thread, v->thread);
	struct pf_luajit_function f;
	uint64_t value;

	if (pf_luajit_word(v, v->low) == first && pf_luajit_tag(pf_luajit_word(v, v->low + 2 * PF_LUAJIT_SLOT)) == v->l->tag_function)
		return;
	/* The page of the outermost frame may be missing, if the stack is that of another process. */
	if (!pf_luajit_guess(v, &value, v->low, sizeof value) && pf_luajit_function_at(v, v->base, &f) && has_caller(v, v->base))
		return;
	for (unsigned i = 0; i < v->r->n + v->words_n; i++) {
		const uint64_t word = register_or_word(v, i), low = word % PAGE ? word : word + v->low % PAGE;
		const int aligned = low != v->low && low % PF_LUAJIT_SLOT == 0, known = aligned && pf_luajit_guess(v, &value, low, sizeof value);
		struct pf_luajit_view moved;

		if (!aligned || (known && value != first))
			continue;
		moved = *v;
		moved.low = low;
		moved.base += low - v->low;
		moved.high += low - v->low;
		if (!known && !pf_luajit_guess(v, &value, moved.base - 2 * PF_LUAJIT_SLOT, sizeof value))
			continue;
		if (pf_luajit_function_at(&moved, moved.base, &f) && has_caller(&moved, moved.base)) {
			if (!known)
				pf_luajit_refuse(v);
			*v = moved;
			return;
		}
	}
}

/* Next, the thread has the new stack's address, but its base still points into the old one. A register or a word of the C stack
 * has the old stack's address, or the distance of the two. */
static void find_moved_base(struct pf_luajit_view *v)
{
	struct pf_luajit_function f;

	if (pf_luajit_function_at(v, v->base, &f))
		return;
	for (unsigned i = 0; i < v->r->n + v->words_n; i++) {
		const uint64_t word = register_or_word(v, i);
		const uint64_t moved[] = {v->base + word, v->low + v->base - word};

		for (unsigned k = 0; k < 2; k++)
			if (pf_luajit_function_at(v, moved[k], &f) && has_caller(v, moved[k])) {
				v->base = moved[k];
				return;
			}
	}
}

/* Does the compiler start a trace? It sets vmstate only after that, but its frame on the C stack has no frame on Lua's stack. */
static int starts_trace(const struct pf_luajit_view *v)
{
	return v->vmstate == PF_LUAJIT_INTERPRETER && pf_luajit_cframe_of(v, v->cframe, v->base) != v->cframe;
}

/* Does LuaJIT make an object of the program, although vmstate says that it leaves a trace or compiles? While a trace is
 * recorded, the interpreter still runs the instructions, and while it does, the compiler has no frame on the C stack.
 * While a trace is left, LuaJIT makes the objects that compiled code has put off. Then the compiler may start another
 * trace. It may need a longer array of traces for that, which is not the program's. */
static int makes_objects(const struct pf_luajit_view *v)
{
	if (!v->u->allocates || v->vmstate > PF_LUAJIT_EXIT)
		return 0;
	if (v->vmstate < PF_LUAJIT_EXIT)
		return pf_luajit_cframe_of(v, v->cframe, v->base) == v->cframe;
	return v->u->old != pf_luajit_word(v, v->global + v->l->traces);
}

static int state_of(const struct pf_luajit_view *v)
{
	if (starts_trace(v))
		return PF_AT_JIT;
	if (v->vmstate >= PF_LUAJIT_INTERPRETER || makes_objects(v))
		return PF_AT_LUA;
	return v->vmstate == PF_LUAJIT_C ? PF_AT_C : v->vmstate == PF_LUAJIT_COLLECTOR ? PF_AT_GC : PF_AT_JIT;
}

static void unwind(struct pf_luajit_view *v)
{
	const struct pf_luajit_layout *l = v->l;
	const struct pf_registers *r = v->r;
	struct pf_unwound *u = v->u;
	const uint64_t global = v->global;
	struct top t = {0, 0};
	uint64_t trace_base;

	if (!pf_luajit_read(v, &v->vmstate, global + l->global_vmstate, sizeof v->vmstate)) {
		pf_luajit_fail(v, PF_UNWIND_UNREADABLE);
		return;
	}
	u->state = find_thread(v);
	if (u->state == PF_OUTSIDE)
		return;
	u->state = state_of(v);
	if (!l->traces && v->vmstate >= 0) { /* compiled after the layout was learned: the fields of the thread are stale */
		pf_luajit_fail(v, PF_UNWIND_NO_TRACE);
		return;
	}
	trace_base = l->traces ? pf_luajit_word(v, global + l->trace_base) : 0;
	read_words(v);
	find_moved_stack(v);
	if (!trace_base) /* otherwise the thread's base is not used, and may be an old one */
		find_moved_base(v);
	if ((trace_base || v->vmstate == PF_LUAJIT_EXIT || v->vmstate == PF_LUAJIT_COLLECTOR) && pf_luajit_trace(v, trace_base))
		return;
	if ((!v->switching && r->sp + 2 * sizeof(uint64_t) >= v->cframe && top_in_vm(v, &t)) || top_in_c(v, &t))
		pf_luajit_frames(v, t.base, t.pc, NULL);
	else if (pf_luajit_is_bottom(v, v->base)) /* a coroutine before its first instruction */
		pf_luajit_frames(v, v->base, 0, NULL);
	else
		pf_luajit_fail(v, PF_UNWIND_NO_BASE);
}

void pf_unwind_luajit(const struct pf_luajit_layout *l, uint64_t global, const struct pf_registers *r, const struct pf_memory *m,
		      struct pf_unwound *u)
{
	struct pf_luajit_memo memo = {.constants = 0};
	struct pf_luajit_view v = {.l = l, .m = m, .r = r, .u = u, .global = global, .memo = &memo};

	u->failed = PF_UNWIND_COMPLETE;
	u->n = 0;
	u->state = PF_AT_LUA;
	unwind(&v);
	if (memo.constants >= PF_LUAJIT_CONSTANTS)
		u->failed = PF_UNWIND_LONG;
	if (memo.refused) /* the result of a refused read may have been taken for a value in memory */
		pf_luajit_fail(&v, PF_UNWIND_UNREADABLE);
}

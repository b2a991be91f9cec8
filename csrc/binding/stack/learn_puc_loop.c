/* The fourth part of learn_puc.c: fields that are only valid while an instruction allocates; and the place of the pc.
 *
 * In 5.2 and 5.3 the pc is in the CallInfo. In 5.1 and 5.4 it is a local variable of the interpreter's loop (luaV_execute), which
 * the compiler keeps in a register, or in the loop's frame on the C stack. Our allocator finds both in the words of the C stack,
 * since the functions between the loop and the allocator save the loop's registers there. The loop's frame begins above the only
 * return address that changes from instruction to instruction, and yet is always in the same function. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT
#include <string.h>

#include "core/stack/own_code.h"

enum {
	/* One bit for each line that allocates, from the first one on. */
	LINES = 1 | 1 << (PB_PUC_CLOSURE_LINE - PB_PUC_TABLE_LINE) | 7 << 3,
	OTHER_LINE = 1 << 30,
	MOST_WRONG = 30,   /* of 1,000 machine instructions */
	LEAST_LOOP = 1024, /* bytes of code */
};

/* Indexes of words in a frame with saved registers, counted from its frame pointer. */
#if defined __x86_64__
enum { FIRST_SAVED = -5, SAVED = 6 };
#else
enum { FIRST_SAVED = 0, SAVED = 22 };
#endif

static int on_place(void *to, const struct pf_place *p)
{
	struct pb_puc_learner *w = to;
	const uint32_t line = p->line - PB_PUC_TABLE_LINE;

	if (p->kind == PF_PLACE_LUA && p->function == w->protos[PB_PUC_ALLOCATES - PB_PUC_ONE]) {
		w->lines_seen |= line < 30 ? 1 << line : OTHER_LINE;
		w->sees = 1;
	}
	return 1;
}

static void look_at_stack(struct pb_puc_learner *w, uint64_t from)
{
	uint64_t error = 0;
	size_t n = 0;

	w->m->read(w->m, &error, (uintptr_t)w->T + w->l->thread.error, sizeof(void *));
	if (w->n_stacks == PB_PUC_STACKS || error <= from)
		return;
	n = (error - from) / sizeof(void *);
	w->stacks[w->n_stacks].from = from;
	w->stacks[w->n_stacks].n = n < PB_PUC_WORDS_SEEN ? n : PB_PUC_WORDS_SEEN;
	pb_puc_grab(w, w->stacks[w->n_stacks].words, from, w->stacks[w->n_stacks].n * sizeof(void *));
	w->n_stacks++;
}

/* Unwind from the allocator, whose frame has the saved registers of its callers. */
static void see_line(struct pb_puc_learner *w, const uint64_t *frame)
{
	struct pf_registers r = {.sp = (uintptr_t)(frame + 2), .n = SAVED, .kept = (1u << SAVED) - 1};
	struct pf_unwound u = {.found = on_place, .to = w};

	memcpy(r.general, frame + FIRST_SAVED, sizeof *frame * SAVED);
	w->sees = 0;
	pf_unwind_puc(w->l, w->global, &r, w->m, &u);
	if (w->sees)
		look_at_stack(w, r.sp);
}

static void *see_place(void *ud, void *block, size_t old, size_t new)
{
	struct pb_puc_learner *w = ud;

	__builtin_unwind_init();
	see_line(w, __builtin_frame_address(0));
	return w->alloc(w->ud, block, old, new);
}

static void *see_stack(void *ud, void *block, size_t old, size_t new)
{
	struct pb_puc_learner *w = ud;
	struct pf_puc_layout *l = w->l;
	uint8_t thread[PB_PUC_THREAD], call[PB_PUC_CALL];

	pb_puc_grab(w, thread, (uintptr_t)w->T, sizeof thread);
	pb_puc_grab(w, call, pb_puc_word(thread, l->thread.ci), sizeof call);
	PB_PUC_WORDS(o, PB_PUC_THREAD)
	if (block && new > old && pb_puc_word(thread, o) == (uintptr_t)block) {
		l->relative = pb_puc_word(call, l->call.func) < (uintptr_t)block;
		pb_puc_choose(w, o);
	}
	return w->alloc(w->ud, block, old, new);
}

static int grows(lua_State *T)
{
	lua_checkstack(T, 500);
	return 0;
}

static void run_with(struct pb_puc_learner *w, lua_Alloc alloc)
{
	int status;

	w->alloc = lua_getallocf(w->T, &w->ud);
	lua_setallocf(w->T, alloc, w);
	status = lua_pcall(w->T, 0, 0, 0);
	lua_setallocf(w->T, w->alloc, w->ud);
	if (status != 0)
		pb_puc_fail(w, "allocation");
}

/* The lines that the unwinder finds for the instructions that allocate, as bits. It runs three times, since the first run leaves
 * its values on the C stack. alone: ignore the pc that Lua has saved. */
static int lines_seen(struct pb_puc_learner *w, enum pf_puc_pc local, int alone)
{
	struct pf_puc_layout *l = w->l;
	const struct pf_puc_layout whole = *l;

	l->local_pc = (uint8_t)local;
	if (alone) {
		l->call.pc = l->call.func;
		l->thread.pc = PF_PUC_NONE;
	}
	w->lines_seen = 0;
	for (int i = 0; i < 3; i++) {
		pb_puc_give(w, PB_PUC_ALLOCATES, PB_PUC_ALLOCATES);
		run_with(w, see_place);
	}
	l->call.pc = whole.call.pc;
	l->thread.pc = whole.thread.pc;
	return w->lines_seen;
}

void pb_puc_take_way(struct pf_puc_layout *l, const struct pb_puc_way *way)
{
	l->local_pc = (uint8_t)way->local;
	l->slot = way->slot;
	l->loop = way->loop;
	l->loop_end = way->loop_end;
}

/* Keep this way to find the pc if its lines are right where memory is allocated. */
static void try(struct pb_puc_learner *w, enum pf_puc_pc local, uint16_t slot)
{
	w->l->slot = slot;
	if (w->n_ways < PB_PUC_WAYS && lines_seen(w, local, slot != PF_PUC_NONE) == LINES &&
	    (local == PF_PUC_SAVED || (lines_seen(w, local, 1) & 1)))
		w->ways[w->n_ways++] = (struct pb_puc_way){.local = local, .slot = slot, .loop = w->l->loop, .loop_end = w->l->loop_end};
}

static void try_local(struct pb_puc_learner *w, uint16_t slot)
{
	try(w, PF_PUC_NEXT, slot);
	try(w, PF_PUC_BOTH, slot);
	try(w, PF_PUC_CURRENT, slot);
}

/* --- the frame of the function that runs instructions ------------------------------------------------------------------ */

static uint64_t seen_at(const struct pb_puc_stack *s, uint64_t at)
{
	const uint64_t i = (at - s->from) / sizeof(void *);

	return at >= s->from && i < s->n ? s->words[i] : 0;
}

static int is_frame(struct pb_puc_learner *w, uint64_t at)
{
	const uint64_t first = seen_at(w->stacks, at);
	uint64_t from, end;
	int differ = 0;

	if (!first || pf_own_function(first, &from, &end) < 0 || end - from < LEAST_LOOP)
		return 0;
	for (unsigned i = 1; i < PB_PUC_STACKS; i++) {
		const uint64_t v = seen_at(&w->stacks[i], at);

		if (v - from >= end - from)
			return 0;
		differ |= v != first;
	}
	if (differ) {
		w->l->loop = from;
		w->l->loop_end = end;
	}
	return differ;
}

/* Find the frame of the interpreter's loop: above the outermost return address that changes and always lies in one function. 0:
 * there is none. */
static uint64_t find_frame(struct pb_puc_learner *w)
{
	const struct pb_puc_stack *s = w->stacks;

	for (uint64_t at = s->from + s->n * sizeof(void *); w->n_stacks == PB_PUC_STACKS && at > s->from; at -= sizeof(void *))
		if (is_frame(w, at))
			return at + sizeof(void *);
	w->l->loop = w->l->loop_end = 0;
	return 0;
}

static void try_slots(struct pb_puc_learner *w, uint64_t frame)
{
	for (size_t o = 0; o < 896 * sizeof(void *); o += sizeof(void *))
		if (seen_at(w->stacks, frame + o) != seen_at(w->stacks + PB_PUC_STACKS - 1, frame + o))
			try_local(w, (uint16_t)o);
}

void pb_puc_learn_allocation(struct pb_puc_learner *w)
{
	const struct pb_puc_way *best = w->ways;
	uint64_t frame;

	w->l->slot = PF_PUC_NONE;
	lua_pushcfunction(w->T, grows);
	run_with(w, see_stack);
	if (w->l->relative)
		w->l->thread.stack = pb_puc_chosen(w, "stack");
	w->choices = 0;
	w->n_stacks = w->n_ways = 0;
	lines_seen(w, PF_PUC_SAVED, 0);
	frame = find_frame(w);
	try_local(w, PF_PUC_NONE);
	if (frame) {
		try_slots(w, frame);
		/* The interpreter's loop may be inlined in its caller, or its registers may be saved in other ways. */
		w->l->loop = w->l->loop_end = 0;
		try_local(w, PF_PUC_NONE);
	}
	try(w, PF_PUC_SAVED, PF_PUC_NONE);
	pb_puc_count_wrong(w);
	for (unsigned i = 1; i < w->n_ways; i++)
		if (w->ways[i].wrong < best->wrong)
			best = &w->ways[i];
	if (w->n_ways == 0 || best->wrong > MOST_WRONG)
		pb_puc_fail(w, "this build of Lua does not keep the address of the running instruction where it can be found");
	pb_puc_take_way(w->l, best);
}
#endif

/* The fourth part of learn_puc.c: fields that are only valid while an instruction allocates; and the place of the pc.
 *
 * In 5.2 and 5.3 the pc is in the CallInfo. In 5.1 and 5.4 it is a local variable of the interpreter's loop (luaV_execute), which
 * the C compiler keeps in a callee-saved register, in the loop's frame on the C stack, or, depending on the instruction, in one of
 * the two. A function that allocates runs twice. In the first run, our allocator notes all places in the frames of its C callers that
 * have an address of the function's instructions. In the second run, the right places show each line that allocates, in order. */
#include "binding/stack/learn_puc.h"

#if !PB_LUAJIT

#include "core/stack/own_thread.h"

enum {
	/* One bit for each line that allocates, counted from the first such line; MORE_LINES also has a line that may. */
	LINES = 1 | 1 << (PB_PUC_CLOSURE_LINE - PB_PUC_TABLE_LINE) | 7 << 3 | 1 << 7 | 1 << 9 | 1 << 11 | 1 << 14,
	MORE_LINES = LINES | 1 << 13,
	OTHER_LINE = 1 << 30,
	MOST_FRAMES = 24,
	ANY_REGISTER = 0, /* no callee-saved one, so none is preferred */
	MOST_FRAME = 1 << 15, /* bytes */
};

/* --- one function, and the frames of those that run it -------------------------------------------------------------------- */

void pb_puc_probe(struct pb_learner *w, uint64_t proto)
{
	w->probe.at = proto;
	w->probe.next = 0;
	pb_learn_grab(w, w->probe.bytes, proto, sizeof w->probe.bytes);
	w->probe.code = pb_puc_word(w->probe.bytes, w->l->proto.code);
}

static int on_place(void *to, const struct pf_place *p)
{
	struct pb_learner *w = to;

	if (p->kind == PF_PLACE_LUA && p->function == w->probe.at)
		w->probe.line = (int)p->line;
	return 1;
}

/* The pc that Lua has saved for T's innermost function. */
static uint64_t saved_pc(struct pb_learner *w)
{
	const struct pf_puc_layout *l = w->l;
	uint64_t at = (uintptr_t)w->T + l->thread.pc;
	uintptr_t v = 0;

	if (l->thread.pc == PF_PUC_NONE) {
		w->m->read(w->m, &v, (uintptr_t)w->T + l->thread.ci, sizeof v);
		at = v + l->call.pc;
	}
	w->m->read(w->m, &v, at, sizeof v);
	return v;
}

int pb_puc_runs_probe(struct pb_learner *w, const struct pf_registers *r)
{
	struct pf_unwound u = {.found = on_place, .to = w};

	w->probe.line = 0;
	w->probe.saved = saved_pc(w);
	pf_unwind_puc(w->l, w->global, r, w->m, &u);
	return w->probe.line != 0;
}

int pb_puc_find_frame(struct pb_learner *w, const struct pb_puc_loop *loop, struct pf_c_frame *f)
{
	for (unsigned i = 0; i < MOST_FRAMES; i++) {
		if (f->r.ip - loop->from < loop->end - loop->from)
			return 1;
		if (pf_c_frame_leave(w->l->loop.code, w->m, f) < 0)
			return 0;
	}
	return 0;
}

int pb_puc_line(struct pb_learner *w, const struct pf_puc_pc *pc, struct pf_c_frame *f)
{
	struct pf_puc_unwinder u = {.l = w->l, .m = w->m};
	const uint64_t next = f ? pf_puc_pc_in(&u, f, w->probe.bytes, pc, w->probe.saved) : w->probe.saved;

	if (next != w->probe.next) {
		w->probe.next = next;
		w->probe.next_line = (int)pf_puc_line(&u, w->probe.bytes, next);
	}
	return w->probe.next_line;
}

static int is_of_probe(const struct pb_learner *w, uint64_t v)
{
	return v - w->probe.code <= 4 * (uint64_t)(uint32_t)pb_puc_number(w->probe.bytes, w->l->proto.counts[0]) && v % 4 == 0;
}

static void note_word(struct pb_puc_loop *loop, uint16_t below)
{
	for (unsigned i = 0; i < loop->n; i++)
		if (loop->words[i] == below)
			return;
	if (loop->n < PB_PUC_WORDS_SEEN)
		loop->words[loop->n++] = below;
}

static void note_frame(struct pb_learner *w, const struct pf_c_frame *f)
{
	struct pb_puc_loop *loop = w->loops;
	uintptr_t v;

	while (loop < w->loops + w->n_loops && loop->from != f->from)
		loop++;
	if (loop == w->loops + PB_PUC_LOOPS)
		return;
	loop->from = f->from;
	loop->end = f->end;
	for (unsigned i = 0; i < f->r.n; i++)
		if (f->r.kept >> i & 1 && is_of_probe(w, f->r.general[i]))
			loop->registers |= 1u << i;
	for (uint64_t at = f->r.sp; at < f->above && f->above - at < MOST_FRAME; at += sizeof v)
		if (w->m->read(w->m, &v, at, sizeof v) == 0 && is_of_probe(w, v))
			note_word(loop, (uint16_t)(f->above - at));
	w->n_loops += loop == w->loops + w->n_loops && (loop->registers || loop->n);
}

static void note_frames(struct pb_learner *w, struct pf_c_frame f)
{
	for (unsigned i = 0; i < MOST_FRAMES && pf_c_frame_look(w->l->loop.code, w->m, &f) == 0; i++) {
		note_frame(w, &f);
		if (pf_c_frame_leave(w->l->loop.code, w->m, &f) < 0)
			break;
	}
}

static void *see_frames(void *ud, void *block, size_t old, size_t new)
{
	struct pb_learner *w = ud;
	struct pf_c_frame f = {.called = 0};

	pf_own_registers_here(&f.r);
	if (pf_c_frame_leave(w->l->loop.code, w->m, &f) == 0 && pb_puc_runs_probe(w, &f.r))
		note_frames(w, f);
	return w->alloc(w->ud, block, old, new);
}

static void see_line(struct pb_puc_way *way, int line)
{
	const unsigned bit = (unsigned)(line - PB_PUC_TABLE_LINE);

	way->lines |= line >= way->line && bit < 30 && MORE_LINES >> bit & 1 ? 1 << bit : OTHER_LINE;
	way->line = line;
}

static void *see_lines(void *ud, void *block, size_t old, size_t new)
{
	struct pb_learner *w = ud;
	struct pf_c_frame here = {.called = 0};

	pf_own_registers_here(&here.r);
	if (pf_c_frame_leave(w->l->loop.code, w->m, &here) == 0 && pb_puc_runs_probe(w, &here.r)) {
		const struct pb_puc_loop *loop = NULL;
		struct pf_c_frame f = here;
		int is_there = 0;

		for (struct pb_puc_way *way = w->called.way; way < w->called.way + w->called.n; way++) {
			if (way->lines & OTHER_LINE)
				continue;
			if (way->loop != loop) {
				f = here;
				loop = way->loop;
				is_there = pb_puc_find_frame(w, loop, &f);
			}
			see_line(way, is_there || !loop ? pb_puc_line(w, &way->pc, loop ? &f : NULL) : 0);
		}
	}
	return w->alloc(w->ud, block, old, new);
}

/* --- the stack while it is reallocated ------------------------------------------------------------------------------------ */

static void *see_stack(void *ud, void *block, size_t old, size_t new)
{
	struct pb_learner *w = ud;
	struct pf_puc_layout *l = w->l;
	uint8_t thread[PB_PUC_THREAD], call[PB_PUC_CALL];

	pb_learn_grab(w, thread, (uintptr_t)w->T, sizeof thread);
	pb_learn_grab(w, call, pb_puc_word(thread, l->thread.ci), sizeof call);
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

static void run_with(struct pb_learner *w, lua_Alloc alloc)
{
	int status;

	w->alloc = lua_getallocf(w->T, &w->ud);
	lua_setallocf(w->T, alloc, w);
	status = lua_pcall(w->T, 0, 0, 0);
	lua_setallocf(w->T, w->alloc, w->ud);
	if (status != 0)
		pb_learn_fail(w, "allocation");
}

/* --- the ways that find the lines ----------------------------------------------------------------------------------------- */

static void add_way(struct pb_puc_ways *ways, const struct pb_puc_loop *loop, struct pf_puc_pc pc)
{
	if (ways->n < PB_PUC_WAYS)
		ways->way[ways->n++] = (struct pb_puc_way){.loop = loop, .pc = pc};
}

static void add_registers(struct pb_puc_ways *ways, const struct pb_puc_loop *loop, uint32_t registers, struct pf_puc_pc pc)
{
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < PF_REGISTERS; k++) {
			pc.registers = i % 2 ? PF_PUC_CURRENT : PF_PUC_NEXT;
			pc.preferred = (uint8_t)k;
			pc.alone = i > 1;
			if (registers >> k & 1)
				add_way(ways, loop, pc);
		}
}

/* The ways without a register or without a word come last: among equally good ways the first is taken, and those with both find the
 * pc more often. */
static void add_ways(struct pb_puc_ways *ways, const struct pb_puc_loop *loop, uint32_t registers, int saved)
{
	struct pf_puc_pc pc = {.saved = (uint8_t)saved};

	for (unsigned i = 0; i < loop->n; i++)
		for (pc.word = PF_PUC_NEXT, pc.below = loop->words[i]; pc.word <= PF_PUC_CURRENT; pc.word++)
			add_registers(ways, loop, registers, pc);
	add_registers(ways, loop, registers, (struct pf_puc_pc){.saved = (uint8_t)saved});
	for (unsigned i = 0; i < loop->n; i++)
		for (pc.word = PF_PUC_NEXT, pc.below = loop->words[i]; pc.word <= PF_PUC_CURRENT; pc.word++)
			add_way(ways, loop, pc);
}

static void add_called(struct pb_learner *w)
{
	add_way(&w->called, NULL, (struct pf_puc_pc){0});
	for (const struct pb_puc_loop *loop = w->loops; loop < w->loops + w->n_loops; loop++)
		for (int saved = 0; saved < 2; saved++)
			add_ways(&w->called, loop, loop->registers | 1u << ANY_REGISTER, saved);
}

/* While the loop itself runs, any register may have the pc. */
void pb_puc_add_running(struct pb_learner *w, const struct pb_puc_loop *loop, const struct pf_registers *r)
{
	uint32_t registers = 0;

	for (unsigned i = 0; i < r->n; i++)
		registers |= is_of_probe(w, r->general[i]) ? 1u << i : 0;
	if (registers)
		add_ways(&w->running, loop, registers, 0);
}

static void keep_right(struct pb_puc_ways *ways)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ways->n; i++)
		if ((ways->way[i].lines & (LINES | OTHER_LINE)) == LINES)
			ways->way[n++] = ways->way[i];
	ways->n = n > 1 && !ways->way[0].loop ? 1 : n;
}

void pb_puc_learn_allocation(struct pb_learner *w)
{
	struct pf_puc_layout *l = w->l;

	l->loop.code = pf_own_code();
	lua_pushcfunction(w->S, grows);
	lua_xmove(w->S, w->T, 1);
	run_with(w, see_stack);
	if (l->relative)
		l->thread.stack = pb_puc_chosen(w, "stack");
	w->choices = 0;
	pb_puc_probe(w, w->protos[PB_PUC_ALLOCATES - PB_PUC_ONE]);
	pb_puc_give(w, PB_PUC_ALLOCATES, PB_PUC_ALLOCATES);
	run_with(w, see_frames);
	add_called(w);
	pb_puc_give(w, PB_PUC_ALLOCATES, PB_PUC_ALLOCATES);
	run_with(w, see_lines);
	keep_right(&w->called);
	if (w->called.n == 0)
		pb_learn_fail(w, "this build of Lua does not keep the address of the running instruction where it can be found");
	pb_puc_step(w);
}
#endif

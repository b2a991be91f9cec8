/* The second part of learn_puc.c: functions and their values, and where the address of the next instruction is stored. */
#include "binding/stack/learn_puc.h"

#include "core/base/thread.h"

#if !PB_LUAJIT
static const void *pointer(struct pb_learner *w, int i)
{
	return lua_topointer(w->S, i);
}

/* Find a byte with one value in all Lua closures and another one in all C closures. */
static void learn_kinds(struct pb_learner *w)
{
	uint8_t o[PB_PUC_LIGHT_MORE + 1][64];
	struct pf_puc_layout *l = w->l;

	for (int i = PB_PUC_ONE; i <= PB_PUC_LIGHT_MORE; i++)
		pb_learn_grab(w, o[i], pb_address(pointer(w, i)), sizeof o[i]);
	for (unsigned b = sizeof(void *); b < 2 * sizeof(void *); b++) {
		int differ = o[PB_PUC_ONE][b] != o[PB_PUC_C_ONE][b] && o[PB_PUC_C_ONE][b] == o[PB_PUC_C_MORE][b];

		for (int i = PB_PUC_ONE_MORE; i <= PB_PUC_ALLOCATES; i++)
			differ = differ && o[i][b] == o[PB_PUC_ONE][b];
		if (differ)
			pb_puc_choose(w, b);
	}
	l->closure.kind = pb_puc_chosen(w, "kind of closure");
	l->closure.lua = o[PB_PUC_ONE][l->closure.kind];
	l->closure.c = o[PB_PUC_C_ONE][l->closure.kind];
#define WORD(name) pb_puc_word(o[PB_PUC_##name], p)
	PB_PUC_WORDS(p, sizeof o[0])
	if (WORD(ONE) && WORD(ONE) % sizeof(void *) == 0 && WORD(ONE) == WORD(ONE_MORE) && WORD(TWO) == WORD(TWO_MORE) &&
	    WORD(ONE) != WORD(TWO) && WORD(PLAIN) != WORD(JUMPS) && WORD(PLAIN) != WORD(OUTER))
		pb_puc_choose(w, p);
	l->closure.proto = pb_puc_chosen(w, "prototype");
	PB_PUC_WORDS(p, sizeof o[0])
	if (WORD(C_ONE) == (uintptr_t)lua_tocfunction(w->S, PB_PUC_C_ONE) &&
	    WORD(C_MORE) == (uintptr_t)lua_tocfunction(w->S, PB_PUC_C_MORE))
		pb_puc_choose(w, p);
#undef WORD
	l->closure.code = pb_puc_chosen(w, "C function");
	l->closure.size = (uint16_t)((l->closure.proto > l->closure.code ? l->closure.proto : l->closure.code) + sizeof(void *));
	if (l->closure.size <= l->closure.kind)
		pb_learn_fail(w, "kind of closure");
	for (int i = PB_PUC_ONE; i <= PB_PUC_ALLOCATES; i++)
		w->protos[i - PB_PUC_ONE] = pb_puc_word(o[i], l->closure.proto);
}

/* T's stack, while T is in no call and has known values: a table, Lua functions, C functions. Nothing is above them. */
static void learn_values(struct pb_learner *w)
{
	struct pf_puc_layout *l = w->l;
	uint8_t thread[PB_PUC_THREAD], call[PB_PUC_CALL], slots[512];
	unsigned size = 0;
	enum { SLOT = 2 - PB_PUC_ONE }; /* of an index of S's stack */

	lua_pushvalue(w->T, LUA_REGISTRYINDEX);
	pb_puc_give(w, PB_PUC_ONE, PB_PUC_LIGHT_MORE);
	pb_puc_grab_thread(w, w->T, thread);
	pb_learn_grab(w, call, pb_puc_word(thread, l->thread.ci), sizeof call);
	PB_PUC_WORDS(o, PB_PUC_CALL)
	{
		pb_learn_grab(w, slots, pb_puc_word(call, o), sizeof slots);
		for (unsigned s = 8; s <= 16; s += 4)
			if (w->choices == 0 && pb_puc_word(slots, s) == pb_address(pointer(w, LUA_REGISTRYINDEX)) &&
			    pb_puc_word(slots, s * (PB_PUC_PLAIN + SLOT)) == pb_address(pointer(w, PB_PUC_PLAIN)) &&
			    pb_puc_word(slots, s * (PB_PUC_C_ONE + SLOT)) == pb_address(pointer(w, PB_PUC_C_ONE))) {
				size = s;
				pb_puc_choose(w, o);
			}
	}
	l->call.func = pb_puc_chosen(w, "func");
	pb_learn_grab(w, slots, pb_puc_word(call, l->call.func), sizeof slots);
#define TAG(name) slots[size * (unsigned)(PB_PUC_##name + SLOT) + o]
	for (unsigned o = (unsigned)sizeof(void *); o < size; o++)
		if (w->choices == 0 && TAG(ONE) == TAG(PLAIN) && TAG(C_ONE) == TAG(C_MORE) && TAG(LIGHT) == TAG(LIGHT_MORE) &&
		    slots[size + o] != TAG(ONE) && slots[size + o] != TAG(C_ONE) && slots[size + o] != TAG(LIGHT)) {
			pb_puc_choose(w, o);
			l->value.lua = TAG(ONE);
			l->value.c = TAG(C_ONE);
			l->value.light = TAG(LIGHT);
		}
	l->value.tag = pb_puc_chosen(w, "type of a value");
#undef TAG
	PB_PUC_WORDS(o, PB_PUC_THREAD)
	if (pb_puc_word(thread, o) == pb_puc_word(call, l->call.func) + size * (unsigned)(lua_gettop(w->T) + 1))
		pb_puc_choose(w, o);
	l->thread.top = pb_puc_chosen(w, "top");
	lua_settop(w->T, 0);
}

/* The calls on inner's three lines are equally far apart, and so are their return addresses. */
static void learn_saved(struct pb_learner *w)
{
	const struct pb_puc_look *k = w->looks;

	PB_PUC_WORDS(o, PB_PUC_CALL)
	{
		const uint64_t a = pb_puc_word(k[2].levels[1].call, o), b = pb_puc_word(k[3].levels[1].call, o);
		const uint64_t c = pb_puc_word(k[4].levels[1].call, o);

		if (a && b - a == c - b && b > a && b - a <= 32 && (b - a) % 4 == 0)
			pb_puc_choose(w, o);
	}
	w->l->call.pc = pb_puc_chosen(w, "savedpc");
}

static PF_THREAD_LOCAL struct pb_learner *stepping;

static void step(lua_State *L, lua_Debug *ar)
{
	struct pb_learner *w = stepping;
	struct pb_puc_step *s = &w->steps[w->n_steps];
	uint64_t id;

	if (w->n_steps == PB_PUC_STEPS)
		return;
	w->n_steps++;
	pb_puc_grab_thread(w, L, s->thread);
	s->pc = 0;
	w->m->read(w->m, &s->pc, pb_puc_call_at(w, s->thread, ar, &id) + w->l->call.pc, sizeof(void *));
	lua_getinfo(L, "l", ar); /* 5.1 stores the thread's savedpc in the CallInfo here */
	s->line = ar->currentline;
}

/* Run a function that has no jumps, instruction by instruction. */
static void steps(struct pb_learner *w, int function)
{
	const struct pf_puc_layout *l = w->l;

	w->n_steps = 0;
	stepping = w;
	pb_puc_give(w, function, function);
	lua_sethook(w->T, step, LUA_MASKCOUNT, 1);
	pb_puc_call(w, 0);
	lua_sethook(w->T, NULL, 0, 0);
	if (w->n_steps < 4 || w->n_steps == PB_PUC_STEPS)
		pb_learn_fail(w, "steps");
	if (l->thread.pc != PF_PUC_NONE)
		for (unsigned i = 0; i < w->n_steps; i++)
			w->steps[i].pc = pb_puc_word(w->steps[i].thread, l->thread.pc);
}

static int rises(const struct pb_learner *w, int offset)
{
	for (unsigned i = 1; i < w->n_steps; i++) {
		const struct pb_puc_step *s = &w->steps[i];

		if (offset < 0 ? s->pc != s[-1].pc + 4
				: pb_puc_word(s->thread, (unsigned)offset) != pb_puc_word(s[-1].thread, (unsigned)offset) + 4)
			return 0;
	}
	return 1;
}

static void keep_steps(const struct pb_learner *w, struct pb_puc_code *c)
{
	c->n = (int32_t)w->n_steps;
	c->code = w->steps[0].pc - 4;
	for (unsigned i = 0; i < w->n_steps; i++)
		c->lines[i] = w->steps[i].line;
}

static void learn_steps(struct pb_learner *w)
{
	struct pf_puc_layout *l = w->l;

	l->thread.pc = PF_PUC_NONE;
	steps(w, PB_PUC_PLAIN);
	if (!rises(w, -1)) {
		PB_PUC_WORDS(o, PB_PUC_THREAD)
		if (rises(w, (int)o))
			pb_puc_choose(w, o);
		l->thread.pc = pb_puc_chosen(w, "the thread's savedpc");
		steps(w, PB_PUC_PLAIN);
	}
	keep_steps(w, &w->plain);
	steps(w, PB_PUC_JUMPS);
	keep_steps(w, &w->jumps);
}

void pb_puc_learn_functions(struct pb_learner *w)
{
	learn_kinds(w);
	learn_values(w);
	learn_saved(w);
	learn_steps(w);
}
#endif

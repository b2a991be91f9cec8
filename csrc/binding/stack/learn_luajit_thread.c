/* See learn_luajit.h: the global state, threads, values, and the interpreter's frames on the C stack. */
#include "binding/stack/learn_luajit.h"

#if PB_LUAJIT
#include <string.h>

enum { THREAD = 128, CFRAME = PB_LUAJIT_CFRAME };

/* --- threads and values ---------------------------------------------------------------------------------------------- */

/* Two threads refer to the global state at the same offset. It lies right after the main thread, which refers to it too. */
static void learn_global(struct pb_learner *w)
{
	const uint64_t a = pb_address(w->S), b = pb_address(w->T);
	struct pb_luajit_choice place = {0, 0};

	PB_LUAJIT_WORDS(o, 64)
	{
		const uint64_t global = pb_luajit_word(w, a + o);
		struct pb_luajit_choice below = {0, 0};

		if (o == 0 || global % 8 || !global || pb_luajit_word(w, b + o) != global)
			continue;
		for (unsigned d = 64; d <= 256; d += 8)
			if (pb_luajit_word(w, global - d + o) == global)
				pb_luajit_choose(&below, d);
		if (below.n == 1) {
			pb_luajit_choose(&place, o);
			w->global = global;
			w->l->main_below = (uint16_t)below.at;
		}
	}
	w->l->thread_global = pb_luajit_chosen(w, &place, "a thread's global state");
}

/* Called with the two known numbers, a C function, a Lua function, a thread, a string and a table. */
static void look_at_values(struct pb_learner *w, lua_State *L)
{
	const uint64_t thread = pb_address(L);
	struct pf_luajit_layout *l = w->l;
	struct pb_luajit_choice base = {0, 0}, stack = {0, 0}, type = {0, 0}, text_at = {0, 0};
	uint64_t values[7], objects[7], words[2];

	PB_LUAJIT_WORDS(o, THREAD)
	{
		pb_learn_grab(w, words, pb_luajit_word(w, thread + o), sizeof words);
		if (memcmp(words, w->known, sizeof w->known) == 0)
			pb_luajit_choose(&base, o);
	}
	l->thread_base = pb_luajit_chosen(w, &base, "a thread's base");
	pb_learn_grab(w, values, pb_luajit_word(w, thread + l->thread_base), sizeof values);
	for (int i = 2; i < 7; i++) {
		objects[i] = pf_luajit_address(values[i]);
		if (i != 5 && objects[i] != pb_address(lua_topointer(L, i + 1)))
			pb_learn_fail(w, "values");
	}
	l->tag_function = pf_luajit_tag(values[2]);
	l->tag_thread = pf_luajit_tag(values[4]);
	if (pf_luajit_tag(values[3]) != l->tag_function)
		pb_learn_fail(w, "tags of values");
	l->type_function = (uint8_t)~l->tag_function;
	l->type_thread = (uint8_t)~l->tag_thread;
	l->type_prototype = (uint8_t)(l->type_function - 1); /* the types in LuaJIT's order */
	l->type_trace = (uint8_t)(l->type_function + 1);
	for (unsigned o = 8; o < 16; o++) {
		int same = 1;

		for (int i = 2; i < 7; i++)
			same = same && pb_luajit_byte(w, objects[i] + o) == (uint8_t) ~pf_luajit_tag(values[i]);
		if (same)
			pb_luajit_choose(&type, o);
	}
	l->object_type = pb_luajit_chosen(w, &type, "an object's type");
	/* The first slot of a stack has its thread. */
	PB_LUAJIT_WORDS(o, THREAD)
	if (pb_luajit_word(w, pb_luajit_word(w, thread + o)) == pf_luajit_value(l->tag_thread, thread))
		pb_luajit_choose(&stack, o);
	l->thread_stack = pb_luajit_chosen(w, &stack, "a thread's stack");
	for (unsigned o = 8; o <= 64; o++)
		if (pb_address(lua_tostring(L, 6)) == objects[5] + o)
			pb_luajit_choose(&text_at, o);
	l->string_text = pb_luajit_chosen(w, &text_at, "a string's text");
	for (unsigned o = 8; o < l->string_text; o += 4)
		if (pb_luajit_number(w, objects[5] + o) == lua_objlen(L, 6))
			l->string_size = (uint16_t)o;
	if (!l->string_size)
		pb_learn_fail(w, "a string's size");
}

/* The thread's innermost frame on the C stack lies between look's and the learner's. */
static void learn_cframe(struct pb_learner *w, lua_State *L)
{
	const uint64_t here = pb_address(__builtin_frame_address(0));
	struct pb_luajit_choice place = {0, 0};

	PB_LUAJIT_WORDS(o, THREAD)
	{
		const uint64_t word = pb_luajit_word(w, pb_address(L) + o) & ~UINT64_C(3);

		if (word > here && word < w->outermost)
			pb_luajit_choose(&place, o);
	}
	w->l->thread_cframe = pb_luajit_chosen(w, &place, "a thread's C frame");
}

static uint64_t cframe(const struct pb_learner *w, const lua_State *L)
{
	return pb_luajit_word(w, pb_address(L) + w->l->thread_cframe) & ~UINT64_C(3);
}

/* A thread's stack is one block, so the allocator sees its size when it grows. */
static void look_at_growth(struct pb_learner *w, lua_State *L)
{
	struct pb_luajit_places slots = {{0}};
	const uint64_t thread = pb_address(L);

	for (int more = 200; more <= 800; more *= 2) {
		w->block = pb_luajit_word(w, thread + w->l->thread_stack);
		w->block_size = 0;
		lua_checkstack(L, more);
		PB_LUAJIT_NARROW(slots, THREAD, w->block_size && pb_luajit_number(w, thread + o) == w->block_size / PF_LUAJIT_SLOT)
	}
	w->block = 0;
	w->l->thread_slots = (uint16_t)pb_luajit_only(w, &slots, THREAD, "a thread's stack's size");
}

void pb_luajit_learn_threads(struct pb_learner *w)
{
	static unsigned runs;
	lua_State *S = w->S;

	learn_global(w);
	w->look = look_at_values;
	/* They differ from an earlier learner's, whose memory may be reused. */
	w->known[0] = 1234567.890625 + runs++;
	w->known[1] = -7654321.109375;
	lua_pushnumber(S, w->known[0]);
	lua_pushnumber(S, w->known[1]);
	lua_pushvalue(S, PB_LUAJIT_C_ONE);
	lua_pushvalue(S, PB_LUAJIT_PLAIN);
	lua_pushthread(S);
	lua_pushliteral(S, "a text of 22 characters");
	lua_pushvalue(S, PB_LUAJIT_KEEP);
	pb_luajit_run(w, PB_LUAJIT_LOOK, 7);
	w->look = look_at_growth;
	pb_luajit_run(w, PB_LUAJIT_LOOK, 0);
}

/* --- the interpreter's frames ---------------------------------------------------------------------------------------- */

/* In a metamethod, the interpreter has saved the address of the instruction next to the reference to the thread. The C function
 * that entered the interpreter may have saved the same reference farther up. */
static void look_in_metamethod(struct pb_learner *w, lua_State *L)
{
	const uint64_t at = cframe(w, L), code = pb_luajit_code(w, PB_LUAJIT_METAMETHOD), size = 4 * (uint64_t)pb_luajit_size(w, code);
	struct pb_luajit_choice thread = {0, 0}, pc = {0, 0};

	PB_LUAJIT_WORDS(o, CFRAME)
	{
		const uint64_t word = pb_luajit_word(w, at + o);

		if (word <= code || word - code > size || word % 4)
			continue;
		pb_luajit_choose(&pc, o);
		if (o && pb_luajit_word(w, at + o - 8) == pb_address(L))
			pb_luajit_choose(&thread, o - 8);
		else if (pb_luajit_word(w, at + o + 8) == pb_address(L))
			pb_luajit_choose(&thread, o + 8);
	}
	w->l->cframe_thread = pb_luajit_chosen(w, &thread, "a C frame's thread");
	w->l->cframe_pc = pb_luajit_chosen(w, &pc, "a C frame's instruction");
}

static void look_inside(struct pb_learner *w, lua_State *L)
{
	const uint64_t at = cframe(w, L);

	PB_LUAJIT_WORDS(o, CFRAME) w->inner_words[o / 8] = pb_luajit_word(w, at + o);
}

/* The inner frame has saved the registers of its caller. One of them would contain the address of this frame, if it had been read
 * before the call. */
static void look_outside(struct pb_learner *w, lua_State *L)
{
	uint64_t at;

	w->look = look_inside;
	lua_pushvalue(w->S, PB_LUAJIT_LOOK);
	lua_xmove(w->S, L, 1);
	lua_call(L, 0, 0);
	w->look = look_outside;
	at = cframe(w, L);
	PB_LUAJIT_NARROW(w->previous, CFRAME,
			 o % 8 == 0 && pb_luajit_word(w, at + o) == 0 && (w->inner_words[o / 8] & ~UINT64_C(3)) == at)
}

/* lua_load calls the reader with a frame on the C stack but none on Lua's: its number of results is negative. */
static const char *read_chunk(lua_State *L, void *data, size_t *size)
{
	struct pb_learner *w = data;
	const uint64_t at = cframe(w, L), stack = pb_luajit_word(w, pb_address(L) + w->l->thread_stack);
	const uint64_t top = pb_luajit_base(w, L) + 8 * (uint64_t)lua_gettop(L);
	struct pb_luajit_choice place = {0, 0};

	for (unsigned o = 0; o + 4 <= CFRAME; o += 4)
	if (pb_luajit_number(w, at + o) == (uint32_t) - (int32_t)(top - stack))
		pb_luajit_choose(&place, o);
	w->l->cframe_results = place.n == 1 ? (uint16_t)place.at : 0;
	*size = 0;
	return NULL;
}

static void load_chunk(struct pb_learner *w, lua_State *L)
{
	if (lua_load(L, read_chunk, w, "=perf") != 0 || !w->l->cframe_results)
		pb_learn_fail(w, "a C frame's results");
	lua_pop(L, 1);
}

void pb_luajit_learn_cframes(struct pb_learner *w)
{
	lua_State *S = w->S;

	w->look = learn_cframe;
	pb_luajit_run(w, PB_LUAJIT_PLAIN, 0);
	lua_newtable(S);
	lua_newtable(S);
	lua_pushvalue(S, PB_LUAJIT_LOOK);
	lua_setfield(S, -2, "__index");
	lua_setmetatable(S, -2);
	w->look = look_in_metamethod;
	pb_luajit_run(w, PB_LUAJIT_METAMETHOD, 1);
	w->look = look_outside;
	pb_luajit_run(w, PB_LUAJIT_PLAIN, 0);
	w->l->cframe_previous = (uint16_t)pb_luajit_only(w, &w->previous, CFRAME, "a C frame's previous one");
	w->look = load_chunk;
	pb_luajit_run(w, PB_LUAJIT_LOOK, 0);
}
#endif

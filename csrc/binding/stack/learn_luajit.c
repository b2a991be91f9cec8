/* See learn_luajit.h. Each field is found by known values; if more than one place is possible for a field, or none, the learning
 * ends. All of it runs in threads of our own. */
#include "binding/stack/learn_luajit.h"

#if PB_LUAJIT
#include <errno.h>
#include <string.h>

enum { THREAD = 128, FUNCTION = 64, CFRAME = 80, VM_INTERPRETER = -1, VM_C = -2, C_STACK = 1 << 16 };

/* The loops at the end are compiled. They keep numbers across a call that allocates, the second more than there are registers. */
static const char text[] = "local look = ...\n"
			   "local function plain()\n"
			   "  look()\n"
			   "\n"
			   "  look()\n"
			   "end\n"
			   "local function longer(a)\n"
			   "  look() look()\n"
			   "\n"
			   "\n"
			   "\n"
			   "  look()\n"
			   "\n"
			   "end\n"
			   "local function return_one(a) return a end\n"
			   "local function return_some(a) return a, a end\n"
			   "local function return_all(...) return ... end\n"
			   "local function tail_call(a) return look(a) end\n"
			   "local function tail_call_all(...) return look(...) end\n"
			   "local function jumps(a)\n"
			   "  while a do a = look() end\n"
			   "end\n"
			   "local function metamethod(t)\n"
			   "  local a = t.a\n"
			   "  return a\n"
			   "end\n"
			   "local function allocates(keep)\n"
			   "  local t = {}\n"
			   "  keep[1] = t\n"
			   "end\n"
			   "local function fills()\n"
			   "  local t = {1}\n"
			   "end\n"
			   "local function joins(a, b)\n"
			   "  local c = a .. b\n"
			   "end\n"
			   "local function few(keep, n)\n"
			   "  local a, b, c, d = 1, 2, 3, 4\n"
			   "  for i = 1, n do\n"
			   "    a = a + i b = b + a c = c + b d = d + c\n"
			   "    keep[1] = {}\n"
			   "  end\n"
			   "  return a, b, c, d\n"
			   "end\n"
			   "local function many(keep, n)\n"
			   "  local a, b, c, d, e, f, g, h, k, l, m, o = 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3\n"
			   "  for i = 1, n do\n"
			   "    a = a + i b = b + a c = c + b d = d + c e = e + d f = f + e g = g + f h = h + g k = k + h l = l + k m = m + l\n"
			   "    keep[1] = {}\n"
			   "    o = o + m\n"
			   "  end\n"
			   "  return a, b, c, d, e, f, g, h, k, l, m, o\n"
			   "end\n"
			   "local function kinds(keep, n)\n"
			   "  for i = 1, n do\n"
			   "    keep[1] = {}\n"
			   "    keep[2] = {i, 1}\n"
			   "    keep[3] = i .. ''\n"
			   "    keep[4] = i .. ' ' .. i\n"
			   "  end\n"
			   "end\n"
			   "return plain, longer, return_one, return_some, return_all, tail_call, tail_call_all, jumps, metamethod, allocates,\n"
			   "  fills, joins, few, many, kinds\n";

/* --- looking -------------------------------------------------------------------------------------------------------- */

void pb_luajit_fail(struct pb_luajit_learner *w, const char *what)
{
	w->why = what;
	lua_pushnil(w->now);
	lua_error(w->now);
}

/* A read that faults takes some microseconds, so only possible addresses are read. */
static int is_address(uint64_t at)
{
	return at >> 16 && !(at >> 47);
}

void pb_luajit_grab(const struct pb_luajit_learner *w, void *to, uint64_t at, size_t n)
{
	memset(to, 0, n);
	for (size_t i = 0; is_address(at) && i < n; i += 8)
		if (w->m->read(w->m, (char *)to + i, at + i, 8) < 0)
			memset((char *)to + i, 0, 8);
}

uint64_t pb_luajit_word(const struct pb_luajit_learner *w, uint64_t at)
{
	uint64_t word = 0;

	return is_address(at) && w->m->read(w->m, &word, at, sizeof word) == 0 ? word : 0;
}

uint32_t pb_luajit_number(const struct pb_luajit_learner *w, uint64_t at)
{
	uint32_t number = 0;

	return is_address(at) && w->m->read(w->m, &number, at, sizeof number) == 0 ? number : 0;
}

unsigned pb_luajit_only(struct pb_luajit_learner *w, const struct pb_luajit_places *places, unsigned n, const char *what)
{
	unsigned found = 0, at = 0;

	for (unsigned i = 0; i < n / 4; i++)
		if (!places->out[i]) {
			found++;
			at = i * 4;
		}
	if (found != 1)
		pb_luajit_fail(w, what);
	return at;
}

uint8_t pb_luajit_byte(const struct pb_luajit_learner *w, uint64_t at)
{
	uint8_t byte = 0;

	return is_address(at) && w->m->read(w->m, &byte, at, 1) == 0 ? byte : 0;
}

uint16_t pb_luajit_chosen(struct pb_luajit_learner *w, const struct pb_luajit_choice *c, const char *what)
{
	if (c->n != 1)
		pb_luajit_fail(w, what);
	return (uint16_t)c->at;
}

/* --- threads and values ---------------------------------------------------------------------------------------------- */

/* The global state: two threads refer to it at the same place; it lies right after the main thread, which refers to it too. */
static void learn_global(struct pb_luajit_learner *w)
{
	const uint64_t a = pb_luajit_address(w->S), b = pb_luajit_address(w->T);
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

/* Called with the two numbers, a C function, a Lua function, a thread, a string and a table. */
static void look_at_values(struct pb_luajit_learner *w, lua_State *L)
{
	const uint64_t thread = pb_luajit_address(L);
	struct pf_luajit_layout *l = w->l;
	struct pb_luajit_choice base = {0, 0}, stack = {0, 0}, type = {0, 0}, text_at = {0, 0};
	uint64_t values[7], objects[7], words[2];

	PB_LUAJIT_WORDS(o, THREAD)
	{
		pb_luajit_grab(w, words, pb_luajit_word(w, thread + o), sizeof words);
		if (memcmp(words, w->known, sizeof w->known) == 0)
			pb_luajit_choose(&base, o);
	}
	l->thread_base = pb_luajit_chosen(w, &base, "a thread's base");
	pb_luajit_grab(w, values, pb_luajit_word(w, thread + l->thread_base), sizeof values);
	for (int i = 2; i < 7; i++) {
		objects[i] = values[i] & ((UINT64_C(1) << 47) - 1);
		if (i != 5 && objects[i] != pb_luajit_address(lua_topointer(L, i + 1)))
			pb_luajit_fail(w, "values");
	}
	l->tag_function = (uint32_t)(values[2] >> 47);
	l->tag_thread = (uint32_t)(values[4] >> 47);
	if (values[3] >> 47 != l->tag_function)
		pb_luajit_fail(w, "tags of values");
	l->type_function = (uint8_t)~l->tag_function;
	l->type_thread = (uint8_t)~l->tag_thread;
	l->type_prototype = (uint8_t)(l->type_function - 1); /* the types in LuaJIT's order */
	l->type_trace = (uint8_t)(l->type_function + 1);
	for (unsigned o = 8; o < 16; o++) {
		int same = 1;

		for (int i = 2; i < 7; i++)
			same = same && pb_luajit_byte(w, objects[i] + o) == (uint8_t) ~(values[i] >> 47);
		if (same)
			pb_luajit_choose(&type, o);
	}
	l->object_type = pb_luajit_chosen(w, &type, "an object's type");
	/* The first slot of a stack has its thread. */
	PB_LUAJIT_WORDS(o, THREAD)
	if (pb_luajit_word(w, pb_luajit_word(w, thread + o)) == ((uint64_t)l->tag_thread << 47 | thread))
		pb_luajit_choose(&stack, o);
	l->thread_stack = pb_luajit_chosen(w, &stack, "a thread's stack");
	for (unsigned o = 8; o <= 64; o++)
		if (pb_luajit_address(lua_tostring(L, 6)) == objects[5] + o)
			pb_luajit_choose(&text_at, o);
	l->string_text = pb_luajit_chosen(w, &text_at, "a string's text");
	for (unsigned o = 8; o < l->string_text; o += 4)
		if (pb_luajit_number(w, objects[5] + o) == lua_objlen(L, 6))
			l->string_size = (uint16_t)o;
	if (!l->string_size)
		pb_luajit_fail(w, "a string's size");
}

/* The thread's innermost frame on the C stack lies between look's and the learner's. */
static void learn_cframe(struct pb_luajit_learner *w, lua_State *L)
{
	const uint64_t here = pb_luajit_address(__builtin_frame_address(0));
	struct pb_luajit_choice place = {0, 0};

	PB_LUAJIT_WORDS(o, THREAD)
	{
		const uint64_t word = pb_luajit_word(w, pb_luajit_address(L) + o) & ~UINT64_C(3);

		if (word > here && word < here + C_STACK)
			pb_luajit_choose(&place, o);
	}
	w->l->thread_cframe = pb_luajit_chosen(w, &place, "a thread's C frame");
}

static uint64_t cframe(const struct pb_luajit_learner *w, const lua_State *L)
{
	return pb_luajit_word(w, pb_luajit_address(L) + w->l->thread_cframe) & ~UINT64_C(3);
}

/* --- the interpreter's frames ---------------------------------------------------------------------------------------- */

/* Called as a metamethod: the interpreter has saved the address of the instruction, next to the reference to the thread. The C
 * function that entered the interpreter may have saved the same reference farther up. */
static void look_in_metamethod(struct pb_luajit_learner *w, lua_State *L)
{
	const uint64_t at = cframe(w, L), code = pb_luajit_code(w, PB_LUAJIT_METAMETHOD), size = 4 * (uint64_t)pb_luajit_size(w, code);
	struct pb_luajit_choice thread = {0, 0}, pc = {0, 0};

	PB_LUAJIT_WORDS(o, CFRAME)
	{
		const uint64_t word = pb_luajit_word(w, at + o);

		if (word <= code || word - code > size || word % 4)
			continue;
		pb_luajit_choose(&pc, o);
		if (o && pb_luajit_word(w, at + o - 8) == pb_luajit_address(L))
			pb_luajit_choose(&thread, o - 8);
		else if (pb_luajit_word(w, at + o + 8) == pb_luajit_address(L))
			pb_luajit_choose(&thread, o + 8);
	}
	w->l->cframe_thread = pb_luajit_chosen(w, &thread, "a C frame's thread");
	w->l->cframe_pc = pb_luajit_chosen(w, &pc, "a C frame's instruction");
}

static void look_inside(struct pb_luajit_learner *w, lua_State *L)
{
	const uint64_t at = cframe(w, L);

	PB_LUAJIT_NARROW(w->previous, CFRAME, o % 8 == 0 && (pb_luajit_word(w, at + o) & ~UINT64_C(3)) == w->outer_cframe)
}

static void look_outside(struct pb_luajit_learner *w, lua_State *L)
{
	const uint64_t at = cframe(w, L);

	PB_LUAJIT_NARROW(w->previous, CFRAME, o % 8 == 0 && pb_luajit_word(w, at + o) == 0)
	w->outer_cframe = at;
	w->look = look_inside;
	lua_pushvalue(w->S, PB_LUAJIT_LOOK);
	lua_xmove(w->S, L, 1);
	lua_call(L, 0, 0);
	w->look = look_outside;
}

/* A chunk's reader is called with a frame on the C stack but none on Lua's: its number of results is negative. */
static const char *read_chunk(lua_State *L, void *data, size_t *size)
{
	struct pb_luajit_learner *w = data;
	const uint64_t at = cframe(w, L), stack = pb_luajit_word(w, pb_luajit_address(L) + w->l->thread_stack);
	const uint64_t top = pb_luajit_base(w, L) + 8 * (uint64_t)lua_gettop(L);
	struct pb_luajit_choice place = {0, 0};

	for (unsigned o = 0; o + 4 <= CFRAME; o += 4)
	if (pb_luajit_number(w, at + o) == (uint32_t) - (int32_t)(top - stack))
		pb_luajit_choose(&place, o);
	w->l->cframe_results = place.n == 1 ? (uint16_t)place.at : 0;
	*size = 0;
	return NULL;
}

static void load_chunk(struct pb_luajit_learner *w, lua_State *L)
{
	if (lua_load(L, read_chunk, w, "=perf") != 0 || !w->l->cframe_results)
		pb_luajit_fail(w, "a C frame's results");
	lua_pop(L, 1);
}

/* --- the global state ------------------------------------------------------------------------------------------------ */

static void look_at_state(struct pb_luajit_learner *w, int32_t vmstate, const lua_State *running)
{
	PB_LUAJIT_NARROW(w->vmstate, PB_LUAJIT_GLOBAL, pb_luajit_number(w, w->global + o) == (uint32_t)vmstate)
	PB_LUAJIT_NARROW(w->running, PB_LUAJIT_GLOBAL, o % 8 == 0 && pb_luajit_word(w, w->global + o) == pb_luajit_address(running))
}

static void look_in_c(struct pb_luajit_learner *w, lua_State *L)
{
	look_at_state(w, VM_C, L);
}

static void look_in_interpreter(struct pb_luajit_learner *w)
{
	w->looks++;
	look_at_state(w, VM_INTERPRETER, w->T);
}

static void *allocate(void *data, void *block, size_t old, size_t size)
{
	struct pb_luajit_learner *w = data;

	if (!block && size && w->allocated)
		w->allocated(w);
	return w->alloc(w->ud, block, old, size);
}

static void learn_state(struct pb_luajit_learner *w)
{
	w->look = look_in_c;
	pb_luajit_run(w, PB_LUAJIT_PLAIN, 0);
	lua_pushvalue(w->S, PB_LUAJIT_PLAIN);
	lua_call(w->S, 0, 0);
	w->looks = 0;
	w->allocated = look_in_interpreter;
	lua_pushvalue(w->S, PB_LUAJIT_KEEP);
	pb_luajit_run(w, PB_LUAJIT_ALLOCATES, 1);
	w->allocated = NULL;
	if (!w->looks)
		pb_luajit_fail(w, "an allocation");
	w->l->global_vmstate = (uint16_t)pb_luajit_only(w, &w->vmstate, PB_LUAJIT_GLOBAL, "the interpreter's state");
	w->l->global_running = (uint16_t)pb_luajit_only(w, &w->running, PB_LUAJIT_GLOBAL, "the running thread");
}

/* --- all of it ------------------------------------------------------------------------------------------------------- */

static int l_look(lua_State *L)
{
	struct pb_luajit_learner *w = lua_touserdata(L, lua_upvalueindex(1));

	w->now = L;
	w->look(w, L);
	w->now = w->S;
	return 0;
}

void pb_luajit_run(struct pb_luajit_learner *w, int probe, int n)
{
	lua_pushvalue(w->S, probe);
	lua_insert(w->S, -n - 1);
	lua_xmove(w->S, w->T, n + 1);
	if (lua_pcall(w->T, n, 0, 0) != 0) {
		w->now = w->S;
		pb_luajit_fail(w, w->why ? w->why : "a probe");
	}
}

static void learn_values(struct pb_luajit_learner *w)
{
	static unsigned runs;
	lua_State *S = w->S;

	w->look = look_at_values;
	/* They differ from those of an earlier learner, whose memory may be used again. */
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
}

static void learn_cframes(struct pb_luajit_learner *w)
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

/* Runs in S. */
static int learn(lua_State *S)
{
	struct pb_luajit_learner *w = lua_touserdata(S, 1);

	lua_settop(S, 0);
	lua_pushlightuserdata(S, w);
	lua_pushcclosure(S, l_look, 1);
	lua_pushcfunction(S, pb_luajit_c_one);
	lua_pushcfunction(S, pb_luajit_c_two);
	lua_newtable(S);
	if (luaL_loadbuffer(S, text, sizeof text - 1, "=perf") != 0)
		pb_luajit_fail(w, "the probe");
	/* Only the loops may be compiled, whatever the program has told the compiler. */
	luaJIT_setmode(S, -1, LUAJIT_MODE_ALLFUNC | LUAJIT_MODE_OFF);
	lua_pushvalue(S, PB_LUAJIT_LOOK);
	lua_call(S, 1, PB_LUAJIT_LOOPS_KINDS - PB_LUAJIT_PLAIN + 1);
	for (int i = PB_LUAJIT_LOOPS_FEW; i <= PB_LUAJIT_LOOPS_KINDS; i++)
		luaJIT_setmode(S, i, LUAJIT_MODE_FUNC | LUAJIT_MODE_ON);
	w->T = lua_newthread(S);
	learn_global(w);
	learn_values(w);
	pb_luajit_learn_functions(w);
	learn_cframes(w);
	learn_state(w);
	pb_luajit_learn_traces(w);
	pb_luajit_check(w);
	return 0;
}

static int learn_once(lua_State *L, const struct pf_memory *m, struct pf_luajit_layout *l, const char **why)
{
	struct pb_luajit_learner w = {.m = m, .l = l, .L = L};
	int r;

	memset(l, 0, sizeof *l);
	w.S = w.now = lua_newthread(L);
	w.alloc = lua_getallocf(L, &w.ud);
	lua_setallocf(L, allocate, &w);
	lua_pushcfunction(w.S, learn);
	lua_pushlightuserdata(w.S, &w);
	r = lua_pcall(w.S, 1, 0, 0);
	lua_setallocf(L, w.alloc, w.ud);
	lua_pop(L, 1);
	if (r == 0)
		return 0;
	*why = w.why ? w.why : "memory";
	memset(l, 0, sizeof *l);
	return -ENOTSUP;
}

int pb_learn_luajit(lua_State *L, const struct pf_memory *m, struct pf_luajit_layout *l, const char **why)
{
	const lua_Hook hook = lua_gethook(L);
	const int mask = lua_gethookmask(L), count = lua_gethookcount(L);
	int r = -ENOTSUP;

	*why = "it is known for 64-bit x86 only";
	memset(l, 0, sizeof *l);
	if (!PF_UNWIND_LUAJIT_HERE)
		return r;
	lua_sethook(L, NULL, 0, 0); /* of all threads: another hook's code would run between the probes' instructions */
	/* One time in thousands the memory beside a field has the value that it should have, too. Then other objects tell. */
	for (int i = 0; r < 0 && i < 3; i++)
		r = learn_once(L, m, l, why);
	lua_sethook(L, hook, mask, count);
	return r;
}

uint64_t pb_luajit_global(lua_State *L, const struct pf_luajit_layout *l)
{
	uintptr_t global;

	memcpy(&global, (const char *)(const void *)L + l->thread_global, sizeof global);
	return global;
}
#endif

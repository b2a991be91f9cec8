/* See learn_luajit.h: functions, the headers before their code, and some instructions. */
#include "binding/stack/learn_luajit.h"

#if PB_LUAJIT

enum { FUNCTION = 64, CODE_MOST = 256 };

int pb_luajit_c_one(lua_State *L)
{
	return lua_gettop(L);
}

int pb_luajit_c_two(lua_State *L)
{
	lua_settop(L, 0);
	return 0;
}

static void learn_functions(struct pb_learner *w)
{
	struct pf_luajit_layout *l = w->l;
	const uint64_t one = pb_luajit_object(w, PB_LUAJIT_C_ONE), two = pb_luajit_object(w, PB_LUAJIT_C_TWO);
	struct pb_luajit_choice id = {0, 0}, c = {0, 0};

	for (unsigned o = 8; o < 16; o++) {
		int differ = o != l->object_type && pb_luajit_byte(w, one + o) == 1 && pb_luajit_byte(w, two + o) == 1;

		for (int i = PB_LUAJIT_PLAIN; i <= PB_LUAJIT_LOOPS_KINDS; i++)
			differ = differ && pb_luajit_byte(w, pb_luajit_object(w, i) + o) == 0;
		if (differ)
			pb_luajit_choose(&id, o);
	}
	l->function_id = pb_luajit_chosen(w, &id, "a function's number");
	PB_LUAJIT_WORDS(o, FUNCTION)
	if (pb_luajit_word(w, one + o) == (uintptr_t)pb_luajit_c_one && pb_luajit_word(w, two + o) == (uintptr_t)pb_luajit_c_two)
		pb_luajit_choose(&c, o);
	l->function_c = pb_luajit_chosen(w, &c, "a function's C code");
}

/* The caller of look. */
static uint64_t caller(struct pb_learner *w, lua_State *L, lua_Debug *ar)
{
	uint64_t at;

	if (!lua_getstack(L, 1, ar) || !lua_getinfo(L, "Slf", ar))
		pb_learn_fail(w, "the probe's calls");
	at = pb_address(lua_topointer(L, -1));
	lua_pop(L, 1);
	return at;
}

/* The link of look's frame is the return address in its caller's code. */
static void look_at_caller(struct pb_learner *w, lua_State *L)
{
	const uint64_t link = pb_luajit_word(w, pb_luajit_base(w, L) - 8);
	lua_Debug ar;
	const uint64_t at = caller(w, L, &ar);

	PB_LUAJIT_NARROW(w->code, FUNCTION,
			 o && o % 8 == 0 && link > pb_luajit_word(w, at + o) && link - pb_luajit_word(w, at + o) < CODE_MOST)
}

/* Called by `plain` and `longer` from known lines. The fields lie before their code, and are found relative to it. */
static void look_at_line(struct pb_learner *w, lua_State *L)
{
	const uint64_t link = pb_luajit_word(w, pb_luajit_base(w, L) - 8);
	uint64_t at, before;
	unsigned index;
	lua_Debug ar;

	at = pb_luajit_word(w, caller(w, L, &ar) + w->l->function_code);
	before = at - PF_LUAJIT_PROTOTYPE;
	index = (unsigned)(link - at) / 4 - 2; /* the header has no entry */
	w->looks++;
	PB_LUAJIT_NARROW(w->lineinfo, PF_LUAJIT_PROTOTYPE,
			 o % 8 == 0 && pb_luajit_word(w, before + o) &&
				 (unsigned)ar.linedefined + pb_luajit_byte(w, pb_luajit_word(w, before + o) + index) ==
					 (unsigned)ar.currentline)
}

static void get_source(struct pb_learner *w, int i, lua_Debug *ar)
{
	lua_pushvalue(w->S, i);
	lua_getinfo(w->S, ">S", ar);
}

/* Find the source of each function. */
static void look_at_sources(struct pb_learner *w)
{
	for (int i = PB_LUAJIT_PLAIN; i <= PB_LUAJIT_LOOPS_KINDS; i++) {
		const uint64_t before = pb_luajit_code(w, i) - PF_LUAJIT_PROTOTYPE;
		unsigned first, last;
		uint64_t name;
		lua_Debug ar;

		get_source(w, i, &ar);
		first = (unsigned)ar.linedefined;
		last = (unsigned)ar.lastlinedefined;
		name = pb_address(ar.source) - w->l->string_text;
		PB_LUAJIT_NARROW(w->first, PF_LUAJIT_PROTOTYPE, pb_luajit_number(w, before + o) == first)
		PB_LUAJIT_NARROW(w->lines, PF_LUAJIT_PROTOTYPE, pb_luajit_number(w, before + o) == last - first)
		PB_LUAJIT_NARROW(w->source, PF_LUAJIT_PROTOTYPE, o % 8 == 0 && pb_luajit_word(w, before + o) == name)
	}
}

/* Functions without a `return` at their end all end with the same instruction, on their last line. */
static const int endless[] = {PB_LUAJIT_PLAIN, PB_LUAJIT_LONGER, PB_LUAJIT_ALLOCATES, PB_LUAJIT_JUMPS};

static void look_at_ends(struct pb_learner *w)
{
	for (unsigned i = 0; i < sizeof endless / sizeof *endless; i++) {
		const uint64_t code = pb_luajit_code(w, endless[i]), before = code - PF_LUAJIT_PROTOTYPE;
		const uint32_t index = pb_luajit_size(w, code) - 2;
		lua_Debug ar;

		get_source(w, endless[i], &ar);
		PB_LUAJIT_NARROW(w->lineinfo, PF_LUAJIT_PROTOTYPE,
				 o % 8 == 0 && pb_luajit_byte(w, pb_luajit_word(w, before + o) + index) == ar.lastlinedefined - ar.linedefined)
	}
}

static uint8_t last_op(struct pb_learner *w, int i, uint32_t before)
{
	const uint64_t code = pb_luajit_code(w, i);

	return pb_luajit_byte(w, code + (pb_luajit_size(w, code) - 1 - before) * 4);
}

/* The size of the code. */
static void learn_size(struct pb_learner *w)
{
	uint32_t last[PF_LUAJIT_PROTOTYPE / 4] = {0};

	for (unsigned i = 0; i < sizeof endless / sizeof *endless; i++) {
		const uint64_t code = pb_luajit_code(w, endless[i]), before = code - PF_LUAJIT_PROTOTYPE;

		PB_LUAJIT_NARROW(w->size, PF_LUAJIT_PROTOTYPE,
				 pb_luajit_number(w, before + o) > 2 && pb_luajit_number(w, before + o) < CODE_MOST / 4 &&
					 (i == 0 || pb_luajit_number(w, code + (uint64_t)(pb_luajit_number(w, before + o) - 1) * 4) == last[i_]))
		if (i == 0)
			for (unsigned k = 0; k < PF_LUAJIT_PROTOTYPE / 4; k++)
				last[k] = w->size.out[k] ? 0 : pb_luajit_number(w, code + (uint64_t)(pb_luajit_number(w, before + k * 4) - 1) * 4);
	}
	w->l->prototype_n = (uint16_t)pb_luajit_only(w, &w->size, PF_LUAJIT_PROTOTYPE, "a function's size");
}

/* Places are counted from PF_LUAJIT_PROTOTYPE bytes before the code. Find where the object begins, which has its type there, and
 * count from its begin. */
static void learn_begin(struct pb_learner *w)
{
	struct pf_luajit_layout *l = w->l;
	uint16_t *const places[] = {&l->prototype_n, &l->prototype_source, &l->prototype_first, &l->prototype_lines, &l->prototype_lineinfo};
	struct pb_luajit_choice begin = {0, 0};

	for (unsigned o = 0; o < PF_LUAJIT_PROTOTYPE; o += 8) {
		int same = 1;

		for (int i = PB_LUAJIT_PLAIN; i <= PB_LUAJIT_LOOPS_KINDS; i++)
			same = same && pb_luajit_byte(w, pb_luajit_code(w, i) - PF_LUAJIT_PROTOTYPE + o + l->object_type) == l->type_prototype;
		for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
			same = same && *places[i] > o;
		if (same)
			pb_luajit_choose(&begin, o);
	}
	pb_luajit_chosen(w, &begin, "a prototype's type");
	for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
		*places[i] = (uint16_t)(*places[i] - begin.at);
	l->prototype_end = (uint16_t)(PF_LUAJIT_PROTOTYPE - begin.at);
}

static void learn_code(struct pb_learner *w)
{
	struct pf_luajit_layout *l = w->l;
	uint64_t jump;
	uint8_t none;

	w->look = look_at_caller;
	pb_luajit_run(w, PB_LUAJIT_PLAIN, 0);
	pb_luajit_run(w, PB_LUAJIT_LONGER, 0);
	l->function_code = (uint16_t)pb_luajit_only(w, &w->code, FUNCTION, "a function's code");
	look_at_sources(w);
	w->look = look_at_line;
	pb_luajit_run(w, PB_LUAJIT_PLAIN, 0);
	pb_luajit_run(w, PB_LUAJIT_LONGER, 0);
	if (w->looks != 5)
		pb_learn_fail(w, "the probe's calls");
	l->prototype_first = (uint16_t)pb_luajit_only(w, &w->first, PF_LUAJIT_PROTOTYPE, "a function's first line");
	l->prototype_lines = (uint16_t)pb_luajit_only(w, &w->lines, PF_LUAJIT_PROTOTYPE, "a function's last line");
	l->prototype_source = (uint16_t)pb_luajit_only(w, &w->source, PF_LUAJIT_PROTOTYPE, "a function's source");
	l->prototype_end = PF_LUAJIT_PROTOTYPE;
	learn_size(w);
	look_at_ends(w);
	l->prototype_lineinfo = (uint16_t)pb_luajit_only(w, &w->lineinfo, PF_LUAJIT_PROTOTYPE, "a function's lines");
	learn_begin(w);

	none = last_op(w, PB_LUAJIT_PLAIN, 0);
	l->op_return_first = last_op(w, PB_LUAJIT_RETURN_ALL, 0);
	l->op_return_last = last_op(w, PB_LUAJIT_RETURN_ONE, 0);
	if (l->op_return_first + 3 != l->op_return_last || last_op(w, PB_LUAJIT_RETURN_SOME, 0) != l->op_return_first + 1 ||
	    none != l->op_return_first + 2)
		pb_learn_fail(w, "instructions that return");
	l->op_tailcall_first = last_op(w, PB_LUAJIT_TAIL_CALL_ALL, 0);
	l->op_tailcall_last = last_op(w, PB_LUAJIT_TAIL_CALL, 0);
	if (l->op_tailcall_first + 1 != l->op_tailcall_last)
		pb_learn_fail(w, "instructions that call");
	l->op_jump = last_op(w, PB_LUAJIT_JUMPS, 1);
	jump = pb_luajit_code(w, PB_LUAJIT_JUMPS) + 4 * (uint64_t)(pb_luajit_size(w, pb_luajit_code(w, PB_LUAJIT_JUMPS)) - 2);
	jump += 4 + 4 * ((uint64_t)(pb_luajit_number(w, jump) >> 16) - 0x8000);
	if (jump <= pb_luajit_code(w, PB_LUAJIT_JUMPS) || jump > pb_luajit_code(w, PB_LUAJIT_JUMPS) + 16)
		pb_learn_fail(w, "instructions that jump");
	l->op_table = pb_luajit_byte(w, pb_luajit_code(w, PB_LUAJIT_ALLOCATES) + 4);
	l->op_filled_table = pb_luajit_byte(w, pb_luajit_code(w, PB_LUAJIT_FILLS) + 4);
	l->op_concatenate = last_op(w, PB_LUAJIT_JOINS, 1);
	/* Two that call, two that tail-call, the one that calls an iterator; then three others. */
	l->op_call_first = (uint8_t)(l->op_tailcall_first - 2);
	l->op_call_last = (uint8_t)(l->op_tailcall_last + 1);
	if (last_op(w, PB_LUAJIT_PLAIN, 1) != l->op_call_first + 1 || l->op_call_last + 4 != l->op_return_first)
		pb_learn_fail(w, "instructions that call");
	l->op_c_first = pb_luajit_byte(w, pb_luajit_code(w, PB_LUAJIT_C_ONE));
	l->op_c_last = (uint8_t)(l->op_c_first + 1);
}

void pb_luajit_learn_functions(struct pb_learner *w)
{
	learn_functions(w);
	learn_code(w);
}
#endif

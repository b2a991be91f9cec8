/* See learn_luajit.h. Two loops are compiled. Each calls the allocator, and there we look at the trace: vmstate is its number,
 * its return address is on the C stack, and the array of traces is in the compiler's state. A trace's arrays lie in one block:
 * constants and instructions, snapshots, the map of the snapshots. */
#include "binding/stack/learn_luajit.h"

#include "core/stack/c_frames.h"

#if PB_LUAJIT
enum {
	C_STACK_MOST = 256, CODE_MOST = 4096, TRACES_MOST = 65535, IR_MOST = 2048, SNAPSHOTS_MOST = 256,
	ITERATIONS = 300, RUNS = 341, /* iterations and runs of a loop, enough to compile it */
};

static uint64_t word(const struct pb_luajit_trace *t, unsigned at)
{
	return pf_trace_field(t->bytes, at, 8);
}

static uint32_t number(const struct pb_luajit_trace *t, unsigned at)
{
	return (uint32_t)pf_trace_field(t->bytes, at, 4);
}

static uint32_t half(const struct pb_luajit_trace *t, unsigned at)
{
	return (uint32_t)pf_trace_field(t->bytes, at, 2);
}

/* --- machine code ---------------------------------------------------------------------------------------------------- */

#if defined(__aarch64__)
enum { HAS_ADJUST = 0 }; /* the unwinder does not need to know how much room a trace has on the C stack */

/* Is the instruction before this address a call? */
static int is_after_call(const struct pb_learner *w, uint64_t address)
{
	const uint32_t code = pb_luajit_number(w, address - 4);

	return (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000; /* BL, BLR */
}

/* The code ends with a jump out of the loop, or to its start. */
static int ends_with_jump(const struct pb_learner *w, uint64_t end)
{
	return (pb_luajit_number(w, end - 4) & 0xfc000000) == 0x14000000; /* B */
}

/* The bytes from an instruction to the target of its jump; 0 if it does not jump. */
static int64_t jump_at(const struct pb_learner *w, uint64_t at)
{
	const uint32_t code = pb_luajit_number(w, at);

	if ((code & 0xfc000000) == 0x14000000) /* B */
		return (int64_t)((uint64_t)code << 38) >> 36;
	if ((code & 0xff000010) == 0x54000000 || (code & 0x7e000000) == 0x34000000) /* B.cond, CBZ, CBNZ */
		return (int64_t)((uint64_t)(code >> 5) << 45) >> 43;
	if ((code & 0x7e000000) == 0x36000000) /* TBZ, TBNZ */
		return (int64_t)((uint64_t)(code >> 5) << 50) >> 48;
	return 0;
}

#else
enum { HAS_ADJUST = 1 };

static int is_after_call(const struct pb_learner *w, uint64_t address)
{
	unsigned char code[8];

	pb_learn_grab(w, code, address - 8, sizeof code);
	return code[3] == 0xe8 || (code[6] == 0xff && (code[7] & 0xf8) == 0xd0);
}

static int ends_with_jump(const struct pb_learner *w, uint64_t end)
{
	return (pb_luajit_number(w, end - 5) & 0xff) == 0xe9;
}

/* Instructions have no fixed length here, so each byte may begin the distance of a jump. */
static int64_t jump_at(const struct pb_learner *w, uint64_t at)
{
	return 4 + (int64_t)(int32_t)pb_luajit_number(w, at);
}

#endif

/* --- while a trace allocates ----------------------------------------------------------------------------------------- */

static int is_trace(struct pb_learner *w, struct pb_luajit_trace *t, uint64_t at)
{
	if (!at || at % 8)
		return 0;
	pb_learn_grab(w, t->bytes, at, sizeof t->bytes);
	if (t->bytes[w->l->object_type] != w->l->type_trace)
		return 0;
	for (unsigned o = 8; o < PF_TRACE_HEAD; o += 2)
		if (half(t, o) == t->number)
			return 1;
	return 0;
}

/* Find the array whose entry at the trace's number is a trace. Two numbers follow the array's address, and the larger one is its
 * length. */
static int find_array(struct pb_learner *w, struct pb_luajit_trace *t)
{
	unsigned found = 0;

	for (unsigned o = 0; o < PB_LUAJIT_COMPILER; o += 8) {
		const uint64_t array = pb_luajit_word(w, w->global + o);
		const uint32_t a = pb_luajit_number(w, w->global + o + 8), b = pb_luajit_number(w, w->global + o + 12);
		uint64_t at;

		if (a == b || (a > b ? a : b) <= t->number || a > TRACES_MOST || b > TRACES_MOST || array % 8 || !array ||
		    pb_luajit_word(w, array) != 0)
			continue;
		at = pb_luajit_word(w, array + (uint64_t)t->number * 8);
		if (is_trace(w, t, at)) {
			t->at = at;
			t->at_array = o;
			t->at_length = a > b ? o + 8 : o + 12;
			found++;
		}
	}
	return found == 1 && is_trace(w, t, t->at);
}

/* Find the return address into the trace: the word nearest to the interpreter's frame that follows a call and lies behind an
 * address which the trace has. */
static int find_return(struct pb_learner *w, struct pb_luajit_trace *t, uint64_t here)
{
	const uint64_t cframe = pb_luajit_word(w, (uint64_t)(uintptr_t)w->T + w->l->thread_cframe) & ~UINT64_C(3);

	for (unsigned i = 1; i < C_STACK_MOST && cframe - i * 8 > here; i++) {
		const uint64_t address = pb_luajit_word(w, cframe - i * 8);

		for (unsigned o = 16; o + 8 <= PF_TRACE_HEAD; o += 8)
			if (address > word(t, o) && address - word(t, o) < CODE_MOST && is_after_call(w, address)) {
				t->called_from = address;
				t->below_cframe = i * 8;
				return 1;
			}
	}
	return 0;
}

int32_t pb_luajit_compiled(struct pb_learner *w)
{
	const int32_t state = (int32_t)pb_luajit_number(w, w->global + w->l->global_vmstate);

	w->compiled |= state >= 0;
	return state;
}

/* The instruction at the end of a compiled loop has the number of its trace, where others have a jump's distance. */
static uint32_t number_of_loop(const struct pb_learner *w, uint64_t code)
{
	const uint32_t n = pb_luajit_size(w, code);

	for (uint32_t i = 1; i < n; i++) {
		const uint32_t instruction = pb_luajit_number(w, code + (uint64_t)i * PF_LUAJIT_INSTRUCTION);

		if (pf_trace_is_loop(w->l, instruction) && instruction >> 16 < PF_TRACE_IR_BIAS / 2)
			return instruction >> 16;
	}
	return 0;
}

static void look_in_trace(struct pb_learner *w)
{
	struct pb_luajit_trace *t = &w->traces[w->traces_n];
	/* The loop's frame is the first on the stack, after the two slots of the thread and the two of the function. */
	const uint64_t base = pb_luajit_word(w, pb_address(w->T) + w->l->thread_stack) + 4 * 8;
	const int32_t state = pb_luajit_compiled(w);

	if (state == PF_LUAJIT_INTERPRETER)
		PB_LUAJIT_NARROW(w->trace_base, PB_LUAJIT_GLOBAL, o % 8 == 0 && pb_luajit_word(w, w->global + o) == 0)
	t->number = number_of_loop(w, t->bytecode);
	if (state < 0 || !t->number || (state > 0 && (uint32_t)state != t->number) || !find_array(w, t) ||
	    !find_return(w, t, (uintptr_t)__builtin_frame_address(0)))
		return;
	PB_LUAJIT_NARROW(w->trace_base, PB_LUAJIT_GLOBAL, o % 8 == 0 && pb_luajit_word(w, w->global + o) == base)
	w->allocated = NULL;
	w->looks++;
}

/* LuaJIT counts all loops in 64 shared counters. So a penalty for another loop, which could not be compiled, or jit.opt's
 * "hotloop" may let this loop run for thousands of iterations before it is compiled. The collector works between its runs.
 * If a trace is left while finalizers wait, LuaJIT calls some of them, although the collector is stopped, and starts the collector.
 * Such a run is repeated. */
int pb_luajit_run_loop(struct pb_learner *w, int loop, void (*look)(struct pb_learner *w))
{
	int alone = 0;

	w->looks = 0;
	for (int i = 0; !alone && i < RUNS && pb_luajit_compiles(w->S); i++) {
		if (i > 0 && w->collects)
			lua_gc(w->S, LUA_GCSTEP, 0);
		if (w->collects)
			lua_gc(w->S, LUA_GCSTOP, 0);
		w->looks = 0;
		w->compiled = 0;
		w->allocated = look;
		lua_pushvalue(w->S, PB_LUAJIT_KEEP);
		lua_pushinteger(w->S, ITERATIONS);
		pb_luajit_run(w, loop, 2);
		w->allocated = NULL;
		alone = w->compiled && !pb_collects(w->S);
	}
	return w->looks != 0;
}

static int compile(struct pb_learner *w, int loop)
{
	const uint64_t function = (uintptr_t)lua_topointer(w->S, loop);
	struct pb_luajit_trace *t = &w->traces[w->traces_n];

	t->bytecode = pb_luajit_word(w, function + w->l->function_code);
	if (!pb_luajit_run_loop(w, loop, look_in_trace))
		return 0;
	pb_learn_grab(w, t->after, w->global, PB_LUAJIT_COMPILER + 4);
	w->traces_n++;
	return 1;
}

/* --- the fields ------------------------------------------------------------------------------------------------------ */

/* The first place whose value is right in both traces. There may be up to `most`. */
#define PLACES(name, step, most, holds)                                                            \
	static unsigned name(struct pb_learner *w, const char *what)                        \
	{                                                                                          \
		unsigned found = 0, place = 0;                                                     \
                                                                                                   \
		for (unsigned o = 8; o + (step) <= PF_TRACE_HEAD; o += (step)) {                 \
			int same = 1;                                                              \
                                                                                                   \
			for (unsigned i = 0; i < PB_LUAJIT_TRACES; i++) {                          \
				const struct pb_luajit_trace *t = &w->traces[i];                   \
                                                                                                   \
				same = same && (holds);                                            \
			}                                                                          \
			if (same && found++ == 0)                                                  \
				place = o;                                                         \
		}                                                                                  \
		if (found == 0 || found > (most))                                                  \
			pb_learn_fail(w, what);                                                   \
		return place;                                                                      \
	}
#define PLACE(name, step, holds) PLACES(name, step, 1, holds)

static uint64_t called_offset(const struct pb_learner *w, const struct pb_luajit_trace *t)
{
	return t->called_from - word(t, w->l->trace_code);
}

/* The code ends with a jump out of the loop. */
static int is_size(const struct pb_learner *w, const struct pb_luajit_trace *t, uint32_t size)
{
	return size > called_offset(w, t) && size < CODE_MOST && ends_with_jump(w, word(t, w->l->trace_code) + size);
}

static uint64_t end_of_ir(const struct pb_learner *w, const struct pb_luajit_trace *t)
{
	for (unsigned o = 8; o + 4 <= PF_TRACE_HEAD; o += 4)
		if (number(t, o) > PF_TRACE_IR_BIAS && number(t, o) < PF_TRACE_IR_BIAS + IR_MOST)
			return word(t, w->l->trace_ir) + (uint64_t)number(t, o) * PF_TRACE_IR_SIZE;
	return 0;
}

static uint32_t snapshots_n(const struct pb_learner *w, const struct pb_luajit_trace *t)
{
	return (uint32_t)(word(t, w->l->trace_map) - word(t, w->l->trace_snapshots)) / PF_TRACE_SNAPSHOT_SIZE;
}

/* The length of the map, which ends with the last snapshot's part. */
static uint32_t map_n(const struct pb_learner *w, const struct pb_luajit_trace *t)
{
	const uint64_t last = word(t, w->l->trace_snapshots) + (uint64_t)(snapshots_n(w, t) - 1) * PF_TRACE_SNAPSHOT_SIZE;

	return pb_luajit_number(w, last) + (pb_luajit_number(w, last + 8) >> 16 & 0xff) + 2;
}

static int is_start(const struct pb_learner *w, const struct pb_luajit_trace *t, uint64_t pc)
{
	return pc >= t->bytecode && pc - t->bytecode < (uint64_t)pb_luajit_size(w, t->bytecode) * 4;
}

/* The map begins where the snapshots end, and the first one's part ends with an address in the function. */
static int is_map(const struct pb_learner *w, const struct pb_luajit_trace *t, uint64_t map)
{
	const uint64_t snapshots = word(t, w->l->trace_snapshots), size = map - snapshots;

	return size && size < SNAPSHOTS_MOST * PF_TRACE_SNAPSHOT_SIZE && size % PF_TRACE_SNAPSHOT_SIZE == 0 && pb_luajit_number(w, snapshots) == 0 &&
	       is_start(w, t, pb_luajit_word(w, map + 4 * (uint64_t)(pb_luajit_number(w, snapshots + 8) >> 16 & 0xff)) >> 8);
}

/* Does the code have a jump back to this offset? */
static int is_begin(const struct pb_learner *w, const struct pb_luajit_trace *t, uint32_t offset)
{
	const uint64_t code = word(t, w->l->trace_code);
	const uint32_t size = number(t, w->l->trace_code_size);

	for (uint64_t o = offset; offset >= 16 && o + 4 <= size; o += PF_TRACE_OFFSET) {
		const int64_t jump = jump_at(w, code + o);

		if (jump && o + (uint64_t)jump == offset)
			return 1;
	}
	return 0;
}

/* Is this the instruction that the trace has replaced? It jumps back to somewhere before the trace's start. */
static int is_replaced(const struct pb_learner *w, const struct pb_luajit_trace *t, uint32_t instruction)
{
	const uint64_t start = word(t, w->l->trace_start);
	const uint64_t to = start + 4 + 4 * ((uint64_t)(instruction >> 16) - 0x8000);

	return (instruction >> 8 & 0xff) == (pb_luajit_number(w, start) >> 8 & 0xff) && to < start && start - to < 256;
}

PLACE(find_code, 8, t->called_from > word(t, o) && t->called_from - word(t, o) < CODE_MOST)
/* Later fields may have such a value by chance. */
PLACES(find_code_size, 4, 3, is_size(w, t, number(t, o)))
/* In steps of 8 bytes, since the upper half of an address may have such a value. */
PLACE(find_ir_low, 8, number(t, o) > PF_TRACE_IR_BIAS - IR_MOST && number(t, o) < PF_TRACE_IR_BIAS)
PLACE(find_ir, 8, word(t, o) + (uint64_t)number(t, w->l->trace_ir_low) * PF_TRACE_IR_SIZE - t->at - 64 < 192)
PLACE(find_snapshots, 8, word(t, o) == end_of_ir(w, t))
PLACE(find_map, 8, is_map(w, t, word(t, o)))
/* The traces' numbers, which come later, may have the same value by chance. */
PLACES(find_snapshots_n, 2, 3, half(t, o) == snapshots_n(w, t))
PLACE(find_map_n, 4, number(t, o) == map_n(w, t))
PLACE(find_start, 8, is_start(w, t, word(t, o)))
PLACE(find_replaced, 4, is_replaced(w, t, number(t, o)))
PLACE(find_loop, 4, is_begin(w, t, number(t, o)))
PLACE(find_adjust, 2, half(t, o) + PF_LUAJIT_ENTRY_SPACE + 8 == t->below_cframe)

/* The number is in two adjacent places: as the trace's own, and as the number of the trace that follows, since a loop is followed
 * by itself. */
static int has_numbers(const struct pb_luajit_trace *t, unsigned o)
{
	return half(t, o) == t->number && o + 4 <= PF_TRACE_HEAD && half(t, o + 2) == t->number;
}

PLACE(find_numbers, 2, has_numbers(t, o))

static int learn_fields(lua_State *L)
{
	struct pb_learner *w = lua_touserdata(L, 1);
	struct pf_luajit_layout *l = w->l;
	const struct pb_luajit_trace *t = w->traces;

	w->now = L;
	if (t[0].number == t[1].number || t[0].at_array != t[1].at_array || t[0].at_length != t[1].at_length ||
	    (HAS_ADJUST && t[0].below_cframe == t[1].below_cframe))
		pb_learn_fail(w, "two traces");
	l->trace_base = (uint16_t)pb_luajit_only(w, &w->trace_base, PB_LUAJIT_GLOBAL, "the base of compiled code");
	l->trace_code = (uint16_t)find_code(w, "a trace's code");
	l->trace_code_size = (uint16_t)find_code_size(w, "a trace's code's size");
	l->trace_ir_low = (uint16_t)find_ir_low(w, "a trace's constants");
	l->trace_ir = (uint16_t)find_ir(w, "a trace's instructions");
	l->trace_snapshots = (uint16_t)find_snapshots(w, "a trace's snapshots");
	l->trace_map = (uint16_t)find_map(w, "a trace's map");
	l->trace_snapshots_n = (uint16_t)find_snapshots_n(w, "the number of snapshots");
	l->trace_map_n = (uint16_t)find_map_n(w, "a map's length");
	l->trace_start = (uint16_t)find_start(w, "a trace's start");
	l->trace_start_ins = (uint16_t)find_replaced(w, "a trace's first instruction");
	l->trace_loop = (uint16_t)find_loop(w, "a trace's loop");
	if (HAS_ADJUST)
		l->trace_adjust = (uint16_t)find_adjust(w, "a trace's room on the C stack");
	l->trace_number = (uint16_t)find_numbers(w, "a trace's number");
	l->trace_link = (uint16_t)(l->trace_number + 2);
	l->traces_n = (uint16_t)t[0].at_length;
	l->traces = (uint16_t)t[0].at_array;
	return 0;
}

/* --- the compiler's instructions ------------------------------------------------------------------------------------- */

/* The loop makes an empty table, a filled one, a string from a number and one from a buffer, and stores each. So the only
 * instructions with results of these types are the ones that allocate. */
static void look_at_kinds(struct pb_learner *w)
{
	enum { TYPE = 0x1f, TABLE = 1, STRING = 2, TABLE_FILLED = 1, BUFFER_STRING = 6, NUMBER_STRING = 12 };
	struct pf_luajit_memo memo = {.constants = 0};
	const struct pf_luajit_view v = {.l = w->l, .m = w->m, .global = w->global, .memo = &memo};
	const int32_t state = pb_luajit_compiled(w);
	const uint8_t table = (uint8_t)(w->l->type_trace + 2), string = (uint8_t)(w->l->type_thread - 2); /* in LuaJIT's order */
	const uint64_t code = pb_luajit_code(w, PB_LUAJIT_LOOPS_KINDS);
	uint8_t types[256] = {0};
	unsigned n = 0, first = 0;
	struct pf_trace t;
	struct pf_snapshot loop;

	if (state < 0 || !pf_trace_read_numbered(&v, number_of_loop(w, code), &t) || t.start - code >= 4 * (uint64_t)pb_luajit_size(w, code) || !t.loop ||
	    !pf_trace_read_snapshot(&v, &t, pf_trace_snapshot_at(&v, &t, t.loop), &loop))
		return;
	w->allocated = NULL;
	w->looks++;
	for (uint64_t at = t.ir + (uint64_t)loop.ref * PF_TRACE_IR_SIZE; at < t.snapshots; at += PF_TRACE_IR_SIZE) {
		const uint64_t instruction = pb_luajit_word(w, at);
		const uint8_t type = instruction >> 32 & TYPE;

		types[instruction >> 40 & 0xff] |= type == table ? TABLE : type == string ? STRING : 0;
	}
	for (unsigned op = sizeof types; op-- > 0;) {
		n += types[op] == TABLE || types[op] == STRING;
		first = types[op] == TABLE ? op : first;
	}
	if (n == 4 && first && first + NUMBER_STRING < sizeof types && types[first + TABLE_FILLED] == TABLE &&
	    types[first + BUFFER_STRING] == STRING && types[first + NUMBER_STRING] == STRING)
		w->l->ir_table = (uint8_t)first;
}

/* --- exits ----------------------------------------------------------------------------------------------------------- */

/* When a loop ends, a trace of it is left. Then the compiler's state has the number of the trace and that of the exit, whose snapshot
 * has the address after the loop. It need not be the loop's first trace: where LuaJIT has integers besides doubles, as on arm64, the
 * sums in the loop overflow, and further traces of the loop are compiled for the new types. The state is taken after the first
 * run of the loop: if the program has set a small "hotexit", the code after the exit is compiled too, and the next run does not
 * return to the interpreter by this exit. */
static void learn_exit(struct pb_learner *w)
{
	struct pf_luajit_memo memo = {.constants = 0};
	const struct pf_luajit_view v = {.l = w->l, .m = w->m, .global = w->global, .memo = &memo};
	uint8_t out[PB_LUAJIT_COMPILER / 4] = {0};
	struct pb_luajit_choice place = {0, 0};

	for (const struct pb_luajit_trace *t = w->traces; t < w->traces + PB_LUAJIT_TRACES; t++) {
		struct pf_trace first, left;
		struct pf_snapshot s;

		if (!pf_trace_read_numbered(&v, t->number, &first) || !is_start(w, t, first.start))
			return;
		for (unsigned k = 0; k < sizeof out; k++)
			if (!out[k])
				out[k] = !pf_trace_read_numbered(&v, t->after[k], &left) ||
					 !pf_trace_read_snapshot(&v, &left, t->after[k + 1], &s) ||
					 s.pc != first.start + PF_LUAJIT_INSTRUCTION;
	}
	for (unsigned k = 0; k < sizeof out; k++)
		if (!out[k])
			pb_luajit_choose(&place, k * 4);
	w->l->trace_exit = place.n == 1 ? (uint16_t)place.at : 0;
	w->l->code = pf_own_code();
}

void pb_luajit_learn_traces(struct pb_learner *w)
{
	int r;

	if (!compile(w, PB_LUAJIT_LOOPS_FEW) || !compile(w, PB_LUAJIT_LOOPS_MANY)) {
		if (pb_luajit_compiles(w->S))
			pb_learn_fail(w, "a loop was not compiled, though the compiler is on");
		return;
	}
	lua_pushcfunction(w->S, learn_fields);
	lua_pushlightuserdata(w->S, w);
	r = lua_pcall(w->S, 1, 0, 0);
	w->now = w->S;
	if (r != 0)
		pb_learn_fail(w, w->why ? w->why : "a trace");
	pb_luajit_run_loop(w, PB_LUAJIT_LOOPS_KINDS, look_at_kinds);
	learn_exit(w);
}
#endif

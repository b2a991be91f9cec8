/* The unwinder for LuaJIT on memory that no LuaJIT has written. Each run makes an image of a thread with frames, functions and traces,
 * unwinds it, then damages it and unwinds it from other registers. Reads outside of the image fail, as those of unmapped memory do.
 * The unwinder must end after a bounded number of reads and of frames. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "core/stack/c_frames.h"
#include "core/stack/sampling.h"
#include "core/stack/unwind_luajit.h"

enum {
	IMAGE = 1 << 16, FUNCTIONS = 6, TRACES = 4, CODE = 40, READS_MOST = 200000, ROUNDS = 12,
	/* The parts of the image. */
	MAIN = 0x0, GLOBAL = 0x80, OBJECTS = 0x800, PROTOTYPES = 0x1000, LINES = 0x2000, NAME = 0x2800, ARRAY = 0x2900, TRACE = 0x2a00,
	CONSTANTS = 0x3000, SNAPSHOTS = 0x3800, MAPS = 0x3c00, MACHINE = 0x4000, COROUTINE = 0x5000, STACK = 0x6000, C_STACK = 0xd000,
	TABLE = 0xf000, MACHINE_SIZE = 0xc00,
};
#define IMAGE_ADDRESS UINT64_C(0x7f0012340000)
static const uint64_t at = IMAGE_ADDRESS;
static const struct pf_code mapped = {
	.n = 1, .objects = {{IMAGE_ADDRESS + MACHINE, IMAGE_ADDRESS + MACHINE + MACHINE_SIZE, IMAGE_ADDRESS + TABLE}}};

static const struct pf_luajit_layout layout = {
	.thread_global = 16, .thread_base = 32, .thread_stack = 56, .thread_slots = 88, .thread_cframe = 80,
	.cframe_previous = 32, .cframe_pc = 24, .cframe_thread = 16, .cframe_results = 8,
	.global_vmstate = 176, .global_running = 368, .main_below = GLOBAL - MAIN,
	.object_type = 9, .function_id = 10, .function_code = 32, .function_c = 40,
	.string_size = 20, .string_text = 24,
	.prototype_n = 12, .prototype_source = 64, .prototype_first = 72, .prototype_lines = 76, .prototype_lineinfo = 80, .prototype_end = 104,
	.tag_function = 0x1fff7, .tag_thread = 0x1fff9,
	.type_prototype = 7, .type_function = 8, .type_thread = 6, .type_trace = 9,
	.op_jump = 88, .op_tailcall_first = 68, .op_tailcall_last = 69, .op_return_first = 73, .op_return_last = 76, .op_c_first = 95, .op_c_last = 96,
	.trace_base = 376, .traces = 1120, .traces_n = 1132, .trace_exit = 1136,
	.trace_snapshots_n = 10, .trace_ir = 32, .trace_ir_low = 40, .trace_map_n = 44, .trace_snapshots = 48, .trace_map = 56,
	.trace_start = 72, .trace_start_ins = 80, .trace_code_size = 84, .trace_code = 88, .trace_loop = 96, .trace_adjust = 102,
	.trace_number = 104, .trace_link = 106,
	.op_table = 52, .op_filled_table = 53, .op_concatenate = 38, .op_call_first = 66, .op_call_last = 70, .ir_table = 81, .code = &mapped,
};

static unsigned char image[IMAGE];
static unsigned long reads, frames, complete, most_reads, long_searches;

static int read_image(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	(void)m;
	CHECK(++reads < READS_MOST);
	if (address < at || address - at > IMAGE || n > IMAGE - (address - at))
		return -EFAULT;
	memcpy(to, image + (address - at), n);
	return 0;
}

static void put(unsigned place, uint64_t value, unsigned size)
{
	memcpy(image + place, &value, size);
}

static uint64_t function(unsigned i)
{
	return (uint64_t)layout.tag_function << 47 | (at + OBJECTS + i * 0x80);
}

static uint64_t code(unsigned i)
{
	return at + PROTOTYPES + i * 0x200 + layout.prototype_end;
}

/* An address after an instruction of one of the functions of Lua, and that it is a call which has its base there. */
static uint64_t call(unsigned i, unsigned base)
{
	const uint64_t pc = code(i) + 4 * (1 + fuzz_below(CODE - 1));

	put((unsigned)(pc - 4 - at), 66 | base << 8, 4);
	return pc;
}

static void make_functions(void)
{
	for (unsigned i = 0; i < FUNCTIONS; i++) {
		const unsigned object = OBJECTS + i * 0x80, prototype = PROTOTYPES + i * 0x200;

		put(object + layout.object_type, layout.type_function, 1);
		put(object + layout.function_id, i < 3 ? 0 : i == 3 ? 1 : 20, 1);
		put(object + layout.function_code, code(i), 8);
		put(object + layout.function_c, at + fuzz_below(IMAGE), 8);
		put(prototype + layout.object_type, layout.type_prototype, 1);
		put(prototype + layout.prototype_n, CODE, 4);
		put(prototype + layout.prototype_first, i * 50, 4);
		put(prototype + layout.prototype_lines, 49, 4);
		put(prototype + layout.prototype_lineinfo, at + LINES + i * 0x100, 8);
		put(prototype + layout.prototype_source, at + NAME, 8);
		for (unsigned k = 0; k < CODE; k++) {
			put((unsigned)(code(i) - at) + k * 4, fuzz_below(2) ? fuzz_below(100) | fuzz_below(256) << 8 | (0x8000 - fuzz_below(CODE)) << 16
									       : fuzz_below(100) | fuzz_below(1 << 16) << 8,
			    4);
			put(LINES + i * 0x100 + k, k, 1);
		}
		if (i > 2)
			put((unsigned)(code(i) - at), i == 3 ? layout.op_c_first : 120, 1);
	}
	put(NAME + layout.string_size, 10, 4);
}

/* Frames from the bottom up. Returns the innermost base. */
static uint64_t make_frames(unsigned stack)
{
	unsigned base = stack + 16, n = fuzz_below(40), caller = 3;
	uint64_t thread = at + (stack == STACK ? MAIN : COROUTINE);

	put(stack, (uint64_t)layout.tag_thread << 47 | thread, 8);
	for (unsigned i = 0; i < n; i++) {
		const unsigned size = 2 + fuzz_below(20), next = base + size * 8 + 16, f = fuzz_below(FUNCTIONS);
		const unsigned kind = caller < 3 ? fuzz_below(4) ? 0 : 2 + fuzz_below(2) : 1 + fuzz_below(2) * 4;
		const uint64_t distance = next - base;

		put(next - 16, function(kind == 3 ? caller : f), 8);
		put(next - 24, call(caller % 3, 1), 8);
		put(next - 32, fuzz_below(4), 8);
		put(next - 8, kind == 0 ? call(caller, size) : distance | kind, 8);
		base = next;
		caller = kind == 3 ? caller : f;
	}
	return at + base;
}

static void make_traces(void)
{
	for (unsigned i = 1; i <= TRACES; i++) {
		const unsigned t = TRACE + i * 0x90, snapshots = SNAPSHOTS + i * 0x80, map = MAPS + i * 0x80, ir = CONSTANTS + i * 0x100;
		const unsigned n = 1 + fuzz_below(6), low = 0x8000 - 24;

		put(ARRAY + i * 8, at + t, 8);
		put(t + layout.object_type, layout.type_trace, 1);
		put(t + layout.trace_snapshots_n, n, 2);
		put(t + layout.trace_ir, at + ir - low * 8, 8);
		put(t + layout.trace_ir_low, low, 4);
		put(t + layout.trace_map_n, n * 4, 4);
		put(t + layout.trace_snapshots, at + snapshots, 8);
		put(t + layout.trace_map, at + map, 8);
		put(t + layout.trace_start, code(0) + 4 * fuzz_below(CODE), 8);
		put(t + layout.trace_code, at + MACHINE + i * 0x200, 8);
		put(t + layout.trace_code_size, 0x200, 4);
		put(t + layout.trace_loop, fuzz_below(0x200), 4);
		put(t + layout.trace_adjust, fuzz_below(4) * 16, 2);
		put(t + layout.trace_number, i, 2);
		put(t + layout.trace_link, 1 + fuzz_below(TRACES), 2);
		for (unsigned k = 0; k < 20; k++)
			put(ir + k * 8, k % 4 == 0 ? at + OBJECTS + fuzz_below(FUNCTIONS) * 0x80 : k % 4 == 1 ? call(fuzz_below(3), 2) : code(fuzz_below(3)), 8);
		for (unsigned k = 24; k < 32; k++)
			put(ir + k * 8, (uint64_t)(fuzz_below(3) ? 0 : 78 + fuzz_below(20)) << 40 | (uint64_t)fuzz_below(256) << 48, 8);
		for (unsigned k = 0; k < n; k++) {
			const uint64_t pc = code(fuzz_below(3)) + 4 * fuzz_below(CODE), inlined = fuzz_below(2) * 4;

			put(snapshots + k * 12, k * 4, 4);
			put(snapshots + k * 12 + 4, 0x8000 + k * 2, 2);
			put(snapshots + k * 12 + 6, k * 0x40, 2);
			put(snapshots + k * 12 + 10, 2, 1);
			for (unsigned m = 0; k > 0 && m < 2; m++) { /* a mark right before its code, and one in it */
				const unsigned mark = MACHINE + i * 0x200 + k * 0x40 - 14 + (m ? fuzz_below(0x60) : 0);

				put(mark, UINT64_C(0x80fffff10086f641), 8);
				put(mark + 8, 0x850f, 2);
			}
			put(map + k * 16, UINT64_C(4) << 24 | (low + 3 + fuzz_below(4) * 4), 4);
			put(map + k * 16 + 4, UINT64_C(5) << 24 | 0x10000 | (low + fuzz_below(20)), 4);
			put(map + k * 16 + 8, pc << 8 | inlined, 8);
		}
	}
}

static void make_thread(unsigned thread, unsigned stack, unsigned cframe, uint64_t base)
{
	put(thread + layout.object_type, layout.type_thread, 1);
	put(thread + layout.thread_global, at + GLOBAL, 8);
	put(thread + layout.thread_base, base, 8);
	put(thread + layout.thread_stack, at + stack, 8);
	put(thread + layout.thread_slots, (C_STACK - STACK) / 8, 4);
	put(thread + layout.thread_cframe, at + cframe, 8);
	put(cframe + layout.cframe_thread, at + thread, 8);
	put(cframe + layout.cframe_pc, call(fuzz_below(3), 3), 8);
	put(cframe + layout.cframe_previous, 0, 8);
}

/* Make the C stack look as it does while the common exit handler works: the address at which the interpreter will continue is
 * that of the exit, and the handler has stored the trace's stack pointer. Returns the stack pointer just after the
 * handler has called a C function. */
static uint64_t make_exit(unsigned trace, unsigned exit, unsigned cframe)
{
	enum { SPACE = 16, BELOW_X86 = 96, CALL_X86 = 264, BELOW_ARM = 8 };
	uint16_t adjust;
	uint64_t pc;

	memcpy(&adjust, image + TRACE + trace * 0x90 + layout.trace_adjust, sizeof adjust);
	memcpy(&pc, image + MAPS + trace * 0x80 + exit * 16 + 8, sizeof pc);
	put(cframe + layout.cframe_pc, pc >> 8, 8);
	cframe -= SPACE + adjust;
	put(cframe - BELOW_X86, at + cframe, 8);
	put(cframe - BELOW_ARM, at + cframe, 8);
	put(cframe - CALL_X86, at + MACHINE + fuzz_below(MACHINE_SIZE), 8);
	return at + cframe - CALL_X86;
}

/* Make unwind tables: all machine code is one C function, which uses 8 bytes of the C stack up to its middle and 64 from there
 * on. */
static void make_table(void)
{
	static const unsigned char common[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0};
	static const unsigned char program[] = {0, 0x03, MACHINE_SIZE / 2 & 0xff, MACHINE_SIZE / 2 >> 8, 0x0e, 64, 0, 0};
	enum { COMMON = 32, ENTRY = 64 };

	put(TABLE, 0x3b031b01, 4);
	put(TABLE + 8, 1, 4);
	put(TABLE + 12, (uint32_t)(MACHINE - TABLE), 4);
	put(TABLE + 16, ENTRY, 4);
	memcpy(image + TABLE + COMMON, common, sizeof common);
	put(TABLE + ENTRY, 12 + sizeof program, 4);
	put(TABLE + ENTRY + 4, ENTRY + 4 - COMMON, 4);
	put(TABLE + ENTRY + 8, (uint32_t)(MACHINE - (TABLE + ENTRY + 8)), 4);
	put(TABLE + ENTRY + 12, MACHINE_SIZE, 4);
	memcpy(image + TABLE + ENTRY + 16, program, sizeof program);
}

static struct pf_registers make_image(void)
{
	const unsigned in_coroutine = fuzz_below(2), cframe = in_coroutine ? C_STACK + 0x800 : C_STACK + 0x1800;
	const unsigned trace = fuzz_below(TRACES + 2), exit = fuzz_below(6);
	struct pf_registers r = {.n = 16};
	uint64_t base, inner;

	memset(image, 0, sizeof image);
	make_functions();
	make_traces();
	base = make_frames(STACK);
	make_thread(MAIN, STACK, C_STACK + 0x1800, base);
	inner = make_frames(STACK + 0x3800);
	make_thread(COROUTINE, STACK + 0x3800, C_STACK + 0x800, inner);
	put(GLOBAL + layout.global_running, at + (in_coroutine ? COROUTINE : MAIN), 8);
	put(GLOBAL + layout.global_vmstate, fuzz_below(10) - 5u, 4);
	put(GLOBAL + layout.trace_base, fuzz_below(2) ? (in_coroutine ? inner : base) : 0, 8);
	put(GLOBAL + layout.traces, at + ARRAY, 8);
	put(GLOBAL + layout.traces_n, TRACES + 1, 4);
	put(GLOBAL + layout.trace_exit, trace, 4);
	put(GLOBAL + layout.trace_exit + 4, exit, 4);
	for (unsigned i = 1; i < 40; i++)
		put(cframe - i * 8, at + (fuzz_below(2) ? MACHINE + fuzz_below(0xa00) : fuzz_below(IMAGE)), 8);
	make_table();
	r.sp = at + cframe - fuzz_below(100) * 8;
	if (fuzz_below(2)) {
		const uint64_t called = make_exit(trace, exit, cframe);

		r.sp = fuzz_below(2) ? called : r.sp;
	}
	r.ip = at + MACHINE + fuzz_below(MACHINE_SIZE);
	for (unsigned i = 0; i < r.n; i++)
		r.general[i] = fuzz_below(3) ? call(fuzz_below(3), 4) : in_coroutine ? inner : base;
	r.general[PF_X86_RSP] = r.sp;
	return r;
}

/* Traces that branch from each other in a circle, with as many constants as there can be. */
static void make_long_traces(void)
{
	for (unsigned i = 1; i <= TRACES; i++) {
		put(TRACE + i * 0x90 + layout.trace_ir_low, 0, 4);
		put(CONSTANTS + i * 0x100 + 24 * 8, i % TRACES + 1, 2);
	}
}

/* The frames of a stack: their number, and a sum of them. */
struct stack {
	unsigned n;
	uint64_t sum;
};

static int count(void *to, const struct pf_place *place)
{
	struct stack *s = to;

	CHECK(place->kind >= PF_PLACE_LUA && place->kind <= PF_PLACE_BUILTIN);
	CHECK(place->end >= place->line);
	s->n++;
	s->sum = (s->sum ^ place->function ^ (uint64_t)place->line << 32 ^ place->end) * UINT64_C(0x9e3779b97f4a7c15) + (unsigned)place->kind;
	return 0;
}

static struct pf_trace_seen *walks;

static void unwind(const struct pf_registers *r)
{
	const struct pf_memory m = {read_image};
	struct stack s = {.n = 0};
	struct pf_unwound u = {.found = count, .to = &s};

	reads = 0;
	pf_unwind_luajit(&layout, at + GLOBAL, r, &m, &u);
	CHECK(u.n == s.n && s.n <= PF_UNWIND_DEEPEST);
	CHECK(u.failed >= 0 && u.failed < PF_UNWIND_FAILURES);
	CHECK(u.state >= 0 && u.state < PF_STATES);
	for (unsigned i = 0; i < 2; i++) { /* first with results that were kept for other images, then with those for this one */
		struct stack again = {.n = 0};
		struct pf_unwound kept = {.found = count, .to = &again, .walks = walks};

		reads = 0;
		pf_unwind_luajit(&layout, at + GLOBAL, r, &m, &kept);
		CHECK(again.n == s.n && again.sum == s.sum && kept.failed == u.failed && kept.state == u.state);
	}
	frames += s.n;
	most_reads = reads > most_reads ? reads : most_reads;
	long_searches += u.failed == PF_UNWIND_LONG;
	complete += u.failed == PF_UNWIND_COMPLETE && s.n > 0;
}

static void damage(struct pf_registers *r)
{
	const unsigned places = 1 + fuzz_below(30);

	for (unsigned i = 0; i < places; i++) {
		const unsigned place = fuzz_below(IMAGE / 8) * 8;
		uint64_t value = fuzz_below(2) ? fuzz_word() : at + fuzz_below(IMAGE / 8) * 8;

		if (fuzz_below(4) == 0)
			value = function(fuzz_below(FUNCTIONS));
		put(fuzz_below(2) ? place : (unsigned)(fuzz_below(0x6000 / 8) * 8), value, fuzz_below(2) ? 8 : 1 + fuzz_below(4));
	}
	r->general[fuzz_below(r->n)] = fuzz_below(2) ? fuzz_word() : at + fuzz_below(IMAGE);
	if (fuzz_below(4) == 0)
		r->ip = fuzz_word();
	if (fuzz_below(8) == 0)
		r->sp = fuzz_below(2) ? fuzz_word() : at + fuzz_below(IMAGE);
	if (fuzz_below(2))
		r->stack_end = fuzz_below(8) ? at + fuzz_below(IMAGE) : fuzz_word();
}

int main(int argc, char **argv)
{
	const unsigned long runs = fuzz_start(argc, argv);

	walks = pf_trace_seen_new();
	CHECK(walks);
	for (unsigned long i = fuzz_first; i < runs; i++) {
		struct pf_registers r;

		fuzz_run(i);
		r = make_image();
		if (fuzz_below(8) == 0)
			make_long_traces();
		unwind(&r);
		for (int k = 0; k < ROUNDS; k++) {
			damage(&r);
			unwind(&r);
		}
	}
	CHECK(runs - fuzz_first < 1000 || long_searches > 0);
	printf("unwind_luajit: %lu frames, %lu stacks complete, %lu long searches, at most %lu reads\n", frames, complete, long_searches, most_reads);
	return 0;
}

/* The unwinder of PUC Lua in memory that is damaged: threads, calls, functions and a C stack are made in a region of bytes, by a layout
 * that is like a real one or like none. Whatever the bytes are, the unwinder ends soon, and tells at most so many functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/stack/sampling.h"
#include "core/stack/c_frames.h"
#include "core/stack/unwind_puc.h"
#include "fuzz.h"

enum { SIZE = 32768, STACK = 16384, THREADS = 4, CALLS = 12, MOST_READS = 4000000 };

#define BASE_ADDRESS UINT64_C(0x7f0000000000)
static const uint64_t BASE = BASE_ADDRESS;
static unsigned char bytes[SIZE];
static unsigned long reads, complete, places;
static unsigned found;

/* The code of an interpreter, with unwind tables. */
#define CODE (BASE_ADDRESS - 65536)
enum { TABLE = SIZE - 4096, CODE_SIZE = 4096 };
static const struct pf_code mapped = {.n = 1, .objects = {{CODE, CODE + CODE_SIZE, BASE_ADDRESS + TABLE}}};
static struct pf_c_seen seen;

/* A stack: its functions, the number of them after which it shall end, and a sum over all of them. */
static unsigned last;
static uint64_t sum;

static int copy(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	(void)m;
	reads++;
	if (address - CODE < CODE_SIZE && n <= CODE_SIZE - (address - CODE)) {
		memset(to, 0x90, n);
		return 0;
	}
	if (address < BASE || address - BASE > SIZE || n > SIZE - (address - BASE))
		return -EFAULT;
	memcpy(to, bytes + (address - BASE), n);
	return 0;
}

static int on_place(void *to, const struct pf_place *p)
{
	(void)to;
	found++;
	places++;
	CHECK(p->kind == PF_PLACE_LUA || p->kind == PF_PLACE_C);
	CHECK(p->thread != 0);
	CHECK(p->kind == PF_PLACE_LUA || (p->line == 0 && p->source == 0));
	sum = (sum ^ p->function ^ (uint64_t)p->line << 32 ^ p->thread ^ p->source) * UINT64_C(0x9e3779b97f4a7c15);
	return found == last;
}

static void set(uint64_t at, uint64_t v, size_t n)
{
	if (at >= BASE && at - BASE + n <= SIZE)
		memcpy(bytes + (at - BASE), &v, n);
}

/* Two functions: the interpreter's loop, and one that it calls, which saves a register. */
static void a_table(void)
{
	static const unsigned char common[] = {20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0};
	static const unsigned char program[] = {0, 0x41, 0x0e, 16, 0x83, 2, 0x0a, 0x45, 0xc3, 0x0b, 0, 0};
	const uint64_t table = BASE + TABLE;

	set(table, 0x3b031b01, 4);
	set(table + 8, 2, 4);
	memcpy(bytes + TABLE + 64, common, sizeof common);
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t entry = table + 128 + 64 * i, from = CODE + 64 * i;

		set(table + 12 + 8 * i, from - table, 4);
		set(table + 16 + 8 * i, entry - table, 4);
		set(entry, 12 + sizeof program, 4);
		set(entry + 4, entry + 4 - (table + 64), 4);
		set(entry + 8, from - (entry + 8), 4);
		set(entry + 12, 64, 4);
		memcpy(bytes + (entry + 16 - BASE), program, sizeof program);
	}
}

static struct pf_puc_pc a_pc(void)
{
	return (struct pf_puc_pc){.registers = (uint8_t)fuzz_below(3),
				  .preferred = (uint8_t)fuzz_below(32),
				  .alone = (uint8_t)fuzz_below(2),
				  .saved = (uint8_t)fuzz_below(2),
				  .word = (uint8_t)fuzz_below(3),
				  .below = (uint16_t)(8 * fuzz_below(32))};
}

/* Like 5.1's, or like 5.4's. */
static struct pf_puc_layout a_layout(void)
{
	struct pf_puc_layout l = {
		.pointer = 8,
		.relative = (uint8_t)fuzz_below(2),
		.thread = {.type = 8, .status = 10, .top = 16, .global = 24, .ci = 32, .stack = 48, .error = 88, .base = 96, .pc = PF_PUC_NONE, .is_thread = 8},
		.main = 176,
		.previous = 0,
		.call = {.func = 0, .previous = 16, .pc = 32, .size = 64},
		.value = {.tag = 8, .lua = 0x46, .c = 0x66, .light = 0x16},
		.closure = {.kind = 8, .proto = 24, .code = 24, .size = 32, .lua = 6, .c = 0x26},
		.proto = {.code = 64, .counts = {24, 28}, .lines = PF_PUC_NONE, .steps = 88, .known = 96, .n_known = 40, .linedefined = 44,
			  .source = 112, .size = 128},
		.string = {.text = 24, .size = 16, .kind = 8, .short_size = 11, .is_short = 4},
	};

	if (fuzz_below(2))
		l.loop.from = CODE;
	l.loop.end = l.loop.from ? CODE + 64 : 0;
	l.loop.code = &mapped;
	l.loop.running = a_pc();
	l.loop.called = a_pc();
	if (fuzz_below(2)) {
		l.thread.pc = 40;
		l.call.previous = PF_PUC_NONE;
		l.value.c = l.value.lua;
		l.value.light = (uint8_t)(l.value.lua + fuzz_below(2));
		l.proto.lines = 88;
		l.proto.steps = l.proto.known = l.proto.n_known = PF_PUC_NONE;
		l.string.kind = l.string.short_size = PF_PUC_NONE;
	}
	return l;
}

/* Threads that resumed each other, each with calls of one Lua function and one C function. */
static uint64_t a_state(const struct pf_puc_layout *l, struct pf_registers *r)
{
	const uint64_t global = BASE + 64, proto = BASE + 512, code = BASE + 1024, lua = BASE + 768, c = BASE + 832, string = BASE + 896;
	uint64_t at = BASE + 2048;

	memset(bytes, 0, sizeof bytes);
	a_table();
	set(proto + l->proto.code, code, 8);
	set(proto + l->proto.counts[0], 40, 4);
	set(proto + l->proto.counts[1], 40, 4);
	set(proto + 88, BASE + 1280, 8);
	set(proto + 96, BASE + 1536, 8);
	set(proto + 40, fuzz_below(4), 4);
	set(proto + l->proto.linedefined, fuzz_below(2) ? 7 : INT32_MAX, 4);
	set(BASE + 1280, fuzz_word(), 8);
	set(proto + l->proto.source, string, 8);
	set(lua + l->closure.kind, l->closure.lua, 1);
	set(lua + l->closure.proto, proto, 8);
	set(c + l->closure.kind, l->closure.c, 1);
	set(c + l->closure.code, 0x1234, 8);
	r->sp = BASE + STACK;
	r->n = 16;
	r->kept = (uint32_t)fuzz_word();
	for (unsigned i = 0; i < r->n; i++)
		r->general[i] = fuzz_word();
	for (unsigned i = 0; i < THREADS; i++) {
		const uint64_t thread = at, calls = at + 256, stack = calls + 64 * (CALLS + 1), jump = r->sp + 2048 * i + 512;
		const unsigned n = fuzz_below(CALLS) + 1;

		set(thread + l->thread.type, l->thread.is_thread, 1);
		set(thread + l->thread.global, global, 8);
		set(thread + l->thread.ci, calls + l->call.size * n, 8);
		set(thread + l->thread.stack, stack, 8);
		set(thread + l->thread.top, fuzz_below(8) ? stack + 16 * (n + 1) : fuzz_below(8), 8);
		set(thread + l->thread.error, jump, 8);
		set(thread + l->thread.base, calls, 8); /* 5.4 has the base call itself here, not its address */
		for (unsigned k = 1; k <= n; k++) {
			const uint64_t ci = calls + l->call.size * k, func = stack + 16 * k;
			const int is_c = fuzz_below(2) || (k == n && i > 0);

			set(ci + l->call.func, fuzz_below(8) ? func : func - stack, 8);
			set(ci + 16, k > 1 ? ci - l->call.size : thread + l->thread.base, 8);
			set(ci + l->call.pc, code + 4 * fuzz_below(45), 8);
			set(func, is_c ? c : lua, 8);
			set(func + l->value.tag, is_c ? l->value.c : l->value.lua, 1);
		}
		set(r->sp + 2048 * i + 8 * fuzz_below(60), thread, 8);
		if (fuzz_below(4) == 0)
			r->general[fuzz_below(r->n)] = thread;
		at = stack + 16 * (CALLS + 2);
	}
	if (fuzz_below(2))
		set(r->sp + 16, code + 4 * fuzz_below(40), 8);
	if (fuzz_below(2))
		set(r->sp + 8 * fuzz_below(60), CODE + fuzz_below(128), 8);
	r->ip = CODE + fuzz_below(160);
	return global;
}

int main(int argc, char **argv)
{
	const struct pf_memory m = {copy};
	const unsigned long n = fuzz_start(argc, argv);

	for (unsigned long i = fuzz_first; i < n; i++) {
		struct pf_puc_layout l;
		struct pf_registers r = {0};
		struct pf_unwound u = {.found = on_place, .seen = NULL};
		uint64_t first;
		uint64_t global;

		fuzz_run(i);
		l = a_layout();
		global = a_state(&l, &r);
		if (fuzz_below(4))
			for (unsigned k = fuzz_below(20); k > 0; k--)
				set(BASE + fuzz_below(SIZE / 8) * 8, fuzz_below(2) ? fuzz_word() : BASE + fuzz_below(SIZE), 8);
		if (fuzz_below(4) == 0)
			fuzz_damage(bytes, SIZE);
		if (fuzz_below(16) == 0)
			fuzz_damage((unsigned char *)&r, sizeof r);
		if (fuzz_below(64) == 0)
			r.sp = fuzz_word();
		if (fuzz_below(8) == 0)
			r.stack_end = BASE + fuzz_below(SIZE);
		reads = 0;
		last = fuzz_below(20) ? 0 : fuzz_below(10) + 1;
		found = 0;
		sum = 0;
		pf_unwind_puc(&l, global, &r, &m, &u);
		CHECK(reads < MOST_READS);
		CHECK(found == u.n && u.n <= PF_UNWIND_DEEPEST);
		CHECK(u.failed >= PF_UNWIND_COMPLETE && u.failed < PF_UNWIND_FAILURES);
		CHECK(u.state == PF_AT_LUA || u.state == PF_AT_C || u.state == PF_AT_GC || u.state == PF_OUTSIDE);
		CHECK(u.n == 0 || u.state != PF_OUTSIDE);
		/* The same again, while the rules of C functions are kept, and when they have been. */
		first = sum + (unsigned)u.failed;
		memset(&seen, 0, sizeof seen);
		u.seen = &seen;
		for (unsigned k = 0; k < 2; k++) {
			found = 0;
			sum = 0;
			pf_unwind_puc(&l, global, &r, &m, &u);
			CHECK(sum + (unsigned)u.failed == first);
		}
		complete += u.failed == PF_UNWIND_COMPLETE && u.n > 0;
	}
	CHECK(n - fuzz_first < 1000 || (complete > (n - fuzz_first) / 4 && places > n - fuzz_first));
	printf("unwind_puc: %lu runs, %lu complete stacks, %lu functions\n", n - fuzz_first, complete, places);
	return 0;
}

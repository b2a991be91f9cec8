/* The unwinder for LuaJIT's compiled code: the machine instructions that call functions, leave the trace and mark lines. */
#include "core/stack/unwind_trace.h"

#include <string.h>

#if defined(__aarch64__)
enum { LINK = 30 }; /* the register that has the return address of a call */

int pf_trace_is_mark(const unsigned char *code)
{
	uint32_t load, jump;

	memcpy(&load, code, sizeof load);
	memcpy(&jump, code + PF_TRACE_TEST, sizeof jump);
	return (load & 0xffc003e0) == 0x394002c0 && (jump & 0xff00001f) == 0x54000001; /* LDRB from X22, B.NE */
}

static int is_call(uint32_t code)
{
	return (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000; /* BL, BLR */
}

/* The size of the instruction if it is a call; else 0. */
static unsigned call_size(const unsigned char *code, uint64_t left)
{
	uint32_t call;

	if (left < sizeof call)
		return 0;
	memcpy(&call, code, sizeof call);
	return is_call(call) ? sizeof call : 0;
}

/* Lists the words that may be return addresses, the most reliable first. A called function has its return address in the link register
 * until it stores it in its frame, and later calls have frames closer to the stack pointer. */
void pf_trace_find_returns(const struct pf_luajit_view *v, struct pf_trace_returns *r)
{
	r->n = 0;
	for (unsigned i = 0; i <= PF_TRACE_FRAME_WORDS; i++) {
		const uint64_t word = i ? pf_luajit_c_word(v, i - 1) : v->r->general[LINK];

		if (word && word % PF_TRACE_OFFSET == 0)
			r->at[r->n++] = word;
	}
}

unsigned pf_trace_return(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_trace_returns *r, uint64_t *offset)
{
	uint32_t call;

	for (unsigned i = 0; r && i < r->n; i++)
		if (pf_trace_in_code(t, r->at[i] - 1) && pf_luajit_read(v, &call, r->at[i] - sizeof call, sizeof call) && is_call(call)) {
			*offset = r->at[i] - 1 - t->code;
			return i + 1;
		}
	return 0;
}

/* The instruction MOVZ of a trace's number */
static int is_load(uint32_t code)
{
	return (code & 0xffe00000) == 0x52800000;
}

static uint32_t loaded(uint32_t code)
{
	return code >> 5 & 0xffff;
}

/* An exit's stub calls the stub of the whole trace, which stores the return address at the stack pointer, and calls the common
 * exit handler, from before the instruction that loads the trace's number. The handler makes room for the registers. */
int pf_trace_exit_number(const struct pf_luajit_view *v, struct pf_trace *t, uint32_t *k)
{
	enum { ROOM = 64 * 8 };
	const uint64_t from = v->r->general[LINK];
	uint32_t load;

	if (!pf_luajit_read(v, &load, from, sizeof load) || !is_load(load) || !pf_trace_read_numbered(v, loaded(load), t))
		return 0;
	for (unsigned i = 0; i <= ROOM; i += ROOM) {
		const uint64_t n = (pf_luajit_word(v, v->r->sp + i) - from) / PF_TRACE_OFFSET - 2;

		*k = (uint32_t)n;
		if (n < t->snapshots_n)
			return 1;
	}
	return 0;
}

/* The handler reads the instruction, sets vmstate, and then takes the number from the instruction. */
void pf_trace_exit_registers(const struct pf_registers *r, uint32_t from[2])
{
	const uint32_t trace = (uint32_t)r->general[1];

	from[0] = is_load(trace) ? loaded(trace) : trace;
	from[1] = (uint32_t)r->general[0];
}

/* The handler stores the trace's stack pointer, which is the address just above the stored registers, in their last word, and 0
 * for the link register in the word before. */
int pf_trace_exit_stored(const struct pf_luajit_view *v, uint64_t at)
{
	enum { SIZE = 64 * 8 };
	uint64_t last[2];

	return pf_luajit_guess(v, last, at + SIZE - sizeof last, sizeof last) && last[0] == 0 && last[1] == at + SIZE;
}

#else

int pf_trace_is_mark(const unsigned char *code)
{
	static const unsigned char test[] = {0x41, 0xf6, 0x86}, jump[] = {0x0f, 0x85}; /* from R14 */

	return memcmp(code, test, sizeof test) == 0 && memcmp(code + PF_TRACE_TEST, jump, sizeof jump) == 0;
}

/* The size of the instruction if it looks like a call, of an address or a register; else 0. */
static unsigned call_size(const unsigned char *code, uint64_t left)
{
	enum { CALL = 0xe8, CALL_SIZE = 5, BY_REGISTER = 0xff, HIGH_REGISTER = 0x41 };

	if (left >= CALL_SIZE && code[0] == CALL)
		return CALL_SIZE;
	if (left >= 3 && code[0] == HIGH_REGISTER && code[1] == BY_REGISTER && (code[2] & 0xf8) == 0xd0)
		return 3;
	return left >= 2 && code[0] == BY_REGISTER && (code[1] & 0xf8) == 0xd0 ? 2 : 0;
}

void pf_trace_find_returns(const struct pf_luajit_view *v, struct pf_trace_returns *r)
{
	(void)v;
	r->n = 0;
}

/* The return address is the word below the trace's own frame on the C stack. The functions that the trace calls
 * overwrite the stack below this frame, but within it there may still be the return address of an earlier call by
 * another trace. So the return address that is lowest on the stack is the most reliable one. */
unsigned pf_trace_return(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_trace_returns *r, uint64_t *offset)
{
	const uint64_t word = pf_luajit_c_word(v, (PF_LUAJIT_ENTRY_SPACE + t->adjust) / 8);

	(void)r;
	if (t->adjust % 8 || !pf_trace_in_code(t, word - 1))
		return 0;
	*offset = word - 1 - t->code;
	return UINT16_MAX + 1 - t->adjust;
}

enum { EXIT = PF_X86_RAX, EXIT_TRACE = PF_X86_RCX }; /* the registers of the common exit handler that have the numbers */

/* An exit's stub pushes the exit's number, as its lower and its upper byte, where a called function would have its return
 * address. The common exit handler loads the number into a register, and then overwrites both words. */
int pf_trace_exit_number(const struct pf_luajit_view *v, struct pf_trace *t, uint32_t *k)
{
	enum { PUSH = 0x6a };
	const struct pf_registers *r = v->r;
	uint64_t lower, upper;
	unsigned char code[2];
	uint32_t i;

	if (!pf_trace_read_numbered(v, (uint32_t)v->vmstate, t))
		return 0;
	i = (PF_LUAJIT_ENTRY_SPACE + t->adjust) / 8;
	lower = pf_luajit_c_word(v, i);
	upper = pf_luajit_c_word(v, i + 1);
	if (r->sp == v->cframe - PF_LUAJIT_ENTRY_SPACE - t->adjust) {
		if (!pf_luajit_read(v, code, r->ip, sizeof code) || code[0] != PUSH)
			return 0;
		*k = code[1];
		return *k < t->snapshots_n;
	}
	if (r->sp > v->cframe - (uint64_t)PF_LUAJIT_SLOT * (i + 1))
		return 0;
	if (lower == r->general[PF_X86_R15])
		*k = (uint32_t)r->general[EXIT];
	else if (lower + 0x80 < 0x100 && upper < 0x80)
		*k = (uint32_t)(upper << 8 | (lower & 0xff));
	else
		return 0;
	return *k < t->snapshots_n;
}

void pf_trace_exit_registers(const struct pf_registers *r, uint32_t from[2])
{
	from[0] = (uint32_t)r->general[EXIT_TRACE];
	from[1] = (uint32_t)r->general[EXIT];
}

/* The handler stores the trace's stack pointer, which is the address just above the stored registers, after 16 floating-point
 * registers and 4 others. */
int pf_trace_exit_stored(const struct pf_luajit_view *v, uint64_t at)
{
	enum { SIZE = 32 * 8, STACK_POINTER = 20 * 8 };
	uint64_t pointer;

	return pf_luajit_guess(v, &pointer, at + STACK_POINTER, sizeof pointer) && pointer == at + SIZE;
}

#endif

unsigned pf_trace_call_number(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t begins, uint32_t ends, uint64_t offset, unsigned n)
{
	enum { READ_MOST = 1024 };
	unsigned char code[READ_MOST];
	const uint32_t size = ends - begins;
	unsigned calls = 0, number = n, call;

	if (ends < begins || size > READ_MOST || !pf_luajit_read(v, code, t->code + begins, size))
		return n;
	for (uint32_t i = 0; i < size; i += call ? call : PF_TRACE_OFFSET) {
		call = call_size(code + i, size - i);
		if (!call)
			continue;
		if (begins + i + call == offset + 1)
			number = calls;
		calls++;
	}
	return calls == n ? number : n;
}

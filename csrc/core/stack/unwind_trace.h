/* Compiled code: declarations for the files of the unwinder. */
#ifndef PF_UNWIND_TRACE_H
#define PF_UNWIND_TRACE_H

#include <string.h>

#include "core/stack/unwind_luajit_internal.h"

enum {
	PF_TRACE_HEAD = 136, /* bytes of a trace that are looked at */
	PF_TRACE_SLOTS = 256,
	PF_TRACE_IR_SIZE = 8,
	PF_TRACE_IR_BIAS = 0x8000,
	PF_TRACE_SNAPSHOT_SIZE = 12,
};

/* The machine code of traces: the unit of the snapshots' offsets in it; the size of a mark (see pf_trace_lines_at) and of its
 * test, which is the same in all marks of a trace. */
#if defined(__aarch64__)
enum { PF_TRACE_OFFSET = 4, PF_TRACE_MARK = 12, PF_TRACE_TEST = 8 };
#else
enum { PF_TRACE_OFFSET = 1, PF_TRACE_MARK = 14, PF_TRACE_TEST = 8 };
#endif

/* An unsigned number of up to 8 bytes. */
static inline uint64_t pf_trace_field(const unsigned char *bytes, unsigned at, unsigned size)
{
	uint64_t value = 0;

	memcpy(&value, bytes + at, size);
	return value;
}

/* Does this instruction begin or end a loop? Those instructions have the numbers before that of the jump. */
static inline int pf_trace_is_loop(const struct pf_luajit_layout *l, uint32_t instruction)
{
	enum { LOOPS = 11 };
	const uint32_t op = instruction & 0xff;

	return op < l->op_jump && op + LOOPS >= l->op_jump;
}

struct pf_trace {
	uint64_t code, ir, snapshots, map, start;
	uint32_t code_size, ir_low, map_n, loop, start_ins;
	uint32_t snapshots_n, adjust, number, link;
};

struct pf_snapshot {
	uint32_t map, ref, entries;
	unsigned slots; /* the map has entries for some of this many slots */
	unsigned base; /* slot of the innermost frame's base; slot 2 is the base of the frame in memory */
	uint64_t pc;   /* the address of the next instruction */
};

/* The slots of a snapshot. A slot whose value the compiler knew (a function, or a frame's link) has the reference to that constant,
 * which is not 0. */
struct pf_trace_slots {
	const struct pf_trace *trace;
	uint16_t constant[PF_TRACE_SLOTS];
	uint8_t frame[PF_TRACE_SLOTS];
};

static inline int pf_trace_knows(const struct pf_trace_slots *slots, unsigned i)
{
	return slots->constant[i] != 0;
}

/* The value of slot i; 0 if it is unknown. */
static inline uint64_t pf_trace_value(const struct pf_luajit_view *v, const struct pf_trace_slots *slots, unsigned i)
{
	return slots->constant[i] ? pf_luajit_word(v, slots->trace->ir + ((uint64_t)slots->constant[i] + 1) * PF_TRACE_IR_SIZE) : 0;
}

/* The compiler's instructions: the opcode; is the result an object that is made only if the trace is left, by no code of its own? */
static inline unsigned pf_trace_ir_op(uint64_t instruction)
{
	return instruction >> 40 & 0xff;
}

static inline int pf_trace_ir_is_sunk(uint64_t instruction)
{
	enum { SUNK = 0xfd };

	return (instruction >> 48 & 0xff) == SUNK;
}

static inline int pf_trace_in_code(const struct pf_trace *t, uint64_t ip)
{
	return ip - t->code < t->code_size;
}

/* Is this a test of the byte at a register and a distance, and a jump to an exit if it is not 0? */
int pf_trace_is_mark(const unsigned char *code);
/* Words that may be the return addresses of functions that compiled code has called. On arm64 they are found in the
 * link register and in this many words of the C stack; a trace's own frame has up to 130 words. On x86-64 there are
 * none. */
enum { PF_TRACE_FRAME_WORDS = 192 };
struct pf_trace_returns {
	uint64_t at[1 + PF_TRACE_FRAME_WORDS];
	unsigned n;
};
void pf_trace_find_returns(const struct pf_luajit_view *v, struct pf_trace_returns *r);
/* Does a return address lie in the trace's code? Returns 0, or the address's number: the lower, the more reliable. */
unsigned pf_trace_return(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_trace_returns *r, uint64_t *offset);
/* The number of the call, from 0, that returns to the byte after this offset, among the n calls between two offsets; n if there seem
 * to be more or less of them. */
unsigned pf_trace_call_number(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t begins, uint32_t ends, uint64_t offset, unsigned n);
/* The trace whose exit's stub or common exit handler runs, and the number of the exit. */
int pf_trace_exit_number(const struct pf_luajit_view *v, struct pf_trace *t, uint32_t *k);
/* The same after the common exit handler has set vmstate, and until it clears the trace base: the numbers of the trace and of the exit. */
void pf_trace_exit_registers(const struct pf_registers *r, uint32_t from[2]);
/* Has the common exit handler stored the registers of a trace at this address of the C stack? */
int pf_trace_exit_stored(const struct pf_luajit_view *v, uint64_t at);

/* The reads return 0 if the memory cannot be read, or its content is invalid. */
int pf_trace_offset(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, uint32_t *offset);
int pf_trace_read_numbered(const struct pf_luajit_view *v, uint32_t number, struct pf_trace *t);
int pf_trace_read_snapshot(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, struct pf_snapshot *s);
void pf_trace_read_slots(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s, struct pf_trace_slots *slots);
/* The size in slots of the frame that has this base, from its link; 0 if the link is invalid. *pc becomes the address at which its
 * caller continues, 0 if that is unknown; it stays as it is if the caller is no function of Lua. */
unsigned pf_trace_frame_size(const struct pf_luajit_view *v, const struct pf_trace_slots *slots, unsigned base, uint64_t *pc);
/* The last snapshot whose code begins at the offset or before it. */
uint32_t pf_trace_snapshot_at(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t offset);
/* The instruction at an address; if a trace has replaced it, the original one. The latter also for one that was read there. */
uint32_t pf_trace_instruction(const struct pf_luajit_view *v, uint64_t pc);
uint32_t pf_trace_original(const struct pf_luajit_view *v, uint64_t pc, uint32_t code);

/* The function that contains the next instruction, pc: the snapshot's constant, if it is known; else it is searched among the constants
 * of the trace and of those from which it branches, since compiled code compares a function with a constant before it enters it. */
int pf_trace_function(const struct pf_luajit_view *v, const struct pf_trace *t, int known, uint64_t value, uint64_t pc,
		      struct pf_luajit_function *f);

/* The lines of a stretch of code: all of them, those with an instruction that may call C code, and of these, those that may make an
 * object. */
struct pf_trace_stretch {
	struct pf_luajit_lines all, calls, allocations;
};

static inline void pf_trace_widen(struct pf_luajit_lines *lines, uint32_t line)
{
	if (!line)
		return;
	if (!lines->first || line < lines->first)
		lines->first = line;
	if (line > lines->last)
		lines->last = line;
}

static inline void pf_trace_widen_both(struct pf_luajit_lines *to, const struct pf_luajit_lines *lines)
{
	pf_trace_widen(to, lines->first);
	pf_trace_widen(to, lines->last);
}

/* All lines of a function that has lines. Damaged bytes may have any numbers. */
static inline struct pf_luajit_lines pf_trace_all_lines(const struct pf_luajit_function *f)
{
	const uint32_t more = f->lines < UINT32_MAX - f->first ? f->lines : UINT32_MAX - f->first;
	const struct pf_luajit_lines lines = {f->first, f->first + more};

	return lines;
}

/* The lines of snapshot k's code in its innermost function. */
struct pf_trace_stretch pf_trace_lines(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
				       const struct pf_snapshot *s);
/* The same, for the instruction at this offset. whole: those of the snapshot's whole code, NULL if they are not known yet */
struct pf_trace_stretch pf_trace_lines_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_luajit_function *f, uint32_t k,
					  const struct pf_snapshot *s, uint64_t offset, const struct pf_trace_stretch *whole);
/* Count the marks between two offsets in the code, and those of them up to another offset. */
uint32_t pf_trace_marks(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t begins, uint32_t ends, uint64_t offset, uint32_t *before);
/* The code of snapshot k is in the copy of the loop whose instruction is `loop`, and has the references [*from, *end). If it has marks,
 * limit them to the part between two marks that has the offset. Returns 1; 0 if there are no marks; -1 if the machine code has more
 * or fewer marks than the references. */
int pf_trace_between_marks(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t loop, uint32_t k, uint64_t offset, uint32_t *from,
			   uint32_t *end);
/* The snapshot before which the code of snapshot k ends, in this trace. */
int pf_trace_next_snapshot(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, struct pf_snapshot *next);
/* The snapshot of an instruction, among the first n. */
uint32_t pf_trace_snapshot_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t n, uint32_t ref);
/* The function whose frame has base s->base, and whose next instruction is s->pc. */
int pf_trace_function_at(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_trace_slots *slots, uint64_t base,
			 const struct pf_snapshot *s, struct pf_luajit_function *f);
/* The return address of the innermost function of a frame (its base), in a snapshot which was taken when it had called another; 0 if
 * that is unknown. */
uint64_t pf_trace_return_address(const struct pf_luajit_view *v, const struct pf_snapshot *called, const struct pf_trace_slots *slots, unsigned base);
/* How much work compiled code does for a stretch of a function's code. */
enum pf_trace_work { PF_TRACE_NO_WORK, PF_TRACE_LITTLE_WORK, PF_TRACE_WORK };
/* Can the function go back to this instruction or to one before it, by a loop? */
int pf_trace_may_go_back(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc);
/* Does a comparison follow this snapshot? Then its address may be that of the branch that was not taken. */
int pf_trace_begins_with_comparison(const struct pf_luajit_view *v, const struct pf_trace *t, const struct pf_snapshot *s);
/* Operators, as bits. */
enum pf_trace_operator {
	PF_TRACE_ADD = 1, PF_TRACE_SUBTRACT = 2, PF_TRACE_MULTIPLY = 4, PF_TRACE_DIVIDE = 8, PF_TRACE_MINUS = 32, PF_TRACE_EQUALITY = 64,
	PF_TRACE_INDEX = 128, PF_TRACE_OPERATORS = 255,
};
/* The operators whose metamethods the compiler has looked up for the trace, but for PF_TRACE_INDEX, where a table is more likely. */
unsigned pf_trace_operators(const struct pf_luajit_view *v, const struct pf_trace *t);
/* May a function that the trace has entered have called another one by a tail call? The compiler compares each function with a constant. */
int pf_trace_may_tail_call(const struct pf_luajit_view *v, const struct pf_trace *t);
/* A call returns to the byte after this offset in the code of snapshot k. If that is a loop's copy of the recorded code, return the
 * snapshot of the recorded call, which is more precise; else k. */
uint32_t pf_trace_recorded_call(const struct pf_luajit_view *v, const struct pf_trace *t, uint32_t k, uint64_t offset);
/* The code of snapshot k, *s, has called the collector. Replace both by the snapshot of the code that allocates, and set lines to
 * its lines. Returns 0 and changes nothing if that code is unknown. */
int pf_trace_allocations(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t *k, struct pf_snapshot *s,
			 struct pf_luajit_lines *lines);

/* The place of code: a snapshot whose base and pc are those of the function, and the lines in it. */
struct pf_trace_place {
	struct pf_snapshot s;
	struct pf_luajit_lines lines;
	uint64_t code; /* of a function in which the snapshot's whole code has these lines; 0: none */
	struct pf_trace_stretch whole;
};
/* The code at an offset is in the stretch of snapshot k, *s. Find the innermost function and the fewest lines that have it for
 * sure. Returns 0 if these are the snapshot's function and the lines of pf_trace_lines_at. */
int pf_trace_find_place(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, uint64_t offset,
			struct pf_trace_place *place);
/* The place of snapshot k's whole code. Sets crosses if the code enters or leaves functions. */
int pf_trace_place_of(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, struct pf_trace_place *place, int *crosses);
/* Make a place the innermost one that has both. */
int pf_trace_join(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, struct pf_trace_place *place,
		  const struct pf_trace_place *other);
/* The place of the code at an offset, of snapshot k, in the copy of a loop which begins at snapshot `loop`. Returns 0 if it is unknown. */
int pf_trace_place_of_copy(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, uint64_t offset, uint32_t loop,
			   struct pf_trace_place *place);
/* The code of snapshot k, place->s, has called a C function. If the code up to the next snapshot enters or leaves functions of Lua,
 * place->s becomes the state in the one of them that calls. If several call, it is the outermost of these, and place->lines are the lines
 * of all their calls in it. Otherwise place->lines are 0, and pf_trace_lines_at has the lines. */
void pf_trace_place_of_call(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, uint32_t k, struct pf_trace_place *place);

#endif

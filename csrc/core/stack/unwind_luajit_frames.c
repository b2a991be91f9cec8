/* The unwinder for LuaJIT: functions, the frames of a thread, and the threads that resumed it. */
#include "core/stack/unwind_luajit_internal.h"

#include <string.h>

enum {
	CODE_MOST = 1 << 26, /* instructions of a function */
	RESUMER_WORDS = 2048, CHUNK = 64, CFRAME_WORDS = 16,
	CFRAMES_MOST = 256,
	CALLBACK = 1, /* the continuation of an FFI callback's frame */
};

/* --- functions ------------------------------------------------------------------------------------------------------ */

/* Any word of a trace may be given as the address of a function's code. Its first instruction is one of those for Lua functions,
 * which come before those for C functions; and the lines of its instructions, if there are any, follow them. */
static int is_code(const struct pf_luajit_view *v, const struct pf_luajit_function *f, unsigned op)
{
	enum { FUNCTION_KINDS = 6, PROTOTYPE_MOST = 1 << 28 /* bytes */ };
	const uint64_t size = (uint64_t)f->n * PF_LUAJIT_INSTRUCTION;

	return f->n > 0 && f->n < CODE_MOST && (!f->lineinfo || (f->lineinfo - f->code >= size && f->lineinfo - f->code < PROTOTYPE_MOST)) &&
	       op < v->l->op_c_first && op + FUNCTION_KINDS >= v->l->op_c_first;
}

static int read_prototype(const struct pf_luajit_view *v, uint64_t code, struct pf_luajit_function *f)
{
	const struct pf_luajit_layout *l = v->l;
	unsigned char head[PF_LUAJIT_PROTOTYPE + PF_LUAJIT_INSTRUCTION];

	if (code % PF_LUAJIT_INSTRUCTION || !pf_luajit_read(v, head, code - l->prototype_end, l->prototype_end + PF_LUAJIT_INSTRUCTION) ||
	    head[l->object_type] != l->type_prototype)
		return 0;
	f->object = 0;
	f->id = 0;
	f->code = code;
	memcpy(&f->n, head + l->prototype_n, sizeof f->n);
	memcpy(&f->first, head + l->prototype_first, sizeof f->first);
	memcpy(&f->lines, head + l->prototype_lines, sizeof f->lines);
	memcpy(&f->lineinfo, head + l->prototype_lineinfo, sizeof f->lineinfo);
	memcpy(&f->name, head + l->prototype_source, sizeof f->name);
	if (!is_code(v, f, head[l->prototype_end]))
		return 0;
	if (f->name == v->memo->last.name)
		f->name_size = v->memo->last.name_size;
	else if (!pf_luajit_read(v, &f->name_size, f->name + l->string_size, sizeof f->name_size))
		return 0;
	v->memo->last = *f;
	return 1;
}

int pf_luajit_function_of_code(const struct pf_luajit_view *v, uint64_t code, struct pf_luajit_function *f)
{
	struct pf_trace_reads *reads;

	if (code && code == v->memo->last.code) {
		*f = v->memo->last;
		return 1;
	}
	reads = pf_luajit_note_whole(v, PF_READ_CODE, code);
	return pf_luajit_noted(v, reads, read_prototype(v, code, f));
}

static int read_object(const struct pf_luajit_view *v, uint64_t object, struct pf_luajit_function *f)
{
	const struct pf_luajit_layout *l = v->l;
	unsigned char bytes[PF_LUAJIT_OBJECT];

	if (!object || object % 8 || !pf_luajit_read(v, bytes, object, l->function_c) || bytes[l->object_type] != l->type_function)
		return 0;
	f->object = object;
	f->id = bytes[l->function_id];
	f->n = 0;
	memcpy(&f->code, bytes + l->function_code, sizeof f->code);
	if (f->id)
		return f->code != 0;
	if (!pf_luajit_function_of_code(v, f->code, f))
		return 0;
	f->object = v->memo->last.object = object;
	return 1;
}

int pf_luajit_object(const struct pf_luajit_view *v, uint64_t object, struct pf_luajit_function *f)
{
	struct pf_trace_reads *reads;

	if (object && object == v->memo->last.object) {
		*f = v->memo->last;
		return 1;
	}
	reads = pf_luajit_note_whole(v, PF_READ_OBJECT, object);
	return pf_luajit_noted(v, reads, read_object(v, object, f));
}

int pf_luajit_function(const struct pf_luajit_view *v, uint64_t value, struct pf_luajit_function *f)
{
	return pf_luajit_tag(value) == v->l->tag_function && pf_luajit_object(v, pf_luajit_address(value), f);
}

int pf_luajit_function_at(const struct pf_luajit_view *v, uint64_t base, struct pf_luajit_function *f)
{
	struct pf_trace_reads *reads = pf_luajit_note_whole(v, PF_READ_FRAME, base);
	uint64_t value;

	return pf_luajit_noted(v, reads, pf_luajit_is_base(v, base) && pf_luajit_read(v, &value, base - 2 * PF_LUAJIT_SLOT, sizeof value) &&
						 pf_luajit_function(v, value, f));
}

int pf_luajit_holds(const struct pf_luajit_function *f, uint64_t pc)
{
	return !f->id && pc % PF_LUAJIT_INSTRUCTION == 0 && pc > f->code && pc - f->code <= (uint64_t)f->n * PF_LUAJIT_INSTRUCTION;
}

uint32_t pf_luajit_line(const struct pf_luajit_view *v, const struct pf_luajit_function *f, uint64_t pc)
{
	const uint64_t at = pf_luajit_line_place(f, pc);
	uint32_t line = 0;

	if (!pf_luajit_holds(f, pc) || !f->lineinfo)
		return 0;
	return !at || pf_luajit_read(v, &line, at, pf_luajit_line_size(f)) ? f->first + line : 0;
}

/* --- frames --------------------------------------------------------------------------------------------------------- */

void pf_luajit_fail(struct pf_luajit_view *v, int failure)
{
	if (v->u->failed == PF_UNWIND_COMPLETE)
		v->u->failed = failure;
}

static void describe(const struct pf_luajit_view *v, const struct pf_luajit_function *f, struct pf_place *place)
{
	place->source_size = f->name_size;
	place->source = f->name + v->l->string_text;
	place->linedefined = (int32_t)f->first;
	place->kind = PF_PLACE_LUA;
	place->function = f->code;
}

int pf_luajit_found(struct pf_luajit_view *v, const struct pf_luajit_function *f, const struct pf_luajit_lines *lines)
{
	struct pf_place place = {.thread = v->thread};
	unsigned char op;

	if (v->stopped)
		return 0;
	if (v->u->n >= PF_UNWIND_DEEPEST) {
		pf_luajit_fail(v, PF_UNWIND_DEEP);
		v->stopped = 1;
		return 0;
	}
	if (!f->id) {
		describe(v, f, &place);
		if (lines) {
			place.line = lines->first;
			place.end = lines->last;
		}
	} else {
		/* A function in the interpreter's own code has a special instruction, and its C code is at most a part of it. */
		const int in_c = pf_luajit_read(v, &op, f->code, 1) && op >= v->l->op_c_first && op <= v->l->op_c_last;

		place.kind = in_c ? PF_PLACE_C : PF_PLACE_BUILTIN;
		/* All functions that coroutine.wrap returns have the same instruction. */
		place.function = in_c ? pf_luajit_word(v, f->object + v->l->function_c) : f->code;
	}
	v->u->n++;
	v->stopped = v->u->found(v->u->to, &place) != 0;
	return !v->stopped;
}

uint64_t pf_luajit_lua_caller(const struct pf_luajit_view *v, uint64_t base, uint64_t pc)
{
	uint32_t call;

	if (!pf_luajit_read(v, &call, pc - PF_LUAJIT_INSTRUCTION, sizeof call))
		return 0;
	return base - PF_LUAJIT_SLOT * (2 + (uint64_t)(call >> 8 & 0xff));
}

uint64_t pf_luajit_previous_cframe(const struct pf_luajit_view *v, uint64_t cframe)
{
	const uint64_t previous = pf_luajit_word(v, cframe + v->l->cframe_previous) & ~(uint64_t)PF_LUAJIT_CFRAME_FLAGS;

	return previous > cframe ? previous : 0;
}

uint64_t pf_luajit_cframe_of(const struct pf_luajit_view *v, uint64_t cframe, uint64_t base)
{
	int32_t results;

	for (int i = 0; cframe && i < CFRAMES_MOST; i++) {
		if (!pf_luajit_read(v, &results, cframe + v->l->cframe_results, sizeof results) || results >= 0)
			return cframe;
		if (base - PF_LUAJIT_SLOT >= v->low + (uint64_t)-(int64_t)results)
			return cframe;
		cframe = pf_luajit_previous_cframe(v, cframe);
	}
	return cframe;
}

uint64_t pf_luajit_saved_pc(const struct pf_luajit_view *v, uint64_t cframe)
{
	return cframe ? pf_luajit_word(v, cframe + v->l->cframe_pc) : 0;
}

uint64_t pf_luajit_cframe_below(const struct pf_luajit_view *v, uint64_t cframe, uint64_t base)
{
	cframe = pf_luajit_cframe_of(v, cframe, base);
	return cframe ? pf_luajit_previous_cframe(v, cframe) : 0;
}

int pf_luajit_is_bottom(const struct pf_luajit_view *v, uint64_t base)
{
	return base - v->low <= 2 * PF_LUAJIT_SLOT; /* an address that is not known is 0, which is below */
}

/* The frames of one thread. */
static void thread_frames(struct pf_luajit_view *v, uint64_t base, uint64_t pc, const struct pf_luajit_lines *lines)
{
	uint64_t cframe = v->cframe;
	const int innermost_unknown = !pc && !lines;
	/* The frames of a function that calls itself mostly have the same value, and return to the same instruction. */
	struct {
		uint64_t value;           /* of the function f; 0: none */
		uint64_t code, pc;        /* the line is that of this pc */
		uint32_t line;
		uint64_t called, caller;  /* a return address; from the base of a frame with it to the base of its caller */
	} known = {0};
	struct pf_luajit_function f;
	int first = 1;

	for (unsigned i = 0; i < 2 * PF_UNWIND_DEEPEST && !pf_luajit_is_bottom(v, base); i++) {
		struct pf_luajit_lines line = {0, 0};
		uint64_t frame[2], outer;
		int error_frame;

		if (base % PF_LUAJIT_SLOT || base > v->high || !pf_luajit_read(v, frame, base - sizeof frame, sizeof frame)) {
			pf_luajit_fail(v, base % PF_LUAJIT_SLOT || base > v->high ? PF_UNWIND_BROKEN : PF_UNWIND_UNREADABLE);
			return;
		}
		error_frame = pf_luajit_tag(frame[0]) == v->l->tag_thread; /* LuaJIT makes a frame without a function to report an error */
		if (!error_frame && (!known.value || frame[0] != known.value)) {
			if (!pf_luajit_function(v, frame[0], &f)) {
				pf_luajit_fail(v, PF_UNWIND_BROKEN);
				return;
			}
			known.value = frame[0];
		}
		if (error_frame || v->skip) {
			v->skip = 0; /* the second frame of a vararg function has its variable arguments */
		} else {
			if (!f.id && !(first && lines)) {
				if (!pf_luajit_holds(&f, pc))
					pc = pf_luajit_replaced(v, pc);
				if (pc != known.pc || f.code != known.code) {
					known.line = pf_luajit_line(v, &f, pc);
					known.pc = pc;
					known.code = f.code;
				}
				line.first = line.last = known.line;
				if (first && innermost_unknown)
					pf_luajit_fail(v, PF_UNWIND_NO_PC);
			}
			if (!pf_luajit_found(v, &f, first && lines ? lines : &line))
				return;
		}
		first = 0;
		outer = base - (frame[1] & ~(uint64_t)PF_LINK_MASK_P);
		if ((frame[1] & PF_LINK_MASK) == PF_LINK_LUA) {
			pc = frame[1];
			if (pc != known.called) {
				known.called = pc;
				known.caller = base - pf_luajit_lua_caller(v, base, pc);
			}
			outer = base - known.caller;
		} else if ((frame[1] & PF_LINK_MASK_P) == PF_LINK_CONTINUATION) {
			uint64_t continuation[2] = {0, 0};

			pf_luajit_read(v, continuation, base - 4 * PF_LUAJIT_SLOT, sizeof continuation);
			pc = continuation[1];
			if (continuation[0] == CALLBACK) {
				cframe = pf_luajit_cframe_below(v, cframe, base);
				pc = pf_luajit_saved_pc(v, pf_luajit_cframe_of(v, cframe, outer));
			}
		} else if ((frame[1] & PF_LINK_MASK_P) == PF_LINK_VARARG) {
			v->skip = 1;
		} else if ((frame[1] & PF_LINK_MASK) == PF_LINK_C) {
			cframe = pf_luajit_cframe_below(v, cframe, base);
			pc = pf_luajit_saved_pc(v, pf_luajit_cframe_of(v, cframe, outer));
		}
		if (outer >= base) {
			pf_luajit_fail(v, PF_UNWIND_BROKEN);
			return;
		}
		base = outer;
	}
}

/* --- threads -------------------------------------------------------------------------------------------------------- */

int pf_luajit_is_thread(const struct pf_luajit_view *v, uint64_t thread)
{
	unsigned char type;
	uint64_t global;
	int has_type, has_global;

	if (thread % 8)
		return 0;
	has_type = pf_luajit_guess(v, &type, thread + v->l->object_type, 1);
	if (has_type && type != v->l->type_thread)
		return 0;
	has_global = pf_luajit_guess(v, &global, thread + v->l->thread_global, sizeof global);
	if (has_type != has_global && (has_type || global == v->global))
		pf_luajit_refuse(v);
	return has_type && has_global && global == v->global;
}

uint64_t pf_luajit_cframe(const struct pf_luajit_view *v, uint64_t thread)
{
	return pf_luajit_word(v, thread + v->l->thread_cframe) & ~(uint64_t)PF_LUAJIT_CFRAME_FLAGS;
}

void pf_luajit_look_at(struct pf_luajit_view *v, uint64_t thread, uint64_t cframe)
{
	uint32_t slots;

	v->thread = thread;
	v->cframe = cframe;
	v->base = pf_luajit_word(v, thread + v->l->thread_base);
	v->low = pf_luajit_word(v, thread + v->l->thread_stack);
	v->high = v->low;
	if (pf_luajit_read(v, &slots, thread + v->l->thread_slots, sizeof slots) && slots <= PF_LUAJIT_STACK / PF_LUAJIT_SLOT)
		v->high += (uint64_t)slots * PF_LUAJIT_SLOT;
	v->skip = 0;
}

/* Is this an interpreter's frame on the C stack, with a thread and the previous frame, which lies above it? */
static int is_cframe(const struct pf_luajit_view *v, uint64_t at, uint64_t thread, uint64_t previous)
{
	previous &= ~(uint64_t)PF_LUAJIT_CFRAME_FLAGS;
	if (previous && previous - at >= PF_LUAJIT_C_STACK)
		return 0;
	return pf_may_be_thread(v->global, v->r->sp, thread) && pf_luajit_is_thread(v, thread) && pf_luajit_cframe(v, thread) == at;
}

/* Read n words of the C stack, or those before the first one that cannot be read. Returns how many were read. */
static size_t read_stack(const struct pf_luajit_view *v, uint64_t *words, uint64_t at, size_t n)
{
	size_t got = 0;

	if (pf_luajit_guess(v, words, at, n * sizeof *words))
		return n;
	while (got < n && pf_luajit_guess(v, words + got, at + got * sizeof *words, sizeof *words))
		got++;
	return got;
}

int pf_luajit_find_above(struct pf_luajit_view *v, uint64_t from)
{
	const unsigned a = v->l->cframe_thread / 8, b = v->l->cframe_previous / 8;
	const uint64_t end = v->r->stack_end;
	uint64_t words[CHUNK + CFRAME_WORDS] = {0};

	if (a >= CFRAME_WORDS || b >= CFRAME_WORDS)
		return 0;
	for (uint64_t at = from; at < from + RESUMER_WORDS * sizeof *words; at += CHUNK * sizeof *words) {
		size_t n, got;

		if (end && at >= end)
			return 0;
		n = (end && end - at < sizeof words ? (size_t)(end - at) : sizeof words) / sizeof *words;
		got = read_stack(v, words, at, n);
		if (got < n && end)
			pf_luajit_refuse(v);
		if (got == 0)
			return 0;
		memset(words + got, 0, sizeof words - got * sizeof *words);
		for (unsigned k = 0; k < CHUNK; k++)
			if (words[k + a] && is_cframe(v, at + k * sizeof *words, words[k + a], words[k + b])) {
				pf_luajit_look_at(v, words[k + a], at + k * sizeof *words);
				return 1;
			}
	}
	return 0;
}

void pf_luajit_frames(struct pf_luajit_view *v, uint64_t base, uint64_t pc, const struct pf_luajit_lines *lines)
{
	const uint64_t first = v->global - v->l->main_below;

	thread_frames(v, base, pc, lines);
	if (v->u->alone && v->u->n)
		return;
	/* Report each resumer in turn. The loop ends, since each resumer lies farther up the C stack. */
	while (!v->stopped && v->thread != first && v->u->failed != PF_UNWIND_BROKEN && v->u->failed != PF_UNWIND_UNREADABLE) {
		uint64_t outermost = v->cframe;

		for (uint64_t outer, i = 0; i < CFRAMES_MOST && (outer = pf_luajit_previous_cframe(v, outermost)) != 0; i++)
			outermost = outer;
		if (!pf_luajit_find_above(v, outermost + sizeof outermost))
			return;
		thread_frames(v, v->base, pf_luajit_saved_pc(v, pf_luajit_cframe_of(v, v->cframe, v->base)), NULL);
	}
}

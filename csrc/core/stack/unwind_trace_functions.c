/* The unwinder for LuaJIT's compiled code: the functions that are compiled into a trace, and the sizes of their frames. */
#include "core/stack/unwind_trace.h"

enum {
	PARENTS_MOST = 64,
	FUNCTION_MOST = 4 << 20, /* bytes */
};

/* Find the Lua function that contains the next instruction, pc, among a trace's constants: the address of its code, with which the
 * trace has compared the called function, or its prototype, to which the trace has returned. */
static int among_constants(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t pc, struct pf_luajit_function *f)
{
	for (uint32_t ref = PF_TRACE_IR_BIAS; ref > t->ir_low && v->memo->constants < PF_LUAJIT_CONSTANTS; v->memo->constants++) {
		const uint64_t word = pf_luajit_word(v, t->ir + (uint64_t)--ref * PF_TRACE_IR_SIZE);

		if (pc - word > FUNCTION_MOST)
			continue;
		if ((pf_luajit_function_of_code(v, word, f) && pf_luajit_holds(f, pc)) ||
		    (pf_luajit_function_of_code(v, word + v->l->prototype_end, f) && pf_luajit_holds(f, pc)))
			return 1;
	}
	return 0;
}

int pf_trace_function(const struct pf_luajit_view *v, const struct pf_trace *t, int known, uint64_t value, uint64_t pc,
		      struct pf_luajit_function *f)
{
	struct pf_trace parent = *t;

	if (known && (pf_luajit_object(v, value, f) || pf_luajit_function(v, value, f)) && (f->id || pf_luajit_holds(f, pc)))
		return 1;
	/* A side trace does not compare the functions of its parent's frames again. Its first instruction has the parent's number. */
	for (unsigned i = 0; i < PARENTS_MOST; i++) {
		uint16_t number;

		if (among_constants(v, &parent, pc, f))
			return 1;
		if (!pf_luajit_read(v, &number, parent.ir + (uint64_t)PF_TRACE_IR_BIAS * PF_TRACE_IR_SIZE, sizeof number) || !number ||
		    !pf_trace_read_numbered(v, number, &parent))
			return 0;
	}
	return 0;
}

uint32_t pf_trace_original(const struct pf_luajit_view *v, uint64_t pc, uint32_t code)
{
	struct pf_trace t;

	return pf_trace_is_loop(v->l, code) && pf_trace_read_numbered(v, code >> 16, &t) && t.start == pc ? t.start_ins : code;
}

uint32_t pf_trace_instruction(const struct pf_luajit_view *v, uint64_t pc)
{
	uint32_t code;

	return pf_luajit_read(v, &code, pc, sizeof code) ? pf_trace_original(v, pc, code) : 0;
}

unsigned pf_trace_frame_size(const struct pf_luajit_view *v, const struct pf_trace_slots *slots, unsigned base, uint64_t *pc)
{
	const uint64_t link = pf_trace_value(v, slots, base - 1);

	if ((link & PF_LINK_MASK) == PF_LINK_LUA) {
		*pc = link;
		return 2 + (pf_trace_instruction(v, link - PF_LUAJIT_INSTRUCTION) >> 8 & 0xff);
	}
	if ((link & PF_LINK_MASK_P) == PF_LINK_CONTINUATION)
		*pc = base > 4 ? pf_trace_value(v, slots, base - 3) : 0;
	return (unsigned)(link >> 3 & 0xff);
}

/* For the files of the unwinder for PUC Lua:
 *
 *   unwind_puc.c        threads, calls and their functions
 *   unwind_puc_lines.c  the instruction that runs, and its line */
#ifndef PF_UNWIND_PUC_INTERNAL_H
#define PF_UNWIND_PUC_INTERNAL_H

#include <string.h>

#include "core/stack/c_frames.h"
#include "core/stack/unwind_puc.h"

enum { PF_PUC_CHUNK = 32 /* words */ };

struct pf_puc_unwinder {
	const struct pf_puc_layout *l;
	const struct pf_registers *r;
	const struct pf_memory *m;
	struct pf_unwound *u;
	uint64_t global;
	int stopped;
	int collects; /* the thread collects garbage */
	/* Some words of the C stack. */
	uint64_t words_at;
	unsigned words_size; /* bytes */
	uint8_t bytes[PF_PUC_CHUNK * 8];
	/* The prototype of the last Lua function, and its name: functions call themselves, and others of their chunk. */
	uint64_t proto_at, source, source_text;
	uint32_t source_size;
	uint8_t proto[PF_PUC_MOST_FIELDS];
	/* The last closure and its place: a function that calls itself mostly is the same closure. */
	uint64_t closure;
	struct pf_place closure_place;
	/* The line that was found last, its function and its pc: a function that calls itself mostly does so on the same line. */
	uint64_t line_function, line_pc;
	uint32_t line;
};

struct pf_puc_thread {
	uint64_t at, ci, base, stack;
	uint64_t error; /* the innermost lua_longjmp */
	int in_lua;     /* its innermost function is a Lua function */
};

static inline uint64_t pf_puc_word(const struct pf_puc_unwinder *w, const uint8_t *bytes, unsigned offset)
{
	uint32_t narrow;
	uint64_t wide;

	if (w->l->pointer == sizeof narrow) {
		memcpy(&narrow, bytes + offset, sizeof narrow);
		return narrow;
	}
	memcpy(&wide, bytes + offset, sizeof wide);
	return wide;
}

static inline uint32_t pf_puc_number(const uint8_t *bytes, unsigned offset)
{
	uint32_t v;

	memcpy(&v, bytes + offset, sizeof v);
	return v;
}

static inline int pf_puc_copy(const struct pf_puc_unwinder *w, void *to, uint64_t address, size_t n)
{
	return w->m->read(w->m, to, address, n);
}

/* A pointer; 0 if it cannot be read. */
static inline uint64_t pf_puc_pointer_at(const struct pf_puc_unwinder *w, uint64_t address)
{
	uint8_t bytes[8];

	return pf_puc_copy(w, bytes, address, w->l->pointer) < 0 ? 0 : pf_puc_word(w, bytes, 0);
}

static inline unsigned pf_puc_byte_at(const struct pf_puc_unwinder *w, uint64_t address)
{
	uint8_t byte;

	return pf_puc_copy(w, &byte, address, 1) < 0 ? UINT8_MAX + 1u : byte;
}

/* Look at the words of the C stack from an address on. Returns 0 or -EFAULT. */
int pf_puc_look_at_stack(struct pf_puc_unwinder *w, uint64_t address);

/* A word of the C stack. Returns 0 or -EFAULT. */
static inline int pf_puc_stack_word(struct pf_puc_unwinder *w, uint64_t address, uint64_t *v)
{
	const uint64_t at = address - w->words_at;

	/* A damaged address need not be aligned. */
	if ((at >= w->words_size || w->words_size - at < w->l->pointer) && pf_puc_look_at_stack(w, address) < 0)
		return -1;
	*v = pf_puc_word(w, w->bytes, (unsigned)(address - w->words_at));
	return 0;
}

/* Look at the words of the C stack from an address on, as many as w->bytes has room for, or up to `end`. Returns the address
 * after the last one: if there are none, or they cannot be read, the address where it began. */
static inline uint64_t pf_puc_stack_words(struct pf_puc_unwinder *w, uint64_t address, uint64_t end)
{
	if (address + w->l->pointer > end || pf_puc_look_at_stack(w, address) < 0)
		return address;
	return address + (w->words_size < end - address ? w->words_size : (end - address) & ~(uint64_t)(w->l->pointer - 1u));
}

/* Does the thread collect garbage for its innermost function? c_function: its code if that is a C function, else 0 */
int pf_puc_collects(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, uint64_t c_function);
/* The pc in the innermost function: the address after the running instruction. saved: the pc that Lua saved last */
uint64_t pf_puc_live_pc(struct pf_puc_unwinder *w, const struct pf_puc_thread *t, const uint8_t *proto, uint64_t saved);
/* The pc in the frame of the interpreter's loop; else the saved one. */
uint64_t pf_puc_pc_in(struct pf_puc_unwinder *w, struct pf_c_frame *f, const uint8_t *proto, const struct pf_puc_pc *p, uint64_t saved);
/* The line of the instruction before a pc; 0: unknown. */
uint32_t pf_puc_line(const struct pf_puc_unwinder *w, const uint8_t *proto, uint64_t pc);

#endif

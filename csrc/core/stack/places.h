/* Turns the functions of a stack into frames of interned stacks, innermost first: unwound ones, and those that an interpreter's own
 * interface shows at a safe point. */
#ifndef PF_PLACES_H
#define PF_PLACES_H

#include "core/stack/stacks.h"
#include "core/stack/unwind.h"

/* The sources whose functions are hidden, together with the pcall by which they call the program. */
struct pf_hidden {
	char source[2][256];
};

enum { PF_PLACES_KNOWN = 16 };

/* The `line` of a struct pf_function that is not a Lua function: a C function; a chunk, whose name is kept once for all its functions; a
 * function of another process that LuaJIT implements in assembler, whose source_key is the distance of its instruction from the global
 * state. */
enum { PF_PLACES_C = -1, PF_PLACES_CHUNK = -2, PF_PLACES_BUILTIN = -3, PF_PLACES_LABEL = -4 };

/* One stack. */
struct pf_places {
	struct pf_stacks *stacks;
	const struct pf_memory *memory; /* has the names of the chunks */
	const struct pf_hidden *hidden;
	uint32_t *frames; /* 0: there was no memory for the frame. Then pf_stacks_path fails, so that no stack lacks a function */
	unsigned n, most; /* most: the room, at most PF_STACK_DEPTH */
	uint32_t function; /* number of the last function; 0 if it is not shown, or there was no memory */
	/* The last frame with lines: a function that calls itself mostly has the same one again. */
	struct {
		uint32_t function, line, end, number;
	} last;
	/* The last chunk's name, which most functions of a stack share. n: its length, 0: there is none; key and hash identify it */
	struct {
		uint64_t address, key;
		uint32_t n, hash;
	} chunk;
	uint8_t deep;      /* there are more functions than room */
	/* Returns the number of a C function or builtin of another process; 0 without memory. NULL in the own process: see
	 * pf_places_c_function */
	uint32_t (*c_function)(struct pf_places *p, const struct pf_place *place);
	/* Caches the functions of this stack by their hash, since the same ones often recur. */
	struct {
		uint64_t source;
		int32_t line;
		uint32_t function;
	} known[PF_PLACES_KNOWN];
};

/* The function `found` of struct pf_unwound; to: a struct pf_places. */
int pf_places_add(void *to, const struct pf_place *place);
/* Returns the activity of the thread (enum pf_state), after the unwinding. Outside of Lua, the stack is empty then. */
int pf_places_state(struct pf_places *p, const struct pf_unwound *u);

/* The number of the function of a C function, by the address of its code; 0 without memory. */
uint32_t pf_places_c_function(struct pf_stacks *s, uint64_t code);

/* A hash of bytes, which begins with h. */
uint32_t pf_places_hash(const unsigned char *bytes, size_t n, uint32_t h);

#endif

/* The fields of PUC Lua's structures, for an unwinder: offsets in bytes. There is no table for each version: binding/stack/learn_puc.c
 * finds the offsets, so far in 5.1 to 5.4. */
#ifndef PF_UNWIND_PUC_H
#define PF_UNWIND_PUC_H

#include "core/stack/unwind.h"

enum { PF_PUC_NONE = UINT16_MAX }; /* the structure has no such field */
/* Bytes that the unwinder reads at most of a CallInfo or a Proto, of a TValue, and of a closure or before the characters of a string. */
enum { PF_PUC_MOST_FIELDS = 192, PF_PUC_MOST_VALUE = 16, PF_PUC_MOST_HEAD = 64 };

/* The pc is the address of the next instruction. Some compilers keep that of the running one. */
enum pf_puc_kept { PF_PUC_NOT_KEPT, PF_PUC_NEXT, PF_PUC_CURRENT };

/* In 5.1 and 5.4 the pc is a local variable of the interpreter's loop, and savedpc may belong to an earlier instruction. */
struct pf_puc_pc {
	uint8_t registers; /* enum pf_puc_kept */
	uint8_t preferred; /* this register, or another one if this has no address of an instruction */
	uint8_t alone;     /* only the preferred one is tried */
	uint8_t saved;     /* savedpc comes first, if a register or a word of the frame has the same address */
	uint8_t word;      /* enum pf_puc_kept: in a word of the loop's frame, if no register has it */
	uint16_t below;    /* the word's distance below the frame's end */
};

struct pf_code;

/* The addresses of code. */
struct pf_puc_code {
	uint64_t from, end; /* 0: unknown */
};
enum { PF_PUC_COLLECTORS = 2 };

struct pf_puc_layout {
	uint8_t pointer; /* size of a pointer */
	/* While the stack is reallocated, the calls hold offsets instead of pointers (since 5.4.5). */
	uint8_t relative;
	struct {
		uint64_t from, end;               /* the code of the interpreter's loop; 0: savedpc is always right */
		const struct pf_code *code;
		uint8_t unknown; /* this is another build of the interpreter, so that its loop is somewhere else */
		struct pf_puc_pc running, called; /* while it runs itself, and while it has called a C function */
	} loop;
	struct {
		struct pf_puc_code functions[PF_PUC_COLLECTORS]; /* they call all that collects garbage, and nothing else */
		struct pf_puc_code loop; /* the interpreter's loop, where savedpc is always right too */
	} collector;
	struct { /* lua_State */
		uint16_t type, status; /* bytes */
		uint16_t global, ci, stack, error;
		uint16_t top;  /* the end of the values on the Lua stack */
		uint16_t base; /* the base of the list of calls; in 5.1 a pointer to it */
		uint16_t pc;   /* 5.1: the savedpc of the innermost function */
		uint8_t is_thread; /* the type of a thread */
	} thread;
	uint16_t main;     /* global_State: the main thread, PF_PUC_NONE if unknown */
	uint16_t previous; /* lua_longjmp: the outer one */
	struct {           /* CallInfo */
		uint16_t func, pc;
		uint16_t previous; /* PF_PUC_NONE: they are elements of an array */
		uint16_t size;     /* the size of such an element; else bytes that hold all of these */
	} call;
	struct { /* TValue: the byte with the type, and its values for closures and for C functions without one */
		uint16_t tag;
		uint8_t lua, c, light;
	} value;
	struct { /* Closure: the byte that distinguishes Lua from C, and its values */
		uint16_t kind, proto, code;
		uint16_t size; /* bytes that hold all of these */
		uint8_t lua, c;
	} closure;
	struct { /* Proto */
		uint16_t code, counts[2]; /* the numbers of instructions and of lines, in any order */
		uint16_t lines, steps;    /* lines: array of int, 5.1 to 5.3; steps: array of differences, 5.4. The other is PF_PUC_NONE */
		uint16_t known, n_known;  /* 5.4: the lines of some instructions, which are known */
		uint16_t linedefined, source;
		uint16_t size;            /* bytes that hold all of these */
	} proto;
	struct { /* TString: its characters, after all else; its length, which short strings may have in a byte */
		uint16_t text, size;
		uint16_t kind, short_size; /* PF_PUC_NONE: all have it in `size` */
		uint8_t is_short;
	} string;
};

#endif

/* Learns the places of the fields that the unwinder needs (core/stack/unwind_puc.h) in this PUC Lua, through Lua's API: from
 * known values in threads, functions and strings that it makes for this, and leaves to the collector.
 *
 *   learn_puc.c           threads and calls
 *   learn_puc_function.c  functions and values; where the address of the next instruction is
 *   learn_puc_proto.c     prototypes: code, lines, names
 *   learn_puc_loop.c      fields that are only valid while an instruction allocates; the pc of the instruction that runs
 *   learn_puc_steps.c     the same, in a function that is interrupted
 *   learn_puc_collector.c the functions that collect garbage
 *   learn_puc_check.c     the unwinder's result for known stacks, compared with what Lua says */
#ifndef PB_LEARN_PUC_H
#define PB_LEARN_PUC_H

#include "binding/stack/learn.h"
#include "core/stack/unwind_puc_internal.h"

#if !PB_LUAJIT
enum { /* sizes in bytes, and counts */
	PB_PUC_THREAD = 224,
	PB_PUC_CALL = 96,
	PB_PUC_PROTO = 128,
	PB_PUC_GLOBAL = 512,
	PB_PUC_LEVELS = 4,
	PB_PUC_LOOKS = 6,
	PB_PUC_STEPS = 16,
	PB_PUC_PROTOS = 8,
	PB_PUC_WAYS = 384,
	PB_PUC_RUNNING = 64,
	PB_PUC_LOOPS = 4,
	PB_PUC_WORDS_SEEN = 8,
};

/* A function with addresses of the probe's instructions in its frame. */
struct pb_puc_loop {
	uint64_t from, end;
	uint32_t registers; /* bits of the callee-saved ones */
	unsigned n;
	uint16_t words[PB_PUC_WORDS_SEEN]; /* distances below the frame's end */
};

/* A way to find the pc in such a frame. */
struct pb_puc_way {
	const struct pb_puc_loop *loop; /* NULL: in the CallInfo alone */
	struct pf_puc_pc pc;
	int lines, line; /* the lines that it has found, as bits, or whether it was ever right; the last of these lines */
	unsigned wrong;
};

/* The ways that remain for one of the two fields of the layout. */
struct pb_puc_ways {
	unsigned n;
	struct pb_puc_way way[PB_PUC_WAYS];
};

struct pb_puc_level {
	uint64_t at, id;
	uint8_t call[PB_PUC_CALL];
};

/* A copy of a thread, made when one of its functions looked at it. */
struct pb_puc_look {
	uint64_t frame;
	uint8_t thread[PB_PUC_THREAD], jump[64];
	int n;
	struct pb_puc_level levels[PB_PUC_LEVELS];
};

struct pb_puc_step {
	int line;
	uint64_t pc;
	uint8_t thread[PB_PUC_THREAD];
};

/* A function that was run instruction by instruction. */
struct pb_puc_code {
	int32_t n, lines[PB_PUC_STEPS];
	uint64_t code;
};

struct pb_learner {
	PB_LEARNER
	uint64_t frame;
	uint16_t choice;
	unsigned choices;
	uint8_t fresh[PB_PUC_THREAD]; /* T, before it ran anything */
	unsigned n;
	struct pb_puc_look looks[PB_PUC_LOOKS];
	unsigned n_steps;
	struct pb_puc_step steps[PB_PUC_STEPS];
	struct pb_puc_code plain, jumps;
	uint64_t protos[PB_PUC_PROTOS];
	/* The function whose lines are looked for, and the results of the last look. */
	struct {
		uint64_t at, code, saved, next;
		uint8_t bytes[PB_PUC_PROTO];
		int line, next_line;
	} probe;
	unsigned n_loops;
	struct pb_puc_loop loops[PB_PUC_LOOPS];
	struct pb_puc_ways called, running;
	/* Interrupts; those in the loop itself, and in functions that it has called. */
	unsigned traps, seen[2];
	uint16_t wrong[PB_PUC_RUNNING][PB_PUC_WAYS]; /* the times that a way of `called` disagreed with one of `running` */
	unsigned stepped;
};

/* Indexes in the stack of S, which keeps these objects from being collected. */
enum {
	PB_PUC_RUNNER = 2,
	PB_PUC_ONE,
	PB_PUC_ONE_MORE,
	PB_PUC_TWO,
	PB_PUC_TWO_MORE,
	PB_PUC_OUTER,
	PB_PUC_PLAIN,
	PB_PUC_JUMPS,
	PB_PUC_ALLOCATES,
	PB_PUC_C_ONE,
	PB_PUC_C_MORE,
	PB_PUC_LIGHT,
	PB_PUC_LIGHT_MORE,
	PB_PUC_FREE
};

/* The lines of the inspected program. */
enum { PB_PUC_PLAIN_LINE = 15, PB_PUC_TABLE_LINE = 26, PB_PUC_CLOSURE_LINE = 28, PB_PUC_JUMPS_LINE = 43, PB_PUC_BLANK_LINES = 150 };

uint64_t pb_puc_word(const uint8_t *bytes, unsigned offset);
int32_t pb_puc_number(const uint8_t *bytes, unsigned offset);
/* Note a possible place; return the first one. There may be several, since unused fields contain old memory, perhaps another
 * thread's. The check at the end finds a wrong choice. */
void pb_puc_choose(struct pb_learner *w, unsigned offset);
uint16_t pb_puc_chosen(struct pb_learner *w, const char *what);
/* Objects are made in S, since an error for lack of memory can only be caught there: T is in no call, and Lua 5.1 would end the
 * process. Copy indexes of S's stack onto T's; push a function onto T's stack, with the learner as its upvalue; call the function on
 * T's stack with n arguments. */
void pb_puc_give(struct pb_learner *w, int from, int to);
void pb_puc_give_function(struct pb_learner *w, lua_CFunction fn);
void pb_puc_call(struct pb_learner *w, int n);

/* The address of a function's CallInfo, and the level's number. In 5.1 the address is known once the array is. */
uint64_t pb_puc_call_at(struct pb_learner *w, const uint8_t *thread, const lua_Debug *ar, uint64_t *id);
void pb_puc_grab_thread(struct pb_learner *w, lua_State *L, uint8_t *to);

void pb_puc_learn_functions(struct pb_learner *w);
void pb_puc_learn_prototypes(struct pb_learner *w);
void pb_puc_learn_allocation(struct pb_learner *w);
void pb_puc_learn_collector(struct pb_learner *w);
/* Add the ways to find the pc while a loop itself runs. */
void pb_puc_add_running(struct pb_learner *w, const struct pb_puc_loop *loop, const struct pf_registers *r);
/* Choose the ways to find the pc: of x86-64 those that give the right line at each machine instruction of a loop. */
void pb_puc_step(struct pb_learner *w);
/* Make the function with this prototype the probe. */
void pb_puc_probe(struct pb_learner *w, uint64_t proto);
/* Is the probe the innermost function? */
int pb_puc_runs_probe(struct pb_learner *w, const struct pf_registers *r);
/* Find the frame of a function, from the innermost one on. Returns 0 if there is none. */
int pb_puc_find_frame(struct pb_learner *w, const struct pb_puc_loop *loop, struct pf_c_frame *f);
/* The probe's line by the pc in a frame, or if that is NULL, by the pc that Lua has saved. */
int pb_puc_line(struct pb_learner *w, const struct pf_puc_pc *pc, struct pf_c_frame *f);
void pb_puc_check(struct pb_learner *w);

#define PB_PUC_WORDS(o, n) for (unsigned o = 0; o + sizeof(void *) <= (n); o += (unsigned)sizeof(void *))
#define PB_PUC_INTS(o, n) for (unsigned o = 0; o + sizeof(int32_t) <= (n); o += (unsigned)sizeof(int32_t))
#endif
#endif

/* LuaJIT: marks in compiled code that distinguish its lines.
 *
 * Compiled code refers to its bytecode only at its snapshots, and there may be many lines between two of them. The compiler has a
 * mode, for LuaJIT's own profiler, in which it adds a snapshot at each change of the line, with a test that costs little. We
 * leave that profiler itself to the program, since a process has only one, and its start and its stop discard all compiled code. So we
 * set only the mode, a number in the compiler's state. Code from before the start has no marks, and is shown as ranges of lines.
 * When the program stops LuaJIT's profiler, the mode is cleared, so each sample sets it again.
 *
 * The number's place is learned from a Lua state of our own, whose profiler is started in two modes. */
#include "binding/stack/luajit_profiler.h"

#if PB_LUAJIT
#include <stdatomic.h>
#include <string.h>

#include "binding/stack/learn_luajit.h"
#include "core/base/peek.h"

enum { WORDS = PB_LUAJIT_COMPILER / 4, MOST_TRIES = 3, NONE = 0, LINES = 'l', FUNCTIONS = 'f' };

static atomic_uint place; /* bytes from the global state; 0: unknown */
static atomic_int tries;

/* Exclude the words of the global state and the compiler's state that do not have this value. */
static void narrow(uint8_t *out, uint64_t global, uint32_t value)
{
	uint32_t words[WORDS];

	if (pf_peek_call(words, global, sizeof words) < 0)
		memset(words, 0xff, sizeof words);
	for (unsigned i = 0; i < WORDS; i++)
		out[i] |= words[i] != value;
}

static void learn(lua_State *S, uint64_t global, struct pb_stack *p)
{
	static const char *const modes[] = {"l", "f", "l"};
	uint8_t out[WORDS] = {1};
	unsigned found = 0, at = 0;
	const char *why;

	narrow(out, global, NONE);
	for (unsigned i = 0; i < sizeof modes / sizeof *modes; i++) {
		if (pb_luajit_profiler_start(S, modes[i], p, &why) < 0)
			return;
		narrow(out, global, (uint32_t)*modes[i]);
		pb_luajit_profiler_stop(S, p);
		narrow(out, global, NONE);
	}
	for (unsigned i = 0; i < WORDS; i++)
		if (!out[i]) {
			found++;
			at = i * 4;
		}
	if (found == 1)
		atomic_store(&place, at);
	atomic_fetch_add(&tries, found != 1);
}

static void learn_place(const struct pf_luajit_layout *l)
{
	struct pf_sampling sampling;
	struct pb_stack stack = {.at = &sampling};
	lua_State *S;

	memset(&sampling, 0, sizeof sampling);
	if (pf_sampling_claim_briefly(&sampling) < 0)
		return; /* LuaJIT's profiler runs, for another user of ours */
	S = luaL_newstate();
	if (S) {
		learn(S, pb_global(S, l), &stack);
		lua_close(S);
	}
	pf_sampling_disclaim_briefly(&sampling);
}

static volatile uint32_t *mode_of(const struct pb_stack *p)
{
	return (volatile uint32_t *)(uintptr_t)(p->global + atomic_load(&place));
}

void pb_marks_set(const struct pb_stack *p)
{
	if (atomic_load(&place) && *mode_of(p) == NONE)
		*mode_of(p) = LINES;
}

void pb_marks_take(const struct pb_stack *p)
{
	if (!atomic_load(&place) && atomic_load(&tries) < MOST_TRIES)
		learn_place(&p->layout);
	pb_marks_set(p);
}

void pb_marks_give(const struct pb_stack *p)
{
	if (atomic_load(&place) && *mode_of(p) == LINES && !pb_luajit_profiler_runs(p->global))
		*mode_of(p) = NONE;
}

#else

void pb_marks_set(const struct pb_stack *p)
{
	(void)p;
}

void pb_marks_take(const struct pb_stack *p)
{
	(void)p;
}

void pb_marks_give(const struct pb_stack *p)
{
	(void)p;
}

#endif

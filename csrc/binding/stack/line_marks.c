/* LuaJIT: marks in compiled code that distinguish its lines.
 *
 * Compiled code refers to its bytecode only at its snapshots, and there may be many lines between two of them. While LuaJIT's own
 * profiler runs, the compiler adds a snapshot at each change of the line, where compiled code also stops on request (for example
 * when a signal ends the program). So we run that profiler, without its timer and its signal, while a state is profiled.
 *
 * A process has only one such profiler, and the program may use it. Then there are no marks, and code between two snapshots is
 * shown as a range of lines. */
#include "binding/stack/stack.h"

#if PB_LUAJIT
#include <stdatomic.h>

static struct {
	_Atomic(const void *) state; /* identifies the state that has them */
	unsigned users;
	struct pf_sampling at;
	struct pb_stack stack;
} marks;

static const void *state_of(lua_State *L)
{
	return lua_topointer(L, LUA_REGISTRYINDEX);
}

void pb_marks_take(lua_State *L, struct pb_stack *p)
{
	const char *why;

	if (atomic_load(&marks.state) == state_of(L) && !pf_inherited(marks.at.generation)) {
		marks.users++;
		p->marks = marks.at.generation;
		return;
	}
	if (pf_sampling_claim(&marks.at) < 0)
		return;
	marks.stack.at = &marks.at;
	marks.users = 1;
	atomic_store(&marks.state, state_of(L));
	p->marks = marks.at.generation; /* set before calls that may raise, so that the caller gives the marks back */
	if (pb_engine_start(L, &marks.stack, &why) < 0)
		pb_marks_give(L, p);
}

void pb_marks_give(lua_State *L, struct pb_stack *p)
{
	const uint32_t taken = p->marks;

	p->marks = 0;
	if (!taken || taken != marks.at.generation || atomic_load(&marks.state) != state_of(L) || --marks.users > 0)
		return;
	atomic_store(&marks.state, NULL);
	pb_engine_stop(L, &marks.stack);
	pf_sampling_disclaim(&marks.at);
}

#else

void pb_marks_take(lua_State *L, struct pb_stack *p)
{
	(void)L;
	(void)p;
}

void pb_marks_give(lua_State *L, struct pb_stack *p)
{
	(void)L;
	(void)p;
}

#endif

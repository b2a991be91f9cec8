/* Turns a Lua stack into frames of the core. Runs at a safe point and allocates no Lua memory; names are copied when a function
 * is seen for the first time. */
#include <string.h>

#include "binding/stack/stack.h"

void (*volatile pb_on_trigger)(void);

uint64_t pb_function_address(lua_State *L, int i)
{
	const lua_CFunction code = lua_tocfunction(L, i);

	/* All closures of the same C code count as one function. LuaJIT's built-in functions have no C code: their object's address. */
	return code ? (uint64_t)(uintptr_t)code : (uint64_t)(uintptr_t)lua_topointer(L, i);
}

/* Give a function its name, which Lua takes from the caller's code. If this caller has none, a later one may. */
static void name(struct pf_stacks *s, uint32_t i, lua_State *L, lua_Debug *ar)
{
	uint32_t text;

	if (pf_stacks_function_at(s, i)->name)
		return;
	lua_getinfo(L, "n", ar);
	text = pf_stacks_text(s, ar->name);
	pf_stacks_function_at(s, i)->name = text;
}

/* stands_in: set if this is a replacement of a coroutine function that called the original; then the original's frame repeats it. */
static uint32_t c_frame(struct pf_stacks *s, lua_State *L, lua_Debug *ar, int *stands_in)
{
	struct pf_function f = {.line = -1};
	uint32_t i;

	lua_getinfo(L, "f", ar);
	*stands_in = pb_stands_in(L);
	f.source_key = pb_function_address(L, -1);
	lua_pop(L, 1);
	i = pf_stacks_find_function(s, f.source_key, 0, -1);
	if (i == 0)
		i = pf_stacks_add_function(s, &f);
	if (i == 0)
		return 0;
	name(s, i, L, ar);
	return pf_stacks_frame(s, PF_FRAME_C, i, 0);
}

/* The function's number; 0 for a function that is not shown. */
static uint32_t lua_function(struct pb_stack *p, lua_State *L, lua_Debug *ar)
{
	struct pf_stacks *s = &p->at->stacks;
	struct pf_function f = {.source_key = (uint64_t)(uintptr_t)ar->source,
				.hash = pf_stacks_hash(ar->short_src),
				.line = ar->linedefined};
	uint32_t i = pf_stacks_find_function(s, f.source_key, f.hash, f.line);

	if (i == 0) {
		f.hidden = strcmp(ar->source, p->hidden[0]) == 0 || strcmp(ar->source, p->hidden[1]) == 0;
		f.source = ar->source[0] == '@' ? pf_stacks_text(s, ar->source + 1) : 0;
		f.short_src = pf_stacks_text(s, ar->short_src);
		i = pf_stacks_add_function(s, &f);
		if (i == 0)
			return 0;
	}
	name(s, i, L, ar);
	return pf_stacks_function_at(s, i)->hidden ? 0 : i;
}

static unsigned walk(struct pb_stack *p, lua_State *L, int level, uint32_t *frames, unsigned n)
{
	struct pf_stacks *s = &p->at->stacks;
	const unsigned before = n;
	lua_Debug ar;

	for (; n < PF_STACK_DEPTH && lua_getstack(L, level, &ar); level++) {
		uint32_t frame = 0, fn;
		int stands_in;

		lua_getinfo(L, "Sl", &ar);
		if (ar.what[0] == 'C') {
			frame = c_frame(s, L, &ar, &stands_in);
			n -= stands_in && n > before;
		} else if (ar.what[0] == 't') {
			continue; /* a placeholder for frames that tail calls have replaced */
		} else if ((fn = lua_function(p, L, &ar)) != 0) {
			frame = pf_stacks_frame(s, PF_FRAME_LUA, fn, ar.currentline > 0 ? (uint32_t)ar.currentline : 0);
		}
		if (frame)
			frames[n++] = frame;
		else if (n && pf_stacks_frame_at(s, frames[n - 1])->kind == PF_FRAME_C)
			n--; /* the pcall by which the profiler's own function called it */
	}
	return n;
}

unsigned pb_walk(struct pb_stack *p, lua_State *L, int level, uint32_t *frames)
{
	unsigned n = walk(p, L, level, frames, 0);

	if (p->coroutines == PB_COROUTINES_RESUMER)
		for (struct pb_resumption *r = pb_resumption(); r; r = r->outer)
			if (r->L == L) {
				L = r->from;
				n = walk(p, L, 0, frames, n);
			}
	return n ? pb_creator(p, L, frames, n) : 0;
}

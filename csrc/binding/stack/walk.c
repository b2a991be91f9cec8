/* Turns a Lua stack into frames of the core. Runs at a safe point and allocates no Lua memory; names are copied when a function
 * is seen for the first time. */
#include <string.h>

#include "binding/stack/stack.h"

void (*volatile pb_on_trigger)(const struct pb_stack *p, const struct pf_registers *r, const struct pf_memory *m);

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
	char *to;

	if (!i || pf_stacks_function_at(s, i)->name)
		return;
	lua_getinfo(L, "n", ar);
	text = ar->name ? pf_stacks_text(s, strlen(ar->name), &to) : 0;
	if (text)
		strcpy(to, ar->name);
	pf_stacks_function_at(s, i)->name = text;
}

static int copy(const struct pf_memory *m, void *to, uint64_t address, size_t n)
{
	(void)m;
	memcpy(to, (const void *)(uintptr_t)address, n);
	return 0;
}

static void walk(lua_State *L, int level, struct pf_places *places)
{
	const unsigned before = places->n;
	lua_Debug ar;

	for (; lua_getstack(L, level, &ar); level++) {
		struct pf_place place = {.kind = PF_PLACE_LUA, .thread = (uintptr_t)L};

		lua_getinfo(L, "Sl", &ar);
		if (ar.what[0] == 't')
			continue; /* a placeholder for frames that tail calls have replaced */
		if (ar.what[0] == 'C') {
			lua_getinfo(L, "f", &ar);
			/* The frame of the function that a replacement called repeats the replacement's. */
			places->n -= pb_stands_in(L) && places->n > before;
			place.kind = PF_PLACE_C;
			place.function = pb_function_address(L, -1);
			lua_pop(L, 1);
		} else {
			place.source = (uintptr_t)ar.source;
			place.source_size = (uint32_t)strlen(ar.source);
			place.linedefined = ar.linedefined;
			place.line = place.end = ar.currentline > 0 ? (uint32_t)ar.currentline : 0;
		}
		if (pf_places_add(places, &place))
			break;
		name(places->stacks, places->function, L, &ar);
	}
}

unsigned pb_walk(struct pb_stack *p, lua_State *L, int level, uint32_t *frames)
{
	static const struct pf_memory memory = {copy};
	struct pf_places places = {
		.stacks = &p->at->stacks, .memory = &memory, .hidden = &p->hidden, .frames = frames, .most = PF_STACK_DEPTH};

	walk(L, level, &places);
	if (p->coroutines == PB_COROUTINES_RESUMER)
		for (struct pb_resumption *r = pb_resumption(); r; r = r->outer)
			if (r->L == L) {
				L = r->from;
				walk(L, 0, &places);
			}
	p->at->cut = places.deep;
	return places.n ? pb_creator(p, L, frames, places.n) : 0;
}

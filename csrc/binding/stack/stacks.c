/* The stacks of a profile, as values of Lua. */
#include "binding/stack/stack.h"

#include <string.h>

static void set_text(lua_State *L, const struct pf_stacks *s, uint32_t text, const char *field)
{
	if (text)
		pb_set_text(L, field, pf_stacks_text_at(s, text));
}

/* {kind =, ...}: see pb_set_stacks in stack.h. */
static void push_frame(lua_State *L, const struct pf_stacks *s, const struct pf_frame *f)
{
	static const char *const kinds[] = {NULL, "lua", "range", "c", "state", "zone", "native", "kernel", "label"};
	static const char *const states[] = {"lua", "c", "gc", "jit", "outside", "unsampled", "other", "strings", "native"};
	_Static_assert(sizeof states / sizeof *states == PF_STATES + 1, "a name for each enum pf_state, and the last for the root of a call chain");

	lua_createtable(L, 0, 7);
	pb_set_text(L, "kind", kinds[f->kind]);
	if (f->kind == PF_FRAME_LUA || f->kind == PF_FRAME_RANGE || f->kind == PF_FRAME_C) {
		const struct pf_function *fn = pf_stacks_function_at(s, (uint32_t)f->key);

		set_text(L, s, fn->name, "func");
		set_text(L, s, fn->source, "source");
		if (f->kind == PF_FRAME_C) {
			pb_set_u64(L, fn->line == PF_PLACES_BUILTIN ? "builtin" : "address", fn->source_key);
			if (fn->hash)
				pb_set_int(L, "image", (lua_Integer)fn->hash);
			return;
		}
		pb_set_int(L, "linedefined", fn->line);
		if (f->line)
			pb_set_int(L, "line", (lua_Integer)f->line);
		if (f->kind == PF_FRAME_RANGE)
			pb_set_int(L, "lastline", (lua_Integer)(f->key >> 32));
	} else if (f->kind == PF_FRAME_STATE) {
		pb_set_text(L, "state", states[f->key]);
	} else if (f->kind == PF_FRAME_LABEL) {
		set_text(L, s, pf_stacks_function_at(s, (uint32_t)f->key)->name, "label");
	} else if (f->kind == PF_FRAME_ZONE) {
		pb_set_int(L, "zone", (lua_Integer)f->key);
	} else {
		pb_set_u64(L, "address", f->key);
		if (f->line)
			pb_set_int(L, "image", (lua_Integer)f->line);
	}
}

static uint64_t node_value(const struct pf_stacks *s, uint32_t i, int k, const struct pf_sum *sums)
{
	const struct pf_node *node = pf_stacks_node_at(s, i);

	if (k < 2)
		return k == 0 ? node->parent : node->frame;
	return !node->sum ? 0 : k % 2 == 0 ? sums[node->sum].weight : sums[node->sum].count;
}

void pb_set_stacks(lua_State *L, const struct pf_stacks *s, const struct pf_sum *sums)
{
	static const char *const names[] = {"parent", "frame", "weight", "count", "allocated", "allocated_count"};
	const struct pf_sum *own = s->sums.items;
	const uint32_t n = s->nodes.n;

	lua_createtable(L, (int)s->frames.n, 0);
	for (uint32_t i = 1; i <= s->frames.n; i++) {
		push_frame(L, s, pf_stacks_frame_at(s, i));
		lua_rawseti(L, -2, (int)i);
	}
	lua_setfield(L, -2, "frames");
	for (int k = 0; k < (sums ? 6 : 4); k++) {
		lua_createtable(L, (int)n, 0);
		for (uint32_t i = 1; i <= n; i++) {
			pb_push_u64(L, node_value(s, i, k, k < 4 && sums ? sums : own));
			lua_rawseti(L, -2, (int)i);
		}
		lua_setfield(L, -2, names[k]);
	}
}

void pb_set_failures(lua_State *L, const uint64_t *counts)
{
	static const char *const failures[PF_UNWIND_FAILURES] = {
		[PF_UNWIND_NO_THREAD] = "no thread", [PF_UNWIND_NO_BASE] = "no function",     [PF_UNWIND_NO_PC] = "no line",
		[PF_UNWIND_NO_TRACE] = "no trace",   [PF_UNWIND_BROKEN] = "broken frame",     [PF_UNWIND_UNREADABLE] = "unreadable memory",
		[PF_UNWIND_GONE] = "function gone",   [PF_UNWIND_NO_STATE] = "no state",
		[PF_UNWIND_DEEP] = "too deep",	     [PF_UNWIND_LONG] = "long search"};
	int failed = 0;

	for (int i = PF_UNWIND_COMPLETE + 1; i < PF_UNWIND_FAILURES; i++) {
		if (!counts[i])
			continue;
		if (!failed++)
			lua_createtable(L, 0, PF_UNWIND_FAILURES);
		pb_set_u64(L, failures[i], counts[i]);
	}
	if (failed)
		lua_setfield(L, -2, "failures");
}

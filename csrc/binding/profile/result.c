/* The result of a profiler, as values of Lua. */
#include "binding/profile/profiler.h"

#include <string.h>

struct pb_profiler *pb_check_profiler(lua_State *L)
{
	return pb_check(L, 1, PB_PROFILER, "Profiler");
}

static void set_text(lua_State *L, const struct pf_stacks *s, uint32_t text, const char *field)
{
	if (text)
		pb_set_text(L, field, pf_stacks_text_at(s, text));
}

/* {kind =, ...}: see pb_profiler_result. */
static void push_frame(lua_State *L, const struct pf_stacks *s, const struct pf_frame *f)
{
	static const char *const kinds[] = {NULL, "lua", "range", "c", "state", "zone", "native", "kernel"};
	static const char *const states[] = {"lua", "c", "gc", "jit", "outside", "unsampled", "other", "native"};

	lua_createtable(L, 0, 7);
	pb_set_text(L, "kind", kinds[f->kind]);
	if (f->kind == PF_FRAME_LUA || f->kind == PF_FRAME_RANGE || f->kind == PF_FRAME_C) {
		const struct pf_function *fn = pf_stacks_function_at(s, (uint32_t)f->key);

		set_text(L, s, fn->name, "func");
		set_text(L, s, fn->source, "source");
		if (f->kind == PF_FRAME_C) {
			pb_set_u64(L, "address", fn->source_key);
			return;
		}
		pb_set_int(L, "linedefined", fn->line);
		if (f->line)
			pb_set_int(L, "line", (lua_Integer)f->line);
		if (f->kind == PF_FRAME_RANGE)
			pb_set_int(L, "lastline", (lua_Integer)(f->key >> 32));
	} else if (f->kind == PF_FRAME_STATE) {
		pb_set_text(L, "state", states[f->key]);
	} else if (f->kind == PF_FRAME_ZONE) {
		pb_set_int(L, "zone", (lua_Integer)f->key);
	} else {
		pb_set_u64(L, "address", f->key);
	}
}

/* profiler:result(): the result, after the stop:
 *
 *   frames    array of {kind, func, source, line, lastline, linedefined, address, state, zone}
 *   parent, frame, weight, count    arrays by node: a stack, as its caller's node (0: none) and its innermost frame
 *   moments   the samples one by one, for core.moment; beyond: how many did not fit
 *   total, and the part of it that is unsampled: counted after the last sample, or without a stack; unsampled_count: its samples
 *   lost, samples, duration_ns, memory; failures: samples without a whole stack, by reason; nil if there are none */
int pb_profiler_result(lua_State *L)
{
	static const char *const failures[PF_UNWIND_FAILURES] = {
		[PF_UNWIND_NO_THREAD] = "no thread", [PF_UNWIND_NO_BASE] = "no function",     [PF_UNWIND_NO_PC] = "no line",
		[PF_UNWIND_NO_TRACE] = "no trace",   [PF_UNWIND_BROKEN] = "broken frame",     [PF_UNWIND_UNREADABLE] = "unreadable memory",
		[PF_UNWIND_DEEP] = "too deep"};
	struct pb_profiler *p = pb_check_profiler(L);
	const struct pf_stacks *s = &p->s.at.stacks;
	static const struct pf_sum none;
	const uint32_t n = s->nodes.n;
	uint64_t unsampled;
	int failed = 0;

	luaL_argcheck(L, p->s.event && !p->s.at.running, 1, "Profiler is running or closed");
	unsampled = pf_sampler_total(&p->s) - p->s.sum + pf_stacks_sum_at(s, 0)->weight;
	lua_createtable(L, 0, 13);
	lua_createtable(L, (int)s->frames.n, 0);
	for (uint32_t i = 1; i <= s->frames.n; i++) {
		push_frame(L, s, pf_stacks_frame_at(s, i));
		lua_rawseti(L, -2, (int)i);
	}
	lua_setfield(L, -2, "frames");
	for (int k = 0; k < 4; k++) {
		static const char *const names[] = {"parent", "frame", "weight", "count"};

		lua_createtable(L, (int)n, 0);
		for (uint32_t i = 1; i <= n; i++) {
			const struct pf_node *node = pf_stacks_node_at(s, i);
			const struct pf_sum *sum = node->sum ? pf_stacks_sum_at(s, i) : &none;

			pb_push_u64(L, k == 0 ? node->parent : k == 1 ? node->frame : k == 2 ? sum->weight : sum->count);
			lua_rawseti(L, -2, (int)i);
		}
		lua_setfield(L, -2, names[k]);
	}
	if (p->s.moments.items) {
		pb_set_bytes(L, "moments", p->s.moments.items, p->s.moments.n * sizeof *p->s.moments.items);
		pb_set_u64(L, "beyond", p->s.moments.beyond);
	}
	pb_set_u64(L, "total", pf_sampler_total(&p->s));
	pb_set_u64(L, "unsampled", unsampled);
	pb_set_u64(L, "unsampled_count", pf_stacks_sum_at(s, 0)->count);
	pb_set_u64(L, "lost", pf_sampler_lost(&p->s));
	pb_set_u64(L, "samples", p->s.samples);
	pb_set_u64(L, "duration_ns", p->s.duration_ns);
	for (int i = PF_UNWIND_COMPLETE + 1; i < PF_UNWIND_FAILURES; i++) {
		if (!p->s.failures[i])
			continue;
		if (!failed++)
			lua_createtable(L, 0, PF_UNWIND_FAILURES);
		pb_set_u64(L, failures[i], p->s.failures[i]);
	}
	if (failed)
		lua_setfield(L, -2, "failures");
	pb_set_u64(L, "memory", pf_stacks_memory(s) + pf_pendings_memory(&p->s.at.pending));
	return 1;
}

/* core.moment(moments, i): time, addr, cpu, weight, node of moment i; nothing after the last. */
int pb_moment(lua_State *L)
{
	size_t size;
	const char *bytes = luaL_checklstring(L, 1, &size);
	const lua_Integer i = luaL_checkinteger(L, 2);
	struct pf_moment m;

	if (i < 1 || (size_t)i > size / sizeof m)
		return 0;
	memcpy(&m, bytes + (size_t)(i - 1) * sizeof m, sizeof m);
	pb_push_u64(L, m.time);
	pb_push_i64(L, (int64_t)m.addr);
	lua_pushinteger(L, (lua_Integer)m.cpu);
	pb_push_u64(L, m.weight);
	lua_pushinteger(L, (lua_Integer)m.node);
	return 5;
}

/* The result of a profiler, as values of Lua. */
#include "binding/profile/profiler.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"

struct pb_profiler *pb_check_profiler(lua_State *L)
{
	return pb_check(L, 1, PB_PROFILER, "Profiler");
}

static void set_blocks(lua_State *L, const struct pf_allocations *a)
{
	lua_createtable(L, 0, 4);
	pb_set_u64(L, "allocated_bytes", a->bytes);
	pb_set_u64(L, "allocated_blocks", a->blocks);
	pb_set_u64(L, "freed_bytes", a->freed_bytes);
	pb_set_u64(L, "freed_blocks", a->freed_blocks);
	lua_setfield(L, -2, "blocks");
}

/* profiler:result(): the result, after the stop; profiler:snapshot(): of a running one, so far; profiler:live(): of what is alive now.
 * The latter two may return nil, message, code:
 *
 *   frames, parent, frame, weight, count, failures: see pb_set_stacks
 *   moments   the samples one by one, for core.moment; beyond: how many did not fit
 *   total, and the part of it that is unsampled: counted after the last sample, or without a stack; unsampled_count: its samples.
 *     Of a running one, neither has the count after the last sample
 *   lost, samples, duration_ns, memory
 *   blocks    of a profiler of allocations: {allocated_bytes, allocated_blocks, freed_bytes, freed_blocks} */
static int result(lua_State *L)
{
	struct pb_profiler *p = lua_touserdata(L, 1);
	const struct pf_stacks *s = &p->s.at.stacks;
	const int running = p->s.at.running;
	const uint64_t total = running ? p->s.sum : pf_sampler_total(&p->s);
	/* The weights of allocations are estimates, which add up to their total on average only. */
	const uint64_t missing = p->every ? 0 : total - p->s.sum;

	lua_createtable(L, 0, 14);
	pb_set_stacks(L, s);
	if (p->s.moments.items) {
		const size_t n = running ? p->s.moments.settled : p->s.moments.n;

		pb_set_bytes(L, "moments", p->s.moments.items, n * sizeof *p->s.moments.items);
		pb_set_u64(L, "beyond", p->s.moments.beyond);
	}
	pb_set_u64(L, "total", total);
	pb_set_u64(L, "unsampled", missing + pf_stacks_sum_at(s, 0)->weight);
	pb_set_u64(L, "unsampled_count", pf_stacks_sum_at(s, 0)->count);
	pb_set_u64(L, "lost", pf_sampler_lost(&p->s));
	pb_set_u64(L, "samples", p->s.samples);
	pb_set_u64(L, "duration_ns", running ? pf_wall_ns() - p->s.started_ns : p->s.duration_ns);
	pb_set_failures(L, p->s.failures);
	if (p->every)
		set_blocks(L, &p->allocations);
	pb_set_u64(L, "memory", pf_stacks_memory(s) + pf_pendings_memory(&p->s.at.pending));
	return 1;
}

int pb_profiler_result(lua_State *L)
{
	const struct pb_profiler *p = pb_check_profiler(L);

	luaL_argcheck(L, p->s.frames && !p->s.at.running, 1, "Profiler is running or closed");
	return result(L);
}

/* The owner has disabled the event; but a signal of its descriptor may come late. */
int pb_profiler_snapshot(lua_State *L)
{
	struct pb_profiler *p = pb_check_profiler(L);
	int raised;

	luaL_argcheck(L, p->s.event && p->s.at.running, 1, "Profiler is not running");
	if (!pf_sampling_is_mine(&p->s.at))
		return pb_fail(L, -EPERM, "another thread has started it");
	lua_settop(L, 1);
	lua_pushcfunction(L, result);
	lua_insert(L, 1);
	pf_sampling_enter(&p->s.at);
	raised = lua_pcall(L, 1, 1, 0);
	pf_sampling_leave(&p->s.at);
	return raised ? lua_error(L) : 1;
}

/* Blocks are not sampled from here until profiler:resume(), so that the Profile made of this result is in no later one. Finalizers and
 * hooks may run in the meantime, but Profiler:stop refuses their calls. */
int pb_profiler_live(lua_State *L)
{
	struct pb_profiler *p = pb_check_profiler(L);
	int raised;

	luaL_argcheck(L, p->allocations.is_live && p->s.at.running, 1, "Profiler of the heap is not running");
	if (!pf_sampling_is_mine(&p->s.at))
		return pb_fail(L, -EPERM, "another thread has started it");
	lua_settop(L, 1);
	lua_pushcfunction(L, result);
	lua_insert(L, 1);
	pf_allocations_read(&p->allocations);
	raised = lua_pcall(L, 1, 1, 0);
	if (raised)
		return lua_error(L);
	if (p->allocations.survived && !p->counter)
		return pb_fail(L, -ENOMEM, "collections could not be counted");
	return 1;
}

/* profiler:resume(): sample again, after a call of profiler:live() in which an error may have been raised. */
int pb_profiler_resume(lua_State *L)
{
	struct pb_profiler *p = pb_check_profiler(L);

	if (p->allocations.is_read)
		pf_allocations_resume(&p->allocations);
	return 0;
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

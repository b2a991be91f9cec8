/* The result of a profiler, as values of Lua. */
#include "binding/profile/profiler.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"

struct pb_profiler *pb_check_profiler(lua_State *L)
{
	return pb_check(L, 1, PB_PROFILER, "Profiler");
}

static void set_blocks(lua_State *L, const struct pf_blocks *blocks)
{
	lua_createtable(L, 0, 4);
	pb_set_u64(L, "allocated_bytes", blocks->bytes);
	pb_set_u64(L, "allocated_blocks", blocks->blocks);
	pb_set_u64(L, "freed_bytes", blocks->freed_bytes);
	pb_set_u64(L, "freed_blocks", blocks->freed_blocks);
	lua_setfield(L, -2, "blocks");
}

/* The result of a profiler of an event, so far or after the stop. */
static void set_event(lua_State *L, struct pb_profiler *p)
{
	const int running = p->s.at.running;
	const uint64_t total = running ? p->s.sum : pf_sampler_total(&p->s);
	const struct pf_sum *root = pf_stacks_sum_at(&p->s.at.stacks, 0);

	pb_set_stacks(L, &p->s.at.stacks, NULL);
	if (p->s.moments.items) {
		const size_t n = running ? p->s.moments.settled : p->s.moments.n;

		pb_set_bytes(L, "moments", p->s.moments.items, n * sizeof *p->s.moments.items);
		pb_set_u64(L, "beyond", p->s.moments.beyond);
	}
	pb_set_u64(L, "total", total);
	pb_set_u64(L, "unsampled", total - p->s.sum + root->weight);
	pb_set_u64(L, "unsampled_count", root->count);
}

/* The same of a profiler of allocations. Their weights are estimates, which add up to the total on average only. */
static void set_allocations(lua_State *L, const struct pb_profiler *p)
{
	const struct pf_allocations *a = &p->allocations;
	const struct pf_blocks blocks = pf_allocations_blocks(a);
	const struct pf_sum *root = a->alive ? a->alive : pf_stacks_sum_at(&p->s.at.stacks, 0);

	pb_set_stacks(L, &p->s.at.stacks, a->alive);
	pb_set_u64(L, "total", pf_allocations_total(a));
	pb_set_u64(L, "unsampled", root->weight);
	pb_set_u64(L, "unsampled_count", root->count);
	set_blocks(L, &blocks);
}

/* A table:
 *
 *   frames, parent, frame, weight, count, allocated, allocated_count, failures: see pb_set_stacks
 *   moments   the samples one by one, for core.moment; beyond: how many did not fit
 *   total, and the part of it that is unsampled: counted after the last sample, or without a stack; unsampled_count: its samples.
 *     Of a running profiler of an event, neither has the count after the last sample
 *   lost, samples, duration_ns, memory
 *   blocks    of a profiler of allocations: {allocated_bytes, allocated_blocks, freed_bytes, freed_blocks} */
static int result(lua_State *L)
{
	struct pb_profiler *p = lua_touserdata(L, 1);

	lua_createtable(L, 0, 16);
	if (p->every)
		set_allocations(L, p);
	else
		set_event(L, p);
	pb_set_u64(L, "lost", pf_sampler_lost(&p->s));
	pb_set_u64(L, "samples", p->s.samples);
	pb_set_u64(L, "duration_ns", p->s.at.running ? pf_wall_ns() - p->s.started_ns : p->s.duration_ns);
	pb_set_failures(L, p->s.failures);
	pb_set_u64(L, "memory", pf_stacks_memory(&p->s.at.stacks) + pf_pendings_memory(&p->s.at.pending) +
		   pf_allocations_memory(&p->allocations));
	return 1;
}

/* profiler:result(): after the stop. */
int pb_profiler_result(lua_State *L)
{
	const struct pb_profiler *p = pb_check_profiler(L);

	luaL_argcheck(L, p->s.frames && !p->s.at.running, 1, "Profiler is running or closed");
	return result(L);
}

/* The owner has disabled the event; but a signal of its descriptor may come late. */
static int event_snapshot(lua_State *L, struct pb_profiler *p)
{
	int raised;

	lua_pushcfunction(L, result);
	lua_insert(L, 1);
	pf_sampling_enter(&p->s.at);
	raised = lua_pcall(L, 1, 1, 0);
	pf_sampling_leave(&p->s.at);
	return raised ? lua_error(L) : 1;
}

/* profiler:snapshot(): of a running one, so far; of the event heap, what is alive now. Or nil, message, code. Blocks are not sampled
 * from here until profiler:resume(), which its caller calls after an error too, so that the Profile made of this result is in no later
 * one. Finalizers and hooks may run in the meantime, but Profiler:stop refuses their calls. */
int pb_profiler_snapshot(lua_State *L)
{
	struct pb_profiler *p = pb_check_profiler(L);
	int r;

	luaL_argcheck(L, (p->s.event || p->every) && p->s.at.running, 1, "Profiler is not running");
	if (!pf_sampling_is_mine(&p->s.at))
		return pb_fail(L, -EPERM, "another thread has started it");
	lua_settop(L, 1);
	if (!p->every)
		return event_snapshot(L, p);
	r = pf_allocations_read(&p->allocations);
	if (r < 0)
		return pb_fail(L, r, "the sums of what is alive");
	if (p->allocations.survived && !p->counter)
		return pb_fail(L, -ENOMEM, "collections could not be counted");
	return result(L);
}

int pb_profiler_resume(lua_State *L)
{
	pf_allocations_resume(&pb_check_profiler(L)->allocations);
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

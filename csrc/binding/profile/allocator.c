/* The allocator of a Lua state, for profilers of allocations. */
#include "binding/profile/profiler.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/base/thread.h"

/* --- the number of collections ------------------------------------------------------------------------------------- */

#define PB_COLLECTED "perf.Collected"

/* Nothing refers to it, so the next collection finalizes it. */
struct collected {
	struct pb_lifetime *life;
	uint64_t counter;
};

static int l_collected(lua_State *L);

/* Make one. It is all that the profiler allocates in the program's Lua state while it runs. */
static int new_collected(lua_State *L)
{
	const struct collected *c = lua_touserdata(L, 1);

	*(struct collected *)lua_newuserdata(L, sizeof *c) = *c;
	luaL_getmetatable(L, PB_COLLECTED);
	if (lua_isnil(L, -1)) { /* registered when it is whole, since each step may be refused memory */
		lua_pop(L, 1);
		lua_createtable(L, 0, 1);
		pb_set_function(L, "__gc", l_collected);
		lua_pushvalue(L, -1);
		lua_setfield(L, LUA_REGISTRYINDEX, PB_COLLECTED);
	}
	lua_setmetatable(L, -2);
	return 0;
}

/* A collection has ended: count it, and make the object for the next one. An error here would be the program's. */
static int l_collected(lua_State *L)
{
	struct collected c = *(struct collected *)luaL_checkudata(L, 1, PB_COLLECTED);
	struct pb_profiler *p = c.life->running;

	while (p && p->counter != c.counter)
		p = p->next;
	if (!p || c.life->closing)
		return 0;
	p->allocations.collections++;
	if (pb_cpcall(L, new_collected, &c) != 0)
		p->counter = 0;
	return 0;
}

void pb_count_collections(lua_State *L, struct pb_profiler *p)
{
	struct collected c = {p->lifetime, ++p->lifetime->counters};

	lua_pushcfunction(L, new_collected);
	lua_pushlightuserdata(L, &c);
	lua_call(L, 1, 0);
	p->counter = c.counter;
}

/* --- the allocator -------------------------------------------------------------------------------------------------- */

/* The allocators that we put in states that have closed since; they may still be called. A new one is made only if none of these
 * has the same allocator behind it. */
static struct pf_allocator *kept;
static atomic_uint kept_lock; /* a pf_lock; each change of the list is one store, so a fork cannot leave it half changed */

static struct pf_allocator *make(lua_Alloc next, void *ud)
{
	struct pf_allocator **link = &kept, *in;

	pf_lock(&kept_lock, PF_LOCK_PAUSE);
	while ((in = *link) && (in->next != next || in->next_ud != ud))
		link = &in->older;
	if (in)
		*link = in->older;
	pf_unlock(&kept_lock);
	if (in)
		return in;
	in = calloc(1, sizeof *in);
	if (in) {
		in->next = next;
		in->next_ud = ud;
	}
	return in;
}

static void keep(struct pf_allocator *in)
{
	pf_lock(&kept_lock, PF_LOCK_PAUSE);
	in->older = kept;
	kept = in;
	pf_unlock(&kept_lock);
}

/* Whether this one is the state's allocator now. */
static int is_current(lua_State *L, const struct pf_allocator *in)
{
	void *ud;

	return lua_getallocf(L, &ud) == pf_allocator_call && ud == in;
}

/* Put one of ours in front of the state's allocator, which the program may have changed: the one that is there already, or that was
 * there before the same allocator, else another one. */
static struct pf_allocator *put_in_front(lua_State *L, struct pb_lifetime *life)
{
	struct pf_allocator *in = life->allocators;
	void *ud;
	const lua_Alloc current = lua_getallocf(L, &ud);

	while (in && !is_current(L, in) && (in->next != current || in->next_ud != ud))
		in = in->older;
	if (!in) {
		in = make(current, ud);
		if (!in)
			return NULL;
		in->older = life->allocators;
		life->allocators = in;
	}
	lua_setallocf(L, pf_allocator_call, in);
	return in;
}

/* Take it away, if nothing runs in it. */
static void take_away(lua_State *L, const struct pf_allocator *in)
{
	if (!in->running && is_current(L, in))
		lua_setallocf(L, in->next, in->next_ud);
}

int pb_allocator_add(lua_State *L, struct pb_profiler *p)
{
	struct pf_allocator *in = put_in_front(L, p->lifetime);
	int r;

	if (!in)
		return -ENOMEM;
	r = pf_allocations_start(&p->allocations, &p->s, in, p->every);
	if (r < 0)
		take_away(L, in);
	return r;
}

int pb_allocator_remove(lua_State *L, struct pb_profiler *p)
{
	pf_allocations_stop(&p->allocations);
	take_away(L, p->allocations.in);
	return p->allocations.survived && !p->counter ? -ENOMEM : 0;
}

void pb_allocators_close(lua_State *L, struct pb_lifetime *life)
{
	struct pf_allocator *in;

	/* After the stop of a profiler the program may have made one of these the state's allocator again. */
	for (in = life->allocators; in;)
		if (is_current(L, in)) {
			lua_setallocf(L, in->next, in->next_ud);
			in = life->allocators;
		} else {
			in = in->older;
		}
	while ((in = life->allocators)) {
		life->allocators = in->older;
		keep(in);
	}
}

#include "binding/memory/allocator.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/base/clock.h"

#define PB_ALLOCATORS "perf.allocators"

/* One in each Lua state, from the loading of the module to the state's close. */
struct pb_allocators {
	struct pf_allocator *first; /* those that are or were in front of the state's allocator, the newest first, linked by `older` */
	int closing;
};

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
	if (in)
		pf_allocator_init(in, next, ud);
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

struct pb_allocators *pb_allocators_of(lua_State *L)
{
	struct pb_allocators *all;

	lua_getfield(L, LUA_REGISTRYINDEX, PB_ALLOCATORS);
	all = lua_touserdata(L, -1);
	lua_pop(L, 1);
	return all;
}

/* The one that is there already, or that was there before the same allocator, which the program may have changed; else another one. */
int pb_allocator_take(lua_State *L, struct pb_allocators *all, struct pf_allocator **out)
{
	struct pf_allocator *in = all->first;
	void *ud;
	const lua_Alloc current = lua_getallocf(L, &ud);

	if (all->closing)
		return -ECANCELED;
	while (in && !is_current(L, in) && (in->next != current || in->next_ud != ud))
		in = in->older;
	if (!in) {
		in = make(current, ud);
		if (!in)
			return -ENOMEM;
		in->older = all->first;
		all->first = in;
	}
	lua_setallocf(L, pf_allocator_call, in);
	*out = in;
	return 0;
}

void pb_allocator_give(lua_State *L, const struct pf_allocator *in)
{
	if (!in->users && is_current(L, in))
		lua_setallocf(L, in->next, in->next_ud);
}

/* The state closes. After the last user the program may have made one of these the state's allocator again. */
static int l_close(lua_State *L)
{
	struct pb_allocators *all = lua_touserdata(L, 1);
	struct pf_allocator *in;

	all->closing = 1;
	for (in = all->first; in;)
		if (is_current(L, in)) {
			lua_setallocf(L, in->next, in->next_ud);
			in = all->first;
		} else {
			in = in->older;
		}
	while ((in = all->first)) {
		all->first = in->older;
		in->users = 0;
		pf_allocator_refresh(in);
		keep(in);
	}
	return 0;
}

/* --- counts --------------------------------------------------------------------------------------------------------- */

static int l_close_blocks(lua_State *L)
{
	struct pf_block_reader *b = pb_test(L, 1, PB_BLOCKS);
	struct pf_allocator *in = b ? b->in : NULL;

	if (!in)
		return 0;
	b->in = NULL;
	if (in->users > 0 && b->generation == in->generation) { /* otherwise it is the parent's, which is forgotten */
		in->users--;
		pf_allocator_refresh(in);
	}
	pb_allocator_give(L, in);
	return 0;
}

/* core.blocks(fields): a Blocks, which a Meter reads: what the allocator of this Lua state has given from now on. fields: array of
 * "bytes" and "blocks". Or nil, message, code. */
static int l_blocks(lua_State *L)
{
	static const char *const names[] = {"bytes", "blocks", NULL};
	static const uint16_t at[] = {offsetof(struct pf_blocks, bytes), offsetof(struct pf_blocks, blocks)};
	struct pf_block_reader *b;
	size_t n;
	int r;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	n = pb_rawlen(L, 1);
	b = pb_new(L, sizeof *b + n * sizeof *b->at, PB_BLOCKS);
	for (b->n = 0; b->n < n; b->n++) {
		lua_rawgeti(L, 1, (int)b->n + 1);
		b->at[b->n] = at[luaL_checkoption(L, -1, NULL, names)];
		lua_pop(L, 1);
	}
	r = pb_allocator_take(L, pb_allocators_of(L), &b->in);
	if (r < 0)
		return pb_fail(L, r, r == -ECANCELED ? "the Lua state is being closed" : "allocator");
	pf_allocator_claim(b->in);
	b->in->users++;
	pf_allocator_refresh(b->in);
	b->generation = b->in->generation;
	b->from = b->in->given;
	b->opened_ns = pf_wall_ns();
	return 1;
}

void pb_open_memory(lua_State *L)
{
	static const luaL_Reg methods[] = {{"close", l_close_blocks}, {NULL, NULL}};
	struct pb_allocators *all;

	pb_set_function(L, "blocks", l_blocks);
	pb_new_class(L, PB_BLOCKS, methods, l_close_blocks);
	if (pb_allocators_of(L))
		return;
	all = pb_newuserdata(L, sizeof *all);
	*all = (struct pb_allocators){.first = NULL};
	lua_createtable(L, 0, 1);
	pb_set_function(L, "__gc", l_close);
	lua_setmetatable(L, -2);
	lua_setfield(L, LUA_REGISTRYINDEX, PB_ALLOCATORS);
}

/* See allocations.h. */
#include "core/profile/allocations.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/pages.h"
#include "core/base/peek.h"
#include "core/stack/own_thread.h"

/* Room in the table of live blocks. The bits of the sieve of the most room have 32-bit numbers. */
#define LEAST_ROOM 512u
#define MOST_ROOM (1u << 28)
#define BITS 16u /* of the sieve, for each place of the table */

/* --- random numbers ------------------------------------------------------------------------------------------------- */

/* A random number from 0 (excluded) to 1. */
static double uniform(struct pf_allocations *a)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return (double)((a->random >> 11) + 1) / (double)(UINT64_C(1) << 53);
}

/* One of the two whole numbers beside x: x on average, for random numbers `by`. */
static uint64_t round_fairly(double x, uint32_t by)
{
	const double whole = floor(x);

	return (uint64_t)whole + (by / 4294967296.0 < x - whole);
}

/* Returns the weight of a sampled block. The same block always has the same weight, so that it need not be stored. */
static struct pf_sum weigh(const struct pf_allocations *a, const struct pf_live *block)
{
	const double size = (double)block->size, p = a->period > 1 ? -expm1(-size / a->period) : 1;
	const uint64_t random = ((block->block >> 4) ^ block->size << 40 ^ (uint64_t)block->born << 20) * UINT64_C(0x9e3779b97f4a7c15);

	if (p >= 1)
		return (struct pf_sum){block->size, 1};
	return (struct pf_sum){round_fairly(size / p, (uint32_t)(random >> 32)), round_fairly(1 / p, (uint32_t)(random >> 16))};
}

/* --- sampled blocks that are not freed ------------------------------------------------------------------------------ */

static uint32_t bit_of(const struct pf_allocations *a, uint64_t block)
{
	return pf_sieve_bit(&a->watcher.sieve, (const void *)(uintptr_t)block);
}

static uint32_t place_of(const struct pf_allocations *a, uint64_t block)
{
	return bit_of(a, block) / BITS;
}

/* The entry of a block, or the free one where it would be. */
static struct pf_live *find(const struct pf_allocations *a, uint64_t block)
{
	uint32_t i = place_of(a, block);

	while (a->live[i].block && a->live[i].block != block)
		i = (i + 1) & (a->live_room - 1);
	return a->live + i;
}

static size_t live_size(uint32_t room)
{
	return room * (sizeof(struct pf_live) + BITS / 8);
}

/* Put a block that is not there into the table and the sieve. */
static void put(struct pf_allocations *a, const struct pf_live *block)
{
	const uint32_t bit = bit_of(a, block->block);

	*find(a, block->block) = *block;
	a->sieve[bit / 32] |= UINT32_C(1) << bit % 32;
}

static int grow(struct pf_allocations *a)
{
	struct pf_live *old = a->live, *live;
	const uint32_t old_room = a->live_room, room = old_room ? 2 * old_room : LEAST_ROOM;

	live = old_room < MOST_ROOM ? pf_pages_get(live_size(room)) : NULL;
	if (!live)
		return -ENOMEM;
	a->live = live;
	a->live_room = room;
	a->sieve = (uint32_t *)(void *)(live + room);
	a->watcher.sieve = (struct pf_sieve){a->sieve, BITS * room - 1};
	for (uint32_t i = 0; i < old_room; i++)
		if (old[i].block)
			put(a, old + i);
	pf_pages_put(old, live_size(old_room));
	return 0;
}

/* Close the gap of a freed entry: move the entries behind it that a search, which ends at a gap, would no longer find. */
static void close_gap(struct pf_allocations *a, uint32_t gap)
{
	const uint32_t mask = a->live_room - 1;

	for (uint32_t i = (gap + 1) & mask; a->live[i].block; i = (i + 1) & mask) {
		if (((i - place_of(a, a->live[i].block)) & mask) < ((i - gap) & mask))
			continue;
		a->live[gap] = a->live[i];
		gap = i;
	}
	a->live[gap].block = 0;
}

static void drop(struct pf_allocations *a, uint64_t address)
{
	struct pf_live *found = find(a, address);
	const uint32_t bit = bit_of(a, address);

	if (!found->block)
		return;
	a->live_n--;
	close_gap(a, (uint32_t)(found - a->live));
	for (uint32_t i = bit / BITS; a->live[i].block; i = (i + 1) & (a->live_room - 1))
		if (bit_of(a, a->live[i].block) == bit)
			return;
	a->sieve[bit / 32] &= ~(UINT32_C(1) << bit % 32);
}

/* Keep a block. If one is kept at this address already, another allocator, which the program had set since, has freed it. */
static void keep(struct pf_allocations *a, const struct pf_live *block)
{
	drop(a, block->block);
	if ((uint64_t)a->live_n * 16 >= (uint64_t)a->live_room * 13 && grow(a) < 0 && a->live_n + 1 >= a->live_room) {
		a->s->lost++;
		return;
	}
	put(a, block);
	a->live_n++;
}

/* --- samples -------------------------------------------------------------------------------------------------------- */

static struct pf_allocations *of(struct pf_watcher *w)
{
	return (struct pf_allocations *)w; /* its first member */
}

static void take_stack(struct pf_watcher *w, const struct pf_registers *r, const void *old, size_t size)
{
	struct pf_allocations *a = of(w);
	struct pf_sampler *s = a->s;
	struct pf_kind kind = {.zone = *pf_zone_cell()};
	const int saved = errno;
	int failed;

	a->node = pf_sampler_unwind(s, r, pf_own_memory(NULL), old, &kind, &failed);
	if (a->strings && a->resizes(a->strings, old, size))
		a->node = pf_sampler_in_state(s, a->node, PF_AT_STRINGS);
	s->failures[failed]++;
	errno = saved;
}

/* The allocator's count of bytes at which the next block is sampled. */
static uint64_t next_due(struct pf_allocations *a)
{
	const double gap = a->period > 1 ? ceil(-log(uniform(a)) * a->period) : 0;

	return gap < 1e18 ? a->in->given.bytes + (uint64_t)gap : PF_NEVER_DUE;
}

static void add_sample(struct pf_watcher *w, void *block, size_t size)
{
	struct pf_allocations *a = of(w);
	struct pf_live entry = {.block = (uintptr_t)block, .size = size, .born = a->collections};
	const struct pf_sum sum = weigh(a, &entry);

	a->s->samples++;
	entry.node = pf_sampler_add(a->s, a->node, 0, sum.weight, sum.count);
	if (a->is_live)
		keep(a, &entry);
	w->due = next_due(a);
}

static void drop_freed(struct pf_watcher *w, const void *block)
{
	drop(of(w), (uintptr_t)block);
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pf_allocations_start(struct pf_allocations *a, struct pf_sampler *s, struct pf_allocator *in, uint64_t period)
{
	a->s = s;
	a->in = in;
	a->period = (double)period;
	a->random = pf_wall_ns() * UINT64_C(0x9e3779b97f4a7c15) | 1;
	a->watcher = (struct pf_watcher){.due = next_due(a), .will_give = take_stack, .gave = add_sample, .freed = drop_freed};
	if (a->is_live && grow(a) < 0)
		return -ENOMEM;
	pf_own_stack_find();
	pf_peek_take();
	s->zone = pf_zone_cell();
	pf_sampling_bind(&s->at);
	s->at.running = 1;
	s->started_ns = pf_wall_ns();
	pf_allocator_watch(in, &a->watcher);
	a->start = in->given;
	return 0;
}

/* Add up the blocks that live and have survived enough collections. The first collection that ended since a block was allocated may
 * have begun before that, and then frees no such block. */
static int add_up_alive(struct pf_allocations *a)
{
	const struct pf_stacks *st = &a->s->at.stacks;

	a->alive_sum = 0;
	pf_pages_put(a->alive, a->alive_room * sizeof *a->alive);
	a->alive_room = st->sums.n + 1;
	a->alive = pf_pages_get(a->alive_room * sizeof *a->alive);
	if (!a->alive)
		return -ENOMEM;
	for (uint32_t i = 0; i < a->live_room; i++) {
		const struct pf_live *block = a->live + i;
		struct pf_sum *sum, add;

		if (!block->block || (a->survived && a->collections - block->born <= a->survived))
			continue;
		sum = a->alive + (block->node ? pf_stacks_node_at(st, block->node)->sum : 0);
		add = weigh(a, block);
		sum->weight += add.weight;
		sum->count += add.count;
		a->alive_sum += add.weight;
	}
	return 0;
}

int pf_allocations_read(struct pf_allocations *a)
{
	pf_allocations_resume(a); /* memory may have been refused for the call that resumes */
	a->is_read = 1;
	a->left = a->watcher.due - a->in->given.bytes;
	a->watcher.due = PF_NEVER_DUE;
	pf_allocator_refresh(a->in);
	a->stop = a->in->given;
	return a->is_live ? add_up_alive(a) : 0;
}

void pf_allocations_resume(struct pf_allocations *a)
{
	const struct pf_blocks now = a->is_read ? a->in->given : a->stop;

	if (!a->is_read)
		return;
	a->is_read = 0;
	a->watcher.due = a->in->given.bytes + a->left;
	pf_allocator_refresh(a->in);
	if (a->is_live)
		return;
	a->start.bytes += now.bytes - a->stop.bytes;
	a->start.blocks += now.blocks - a->stop.blocks;
	a->start.freed_bytes += now.freed_bytes - a->stop.freed_bytes;
	a->start.freed_blocks += now.freed_blocks - a->stop.freed_blocks;
}

int pf_allocations_stop(struct pf_allocations *a)
{
	if (!a->s || !a->s->at.running)
		return 0;
	pf_allocations_resume(a); /* if the state was closed while it was read */
	pf_allocator_unwatch(a->in, &a->watcher);
	a->stop = a->in->given;
	pf_peek_give(a->s->at.generation);
	a->s->at.running = 0;
	a->s->duration_ns = pf_wall_ns() - a->s->started_ns;
	return a->is_live ? add_up_alive(a) : 0;
}

void pf_allocations_free(struct pf_allocations *a)
{
	pf_pages_put(a->live, live_size(a->live_room));
	pf_pages_put(a->alive, a->alive_room * sizeof *a->alive);
	a->live = NULL;
	a->sieve = NULL;
	a->alive = NULL;
	a->live_n = a->live_room = a->alive_room = 0;
}

size_t pf_allocations_memory(const struct pf_allocations *a)
{
	return live_size(a->live_room);
}

struct pf_blocks pf_allocations_blocks(const struct pf_allocations *a)
{
	return (struct pf_blocks){
		.bytes = a->stop.bytes - a->start.bytes,
		.freed_bytes = a->stop.freed_bytes - a->start.freed_bytes,
		.blocks = a->stop.blocks - a->start.blocks,
		.freed_blocks = a->stop.freed_blocks - a->start.freed_blocks,
	};
}

uint64_t pf_allocations_total(const struct pf_allocations *a)
{
	return a->is_live ? a->alive_sum : a->stop.bytes - a->start.bytes;
}

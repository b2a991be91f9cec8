/* See allocations.h. */
#include "core/profile/allocations.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/pages.h"
#include "core/base/peek.h"
#include "core/stack/own_thread.h"

enum { LEAST_ROOM = 1024 };

/* --- random numbers ------------------------------------------------------------------------------------------------- */

/* A random number from 0 (excluded) to 1. */
static double uniform(struct pf_allocations *a)
{
	a->random ^= a->random << 13;
	a->random ^= a->random >> 7;
	a->random ^= a->random << 17;
	return (double)((a->random >> 11) + 1) / (double)(UINT64_C(1) << 53);
}

/* One of the two whole numbers beside x, at random: x on average. */
static uint64_t round_fairly(struct pf_allocations *a, double x)
{
	const double whole = floor(x);

	return (uint64_t)whole + (uniform(a) < x - whole);
}

/* --- sampled blocks that are not freed ------------------------------------------------------------------------------ */

static uint32_t place_of(const struct pf_allocations *a, uint64_t block)
{
	return (uint32_t)((block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (a->live_room - 1);
}

/* The entry of a block, or the free one where it would be. */
static struct pf_live *find(const struct pf_allocations *a, uint64_t block)
{
	uint32_t i = place_of(a, block);

	while (a->live[i].block && a->live[i].block != block)
		i = (i + 1) & (a->live_room - 1);
	return a->live + i;
}

static int grow(struct pf_allocations *a)
{
	const struct pf_allocations old = *a;

	a->live_room = old.live_room ? 2 * old.live_room : LEAST_ROOM;
	a->live = a->live_room ? pf_pages_get(a->live_room * sizeof *a->live) : NULL;
	if (!a->live) {
		a->live = old.live;
		a->live_room = old.live_room;
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < old.live_room; i++)
		if (old.live[i].block)
			*find(a, old.live[i].block) = old.live[i];
	pf_pages_put(old.live, old.live_room * sizeof *old.live);
	return 0;
}

static void subtract(struct pf_allocations *a, const struct pf_live *block)
{
	a->s->sum -= block->weight;
	pf_stacks_add(&a->s->at.stacks, block->node, -block->weight, -block->count);
}

static void add_again(struct pf_allocations *a, const struct pf_live *block)
{
	a->s->sum += block->weight;
	pf_stacks_add(&a->s->at.stacks, block->node, block->weight, block->count); /* cannot fail: the node has a sum already */
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

	if (!found->block)
		return;
	if (a->is_read) {
		found->is_freed = 1;
		return;
	}
	subtract(a, found);
	a->live_n--;
	close_gap(a, (uint32_t)(found - a->live));
}

/* Keep a block. If one is kept at this address already, another allocator, which the program had set since, has freed it. */
static void keep(struct pf_allocations *a, const struct pf_live *block)
{
	drop(a, block->block);
	if ((uint64_t)a->live_n * 4 >= (uint64_t)a->live_room * 3 && grow(a) < 0 && a->live_n + 1 >= a->live_room) {
		subtract(a, block);
		a->s->lost++;
		return;
	}
	*find(a, block->block) = *block;
	a->live_n++;
}

/* --- samples -------------------------------------------------------------------------------------------------------- */

static void take_stack(struct pf_allocations *a, const struct pf_registers *r)
{
	struct pf_sampler *s = a->s;
	struct pf_kind kind = {.zone = *pf_zone_cell()};
	const int saved = errno;
	int failed;

	a->node = pf_sampler_unwind(s, r, pf_own_memory(NULL), &kind, &failed);
	s->failures[failed]++;
	errno = saved;
}

static void add_sample(struct pf_allocations *a, void *block, size_t size)
{
	const double p = a->period > 1 ? -expm1(-(double)size / a->period) : 1;
	struct pf_live entry = {.block = (uintptr_t)block,
				.weight = p < 1 ? round_fairly(a, (double)size / p) : size,
				.count = p < 1 ? round_fairly(a, 1 / p) : 1,
				.born = a->collections & PF_BORN};

	a->s->samples++;
	entry.node = pf_sampler_add(a->s, a->node, 0, entry.weight, entry.count);
	if (a->is_live)
		keep(a, &entry);
	a->left = a->period > 1 ? -log(uniform(a)) * a->period : 0;
}

/* Count what the allocator has done. */
static void count(struct pf_allocations *a, const void *old, size_t old_size, void *block, size_t size)
{
	if (old) {
		a->freed_bytes += old_size;
		a->freed_blocks++;
		if (a->live_n)
			drop(a, (uintptr_t)old);
	}
	if (!size)
		return;
	a->bytes += size;
	a->blocks++;
	if (a->is_sample)
		add_sample(a, block, size);
	else if (!a->is_read)
		a->left -= (double)size;
}

void *pf_allocator_call(void *ud, void *old, size_t old_size, size_t size)
{
	const struct pf_allocator *in = ud;
	const int counts = atomic_load_explicit(&in->thread, memory_order_relaxed) == pf_thread_token() && in->running;
	struct pf_registers r = {.sp = 0};
	void *block;

	/* Stacks are taken before the call, since the old block may be the interpreter's own stack. */
	for (struct pf_allocations *a = counts ? in->running : NULL; a; a = a->next) {
		a->is_sample = size && !a->is_read && a->left <= (double)size;
		if (a->is_sample && !r.sp) {
			pf_own_registers_here(&r);
			r.stack_end = pf_own_stack_end(r.sp);
		}
		if (a->is_sample)
			take_stack(a, &r);
	}
	block = in->next(in->next_ud, old, old_size, size);
	if (size && !block)
		return NULL;
	for (struct pf_allocations *a = counts ? in->running : NULL; a; a = a->next)
		count(a, old, old_size, block, size);
	return block;
}

/* --- start and stop ------------------------------------------------------------------------------------------------- */

int pf_allocations_start(struct pf_allocations *a, struct pf_sampler *s, struct pf_allocator *in, uint64_t period)
{
	a->s = s;
	a->in = in;
	a->period = (double)period;
	a->random = pf_wall_ns() * UINT64_C(0x9e3779b97f4a7c15) | 1;
	a->left = period > 1 ? -log(uniform(a)) * a->period : 0;
	if (a->is_live && grow(a) < 0)
		return -ENOMEM;
	pf_own_stack_find();
	pf_peek_take();
	s->zone = pf_zone_cell();
	pf_sampling_bind(&s->at);
	s->at.running = 1;
	s->started_ns = pf_wall_ns();
	if (in->generation != s->at.generation) /* the list is the parent's, from before the fork */
		in->running = NULL;
	in->generation = s->at.generation;
	atomic_store(&in->thread, pf_thread_token());
	a->next = in->running;
	in->running = a;
	return 0;
}

/* Leave out the blocks that have not survived enough collections. The first that ended since a block was allocated may have begun
 * before that, and then frees no such block. */
static void leave_out_young(struct pf_allocations *a)
{
	for (uint32_t i = 0; a->survived && i < a->live_room; i++) {
		struct pf_live *block = a->live + i;

		block->is_young = block->block && ((a->collections - block->born) & PF_BORN) <= a->survived;
		if (block->is_young)
			subtract(a, block);
	}
}

void pf_allocations_resume(struct pf_allocations *a)
{
	a->is_read = 0;
	for (uint32_t i = 0; i < a->live_room; i++) {
		if (a->live[i].is_young)
			add_again(a, a->live + i);
		a->live[i].is_young = 0;
	}
	for (uint32_t i = 0; i < a->live_room; i++)
		while (a->live[i].block && a->live[i].is_freed) /* the next entry may move to its place */
			drop(a, a->live[i].block);
}

void pf_allocations_read(struct pf_allocations *a)
{
	pf_allocations_resume(a); /* memory may have been refused for the call that resumes */
	leave_out_young(a);
	a->is_read = 1;
}

void pf_allocations_stop(struct pf_allocations *a)
{
	struct pf_allocations **link;

	if (!a->s || !a->s->at.running)
		return;
	link = &a->in->running;
	while (*link && *link != a)
		link = &(*link)->next;
	if (*link)
		*link = a->next;
	pf_peek_give(a->s->at.generation);
	a->s->at.running = 0;
	a->s->duration_ns = pf_wall_ns() - a->s->started_ns;
	pf_allocations_resume(a); /* if the state was closed while they were read */
	leave_out_young(a);
	a->s->value = a->is_live ? a->s->sum : a->bytes;
}

void pf_allocations_free(struct pf_allocations *a)
{
	pf_pages_put(a->live, a->live_room * sizeof *a->live);
	a->live = NULL;
	a->live_n = a->live_room = 0;
}

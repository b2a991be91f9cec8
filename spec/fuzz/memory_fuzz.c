/* An allocator with profilers of the heap, beside tables of all blocks: random blocks are allocated, resized and freed, some of the
 * calls are refused, and profilers begin and end. The counts are exact to the byte. A profiler has the sampled blocks that are not
 * freed, and no others, in its table and in its sieve. The blocks are addresses without memory, at distances for which a hash may
 * be bad. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "core/base/sys.h"
#include "core/profile/allocations.h"

enum { SLOTS = 4000, PROFILERS = 2 };

static struct {
	size_t size; /* 0: there is no block */
	uint8_t is_sampled[PROFILERS]; /* and kept */
} slots[SLOTS];

static struct {
	struct pf_allocations a;
	struct pf_sampler s;
	uint64_t samples, lost; /* before a call */
	uint32_t most; /* blocks that it had at once */
	int runs;
} profilers[PROFILERS];

static struct pf_allocator in;
static struct pf_blocks known;
static uintptr_t base, distance;
static unsigned chosen; /* the slot of the next block */
static int is_refused, refuses_pages, never_grows;
static unsigned long samples, lost, freed, passed;

static uintptr_t address_of(unsigned slot)
{
	return base + slot * distance;
}

static int sometimes_mmap(void **out, size_t size, int prot, int flags, int fd, off_t at)
{
	return refuses_pages ? -ENOMEM : pf_sys_real.mmap(out, size, prot, flags, fd, at);
}

static void *next(void *ud, void *block, size_t old_size, size_t size)
{
	CHECK(ud == slots);
	if (block)
		CHECK(slots[((uintptr_t)block - base) / distance].size == old_size);
	return !size || is_refused ? NULL : (void *)address_of(chosen);
}

static void no_stack(void *owner, const struct pf_registers *r, const struct pf_memory *m, struct pf_unwound *u)
{
	(void)owner, (void)r, (void)m;
	u->state = PF_OTHER;
}

static void start(unsigned k, uint64_t period)
{
	struct pf_allocations *a = &profilers[k].a;
	struct pf_sampler *s = &profilers[k].s;

	*a = (struct pf_allocations){.is_live = 1};
	*s = (struct pf_sampler){.unwind = no_stack};
	CHECK(pf_sampler_init(s, NULL, NULL, 0) == 0);
	CHECK(pf_allocations_start(a, s, &in, period) == 0);
	a->random = fuzz_random() | 1; /* not of the clock */
	a->watcher.due = in.given.bytes + 1 + fuzz_below((unsigned)period);
	pf_allocator_refresh(&in);
	profilers[k].most = 0;
	profilers[k].runs = 1;
}

/* Whether the profiler has what it should. */
static void check(unsigned k)
{
	struct pf_allocations *a = &profilers[k].a;
	const size_t size = a->live_room * 2;
	uint32_t *bits = calloc(1, size), n = 0, found = 0;
	uint64_t bytes = 0;

	CHECK(bits);
	for (unsigned i = 0; i < SLOTS; i++)
		if (slots[i].is_sampled[k]) {
			n++;
			bytes += slots[i].size;
		}
	for (uint32_t i = 0; i < a->live_room; i++) {
		const struct pf_live *block = a->live + i;
		const uintptr_t slot = (uintptr_t)(block->block - base) / distance;
		uint32_t bit;

		if (!block->block)
			continue;
		CHECK(slot < SLOTS && slots[slot].is_sampled[k] && slots[slot].size == block->size);
		bit = pf_sieve_bit(&a->watcher.sieve, (void *)(uintptr_t)block->block);
		bits[bit / 32] |= 1u << bit % 32;
		CHECK(pf_sieve_has(&in.sieve, (void *)(uintptr_t)block->block));
		found++;
	}
	CHECK(n == found && n == a->live_n);
	CHECK(memcmp(bits, a->sieve, size) == 0);
	CHECK(pf_allocations_memory(a) <= (size_t)64 * profilers[k].most || pf_allocations_memory(a) <= 16384);
	free(bits);
	if (a->period > 1)
		return;
	CHECK(pf_allocations_read(a) == 0);
	CHECK(pf_allocations_total(a) == bytes);
	pf_allocations_resume(a);
}

static void stop(unsigned k)
{
	if (!profilers[k].runs)
		return;
	check(k);
	CHECK(pf_allocations_stop(&profilers[k].a) == 0);
	pf_allocations_free(&profilers[k].a);
	pf_sampler_free(&profilers[k].s);
	profilers[k].runs = 0;
	for (unsigned i = 0; i < SLOTS; i++)
		slots[i].is_sampled[k] = 0;
}

/* The block of a slot gets a size, in another slot: 0 bytes to free it. */
static void call(unsigned from, unsigned to, size_t size)
{
	const size_t old_size = slots[from].size;
	const int counts = in.users > 0;
	void *const old = old_size ? (void *)address_of(from) : NULL;

	for (unsigned k = 0; k < PROFILERS; k++) {
		profilers[k].samples = profilers[k].s.samples;
		profilers[k].lost = profilers[k].s.lost;
	}
	if (!old && !size)
		return;
	chosen = to;
	is_refused = size && fuzz_below(50) == 0;
	refuses_pages = never_grows || fuzz_below(3) == 0;
	freed += old != NULL;
	passed += old && pf_sieve_has(&in.sieve, old);
	CHECK(pf_allocator_call(&in, old, old_size, size) == (size && !is_refused ? (void *)address_of(to) : NULL));
	refuses_pages = 0;
	if (is_refused)
		return;
	memset(&slots[from], 0, sizeof *slots);
	slots[to].size = size;
	if (counts && old) {
		known.freed_bytes += old_size;
		known.freed_blocks++;
	}
	if (counts && size) {
		known.bytes += size;
		known.blocks++;
	}
	for (unsigned k = 0; k < PROFILERS; k++) {
		const int is_lost = profilers[k].s.lost > profilers[k].lost;

		if (!profilers[k].runs)
			continue;
		lost += (unsigned long)is_lost;
		samples += profilers[k].s.samples - profilers[k].samples;
		if (profilers[k].a.live_n > profilers[k].most)
			profilers[k].most = profilers[k].a.live_n;
		slots[to].is_sampled[k] = size && profilers[k].s.samples > profilers[k].samples && !is_lost;
	}
}

/* Fills up, and then empties, so that the table grows and its gaps are closed. */
static void one_state(void)
{
	static const uintptr_t distances[] = {16, 32, 48, 80, 4096, 65536, 1u << 18};
	const unsigned turns = 1 + fuzz_below(20000);

	memset(slots, 0, sizeof slots);
	memset(&in, 0, sizeof in);
	memset(&known, 0, sizeof known);
	distance = distances[fuzz_below(sizeof distances / sizeof *distances)];
	base = ((uintptr_t)1 << 24) + 16 * fuzz_below(1u << 20);
	never_grows = fuzz_below(4) == 0;
	pf_allocator_init(&in, next, slots);
	for (unsigned i = 0; i < turns; i++) {
		const unsigned at = fuzz_below(SLOTS), to = fuzz_below(3) ? at : fuzz_below(SLOTS);
		const int frees = fuzz_below(100) < (i * 4 / turns % 2 ? 80 : 20);
		const unsigned k = fuzz_below(PROFILERS);

		if (fuzz_below(3000) == 0 || (i == 0 && k == 0)) {
			stop(k);
			if (fuzz_below(3))
				start(k, fuzz_below(2) ? 1 : 1 + fuzz_below(3000));
		}
		if (fuzz_below(2000) == 0 && profilers[k].runs)
			check(k);
		if (frees)
			call(at, at, 0);
		else if (to == at || !slots[to].size)
			call(at, to, 1 + fuzz_below(fuzz_below(10) ? 100 : 5000));
		CHECK(memcmp(&in.given, &known, sizeof known) == 0);
	}
	for (unsigned k = 0; k < PROFILERS; k++)
		stop(k);
	CHECK(!pf_sieve_has(&in.sieve, (void *)base) && in.users == 0);
}

int main(int argc, char **argv)
{
	const unsigned long runs = fuzz_start(argc, argv) / 2000;
	struct pf_sys fake = pf_sys_real;

	fake.mmap = sometimes_mmap;
	pf_sys = &fake;
	for (unsigned long i = fuzz_first; i < runs; i++) {
		fuzz_run(i);
		one_state();
	}
	pf_sys = &pf_sys_real;
	printf("memory_fuzz: %lu runs: %lu samples, %lu lost; %lu of %lu freed blocks passed the sieve\n", runs, samples, lost, passed, freed);
	return 0;
}

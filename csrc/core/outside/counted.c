/* Samples that the BPF program counts by the key of their stack, and generations of keys: see collector.h. */
#include "core/outside/collector.h"

#include <string.h>

enum { SLOTS = 2 * PF_SNAPSHOT_STACKS };
/* How many times as many samples as there is room for keys must find no room, before all keys are given up. The keys that are still
 * used are then learned again, which must not take a large part of the samples. */
enum { PATIENCE = 2 };

/* The slot of a key, which is empty if its key is 0. */
static struct pf_stack_of_key *slot(struct pf_collector *c, uint64_t key)
{
	uint64_t i = (key >> 1) % SLOTS;

	while (c->keys[i].key && c->keys[i].key != key)
		i = (i + 1) % SLOTS;
	return &c->keys[i];
}

void pf_counted_know(struct pf_collector *c, uint64_t key, uint32_t node)
{
	struct pf_stack_of_key *k = slot(c, key);
	const struct pf_counted none = {0, 0};

	if (k->key || c->keys_state != PF_KEYS_LEARNED)
		return;
	if (c->keys_n >= PF_SNAPSHOT_STACKS || pf_collector_tell(c->maps.stacks, &key, &none) < 0) {
		c->keys_refused++;
		return;
	}
	*k = (struct pf_stack_of_key){.key = key, .node = node};
	c->keys_n++;
}

static void add(struct pf_collector *c, uint32_t node, uint64_t samples, uint64_t weight)
{
	pf_stacks_add(&c->stacks, node, weight, samples); /* cannot fail: the node has a sum already */
	c->sum += weight;
	c->samples += samples;
	c->resolved += samples;
	c->failures[PF_UNWIND_COMPLETE] += samples;
}

int pf_counted_has(struct pf_collector *c, const struct pf_snapshot_head *s)
{
	const struct pf_stack_of_key *k = slot(c, s->stack);

	if (!s->stack || !k->key)
		return 0;
	add(c, k->node, 1, s->weight);
	return 1;
}

void pf_counted_add(struct pf_collector *c)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct pf_stack_of_key *k = &c->keys[i];
		struct pf_counted now;

		if (!k->key || pf_collector_ask(c->maps.stacks, &k->key, &now) < 0)
			continue;
		add(c, k->node, now.samples - k->added.samples, now.weight - k->added.weight);
		k->added = now;
	}
}

/* --- generations ----------------------------------------------------------------------------------------------------------- */

static void forget_objects(void *owner, uint64_t key)
{
	pf_collector_tell(((struct pf_collector *)owner)->maps.known, &key, NULL);
}

/* Forget all keys. By now no run of the program uses them, and no record that is still to be read has one. */
static void give_up(struct pf_collector *c)
{
	pf_counted_add(c);
	for (unsigned i = 0; i < SLOTS; i++)
		if (c->keys[i].key)
			pf_collector_tell(c->maps.stacks, &c->keys[i].key, NULL);
	memset(c->keys, 0, SLOTS * sizeof *c->keys);
	c->keys_n = 0;
	pf_reader_forget(c->reader, forget_objects, c);
}

/* The place in the ring of the next record that is read. */
static uint64_t next_record(const struct pf_collector *c)
{
	return c->queue.first ? c->queue.first->at : *c->consumer;
}

static int ask_runs(const struct pf_collector *c, uint64_t *runs)
{
	const uint32_t which = PF_SNAPSHOT_RUNS;

	return pf_collector_ask(c->maps.counts, &which, runs);
}

/* Let the program use the next generation. Returns 0 if that failed. */
static int begin_generation(struct pf_collector *c)
{
	const uint32_t zero = 0;

	c->keys_refused = c->reader->refused = 0;
	c->generation_of_keys++;
	if (pf_collector_tell(c->maps.generations, &zero, &c->generation_of_keys) < 0)
		return 0;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return ask_runs(c, c->runs) == 0;
}

/* May a run of the program still use the last generation? A run that had begun before the present one did has ended if its CPU's count
 * has changed. */
static int is_last_in_use(const struct pf_collector *c)
{
	uint64_t *const now = c->runs + c->cpus;

	if (ask_runs(c, now) < 0)
		return 1;
	for (unsigned i = 0; i < c->cpus; i++)
		if (c->runs[i] % 2 && now[i] == c->runs[i])
			return 1;
	return 0;
}

void pf_keys_renew(struct pf_collector *c)
{
	switch (c->keys_state) {
	case PF_KEYS_LEARNED:
		if (c->keys_refused < PATIENCE * PF_SNAPSHOT_STACKS && c->reader->refused < PATIENCE * PF_SNAPSHOT_KNOWN)
			return;
		if (!begin_generation(c))
			return;
		c->keys_state = PF_KEYS_IN_USE;
		c->reader->closed = 1; /* the keys of the new generation are learned when the others are gone */
		return;
	case PF_KEYS_IN_USE:
		if (is_last_in_use(c))
			return;
		c->old_until = __atomic_load_n((const uint64_t *)(const void *)c->producer, __ATOMIC_ACQUIRE);
		c->keys_state = PF_KEYS_IN_RING;
		return;
	case PF_KEYS_IN_RING:
		if (next_record(c) < c->old_until)
			return;
		give_up(c);
		c->keys_state = PF_KEYS_LEARNED;
		c->reader->closed = 0;
	}
}

/* Samples that the BPF program counts by the key of their stack: see collector.h. */
#include "core/outside/collector.h"

enum { SLOTS = 2 * PF_SNAPSHOT_STACKS };

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

	if (k->key || c->keys_n >= PF_SNAPSHOT_STACKS || pf_collector_tell(c->maps.stacks, &key, &none) < 0)
		return;
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

/* The nodes of stacks to which samples are added. See sampler.h. */
#include "core/profile/sampler.h"

#include "core/stack/places.h"

/* The node of a call chain on top of a node; 0 if there is no memory. */
static uint32_t with_chain(struct pf_sampler *s, uint32_t node, uint32_t chain)
{
	uint32_t path[PF_CHAIN_DEPTH + 1], n = 0;

	/* The path ends with the root frame of all chains. */
	for (; chain && n <= PF_CHAIN_DEPTH; chain = pf_stacks_node_at(&s->at.stacks, chain)->parent)
		path[n++] = pf_stacks_node_at(&s->at.stacks, chain)->frame;
	return n ? pf_stacks_path(&s->at.stacks, node, path, n - 1) : node;
}

/* The frame for the activity of the thread; 0 if there is no memory. */
static uint32_t frame_of(struct pf_stacks *st, const struct pf_kind *k)
{
	uint32_t i;

	if (k->state != PF_AT_C || !k->function)
		return pf_stacks_frame(st, PF_FRAME_STATE, k->state, 0);
	i = pf_places_c_function(st, k->function);
	return i ? pf_stacks_frame(st, PF_FRAME_C, i, 0) : 0;
}

/* The node of a stack in a zone; `other` if there is no memory. */
static uint32_t stack_of(struct pf_sampler *s, uint32_t zone, const uint32_t *frames, unsigned n)
{
	struct pf_stacks *st = &s->at.stacks;
	uint32_t node = zone ? pf_stacks_child(st, 0, pf_stacks_frame(st, PF_FRAME_ZONE, zone, 0)) : 0;

	if (!zone || node)
		node = pf_stacks_path(st, node, frames, n);
	return node || (!zone && n == 0) ? node : s->other;
}

/* The node of what the thread did, on top of its stack; `other` if there is no memory. */
static uint32_t with_state(struct pf_sampler *s, uint32_t node, const struct pf_kind *k)
{
	if (k->state == PF_AT_LUA || (node && node == s->other))
		return node;
	node = pf_stacks_child(&s->at.stacks, node, frame_of(&s->at.stacks, k));
	return node ? node : s->other;
}

uint32_t pf_sampler_node(struct pf_sampler *s, const struct pf_kind *k, const uint32_t *frames, unsigned n)
{
	return with_state(s, stack_of(s, k->zone, frames, n), k);
}

uint32_t pf_sampler_in_state(struct pf_sampler *s, uint32_t node, enum pf_state state)
{
	return with_state(s, node, &(struct pf_kind){.state = (uint32_t)state});
}

uint32_t pf_sampler_add(struct pf_sampler *s, uint32_t node, uint32_t chain, uint64_t weight, uint64_t count)
{
	if (chain)
		node = with_chain(s, node, chain);
	if ((chain && !node) || pf_stacks_add(&s->at.stacks, node, weight, count) < 0) {
		node = s->other;
		pf_stacks_add(&s->at.stacks, node, weight, count);
	}
	s->sum += weight;
	return node;
}

void pf_sampler_flush(struct pf_sampling *at, const uint32_t *frames, unsigned n)
{
	struct pf_sampler *s = (struct pf_sampler *)at; /* its first member */
	uint32_t zone = 0, base = stack_of(s, 0, frames, n);

	for (uint32_t i = 0; i < s->at.pending.n; i++) {
		struct pf_pending *p = s->at.pending.items + i;

		if (p->count == 0)
			continue;
		if (p->kind.zone != zone) {
			zone = p->kind.zone;
			base = stack_of(s, zone, frames, n);
		}
		if (at->cut && n)
			s->failures[PF_UNWIND_DEEP] += p->count;
		p->node = pf_sampler_add(s, with_state(s, base, &p->kind), p->kind.chain, p->weight, p->count);
	}
	pf_moments_resolve(&s->moments, &s->at.pending);
	pf_pendings_clear(&s->at.pending);
}

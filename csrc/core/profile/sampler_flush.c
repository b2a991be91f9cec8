/* Zones, and turning pending samples into stacks at a safe point. See sampler.h. */
#include "core/profile/sampler.h"

static _Thread_local volatile uint32_t zone_here;

uint32_t pf_zone_set(uint32_t zone)
{
	const uint32_t before = zone_here;

	zone_here = zone;
	return before;
}

uint32_t pf_zone_new(void)
{
	static uint32_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

const volatile uint32_t *pf_zone_cell(void)
{
	return &zone_here;
}

static uint32_t with_chain(struct pf_sampler *s, uint32_t node, uint32_t chain)
{
	uint32_t path[PF_STACK_DEPTH], n = 0;

	/* The path ends with the root frame of all chains. */
	for (; chain && n < PF_STACK_DEPTH; chain = pf_stacks_node_at(&s->at.stacks, chain)->parent)
		path[n++] = pf_stacks_node_at(&s->at.stacks, chain)->frame;
	return n ? pf_stacks_path(&s->at.stacks, node, path, n - 1) : node;
}

/* The frame for the activity of the thread; 0 if there is no memory. */
static uint32_t frame_of(struct pf_stacks *st, const struct pf_kind *k)
{
	struct pf_function f = {.source_key = k->function, .line = -1};
	uint32_t i;

	if (k->state != PF_AT_C || !k->function)
		return pf_stacks_frame(st, PF_FRAME_STATE, k->state, 0);
	i = pf_stacks_find_function(st, f.source_key, 0, -1);
	if (i == 0)
		i = pf_stacks_add_function(st, &f);
	return i ? pf_stacks_frame(st, PF_FRAME_C, i, 0) : 0;
}

/* The node of a pending kind, on top of the stack at the safe point; `other` if there is no memory. */
static uint32_t with_state(struct pf_sampler *s, uint32_t node, const struct pf_kind *k)
{
	if (k->state != PF_AT_LUA) {
		node = pf_stacks_child(&s->at.stacks, node, frame_of(&s->at.stacks, k));
		if (!node)
			return s->other;
	}
	if (k->chain) {
		node = with_chain(s, node, k->chain);
		if (!node)
			return s->other;
	}
	return node;
}

void pf_sampler_flush(struct pf_sampling *at, const uint32_t *frames, unsigned n)
{
	struct pf_sampler *s = (struct pf_sampler *)at; /* its first member */
	struct pf_stacks *st = &s->at.stacks;
	uint32_t zone = 0, base = 0;
	int built = 0, lost = 0;

	for (uint32_t i = 0; i < s->at.pending.n; i++) {
		struct pf_pending *p = s->at.pending.items + i;

		if (p->count == 0)
			continue;
		if (!built || p->kind.zone != zone) {
			zone = p->kind.zone;
			base = zone ? pf_stacks_child(st, 0, pf_stacks_frame(st, PF_FRAME_ZONE, zone, 0)) : 0;
			lost = zone && !base;
			base = lost ? 0 : pf_stacks_path(st, base, frames, n);
			lost = lost || (n && !base);
			built = 1;
		}
		p->node = lost ? s->other : with_state(s, base, &p->kind);
		if (pf_stacks_add(st, p->node, p->weight, p->count) < 0) {
			p->node = s->other;
			pf_stacks_add(st, p->node, p->weight, p->count);
		}
		s->sum += p->weight;
	}
	pf_moments_settle(&s->moments, &s->at.pending);
	pf_pendings_clear(&s->at.pending);
}

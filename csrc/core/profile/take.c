/* The signal handler's part of a sampler: from the ring to the sums of stacks, or to pending samples. See sampler.h. */
#include "core/profile/sampler.h"

#include <errno.h>
#include <string.h>

#include "core/stack/own_thread.h"
#include "core/stack/places.h"

/* The place where the signal interrupted the thread. */
struct here {
	struct pf_kind kind;
	uint32_t node; /* its stack, if that is unwound */
	int failed;    /* enum pf_unwind_failure */
};

/* --- stacks --------------------------------------------------------------------------------------------------------- */

uint32_t pf_sampler_unwind(struct pf_sampler *s, const struct pf_registers *r, const struct pf_memory *m, const void *old,
			   struct pf_kind *kind, int *failed)
{
	struct pf_places places = {.stacks = &s->at.stacks,
				   .memory = m,
				   .hidden = s->hidden,
				   .frames = s->frames,
				   .most = s->depth};
	struct pf_unwound u = {.found = pf_places_add,
			       .to = &places,
			       .alone = s->alone,
			       .allocates = !s->event,
			       .old = (uintptr_t)old,
			       .seen = s->seen,
			       .walks = s->walks};

	s->unwind(s->owner, r, m, &u);
	*failed = places.deep ? PF_UNWIND_DEEP : u.failed;
	kind->state = (uint32_t)pf_places_state(&places, &u);
	return pf_sampler_node(s, kind, s->frames, places.n);
}

static void unwind(struct pf_sampler *s, const void *context, struct here *here)
{
	const struct pf_memory *memory = s->may_ask ? pf_own_memory(context) : pf_own_memory_unchecked(context, s->loads);
	struct pf_registers r;

	pf_own_registers(context, &r);
	r.stack_end = pf_own_stack_end(r.sp);
	here->node = pf_sampler_unwind(s, &r, memory, NULL, &here->kind, &here->failed);
}

/* Intern a call chain in a tree of its own, outermost frame first; *chain is 0 for an empty one. Frames below the interpreter
 * are its callers, and are left out unless `whole`. 0 or -ENOMEM. */
static int intern_chain(struct pf_sampler *s, const uint64_t *ips, unsigned n, int whole, uint32_t *chain)
{
	struct pf_stacks *st = &s->at.stacks;
	enum pf_frame_kind kinds[PF_CHAIN_DEPTH], kind = PF_FRAME_USER;
	uint64_t found[PF_CHAIN_DEPTH];
	unsigned k = 0;
	uint32_t node;

	for (unsigned i = 0; i < n && k < PF_CHAIN_DEPTH; i++) {
		if (pf_is_context(ips[i])) {
			kind = ips[i] == (uint64_t)PF_CONTEXT_KERNEL ? PF_FRAME_KERNEL : PF_FRAME_USER;
			continue;
		}
		if (kind == PF_FRAME_USER && !whole && ips[i] >= s->code_start && ips[i] < s->code_end)
			break;
		kinds[k] = kind;
		found[k++] = ips[i];
	}
	*chain = 0;
	if (k == 0)
		return 0;
	node = pf_stacks_child(st, 0, pf_stacks_frame(st, PF_FRAME_STATE, PF_STATES, 0));
	while (node && k-- > 0)
		node = pf_stacks_child(st, node, pf_stacks_frame(st, kinds[k], found[k], 0));
	*chain = node;
	return node ? 0 : -ENOMEM;
}

/* --- samples -------------------------------------------------------------------------------------------------------- */

static void add(struct pf_sampler *s, const struct pf_record *r, const struct here *here, uint64_t weight)
{
	struct pf_moment moment = {.time = r->time, .addr = r->addr, .weight = weight, .cpu = r->cpu};

	s->samples++;
	if (!s->unwind) {
		moment.node = pf_pendings_add(&s->at.pending, &here->kind, weight);
		pf_moments_add(&s->moments, &moment);
		return;
	}
	s->failures[here->failed]++;
	moment.node = pf_sampler_add(s, here->node, here->kind.chain, weight, 1);
	pf_moments_add(&s->moments, &moment);
	s->moments.settled = s->moments.n;
}

static void add_chain(struct pf_sampler *s, const struct pf_record *r, const unsigned char *bytes, struct here *here)
{
	if (!s->native || !(r->has & PF_SAMPLE(CALLCHAIN)) ||
	    intern_chain(s, pf_view_u64(bytes, r->callchain), r->callchain.n, here->kind.state == PF_OUTSIDE, &here->kind.chain) == 0)
		return;
	here->kind = (struct pf_kind){.state = PF_OTHER, .zone = here->kind.zone};
	here->node = s->other;
}

/* own: the profiler itself ran. here: NULL if that is unknown, and not used for `own`. */
static void take_sample(struct pf_sampler *s, const struct pf_record *r, const unsigned char *bytes, const struct here *here, int own)
{
	uint64_t value, weight;
	struct here at;

	if (!(r->has & PF_SAMPLE(READ)) || r->read.n == 0)
		return;
	value = pf_view_u64(bytes, r->read)[0];
	if (own && s->mode == PF_SAMPLE_INTERVAL) {
		s->own_samples++;
		return; /* the next sample covers this time too */
	}
	weight = value - s->last;
	s->last = value;
	if (own) {
		s->own_weight += weight;
		s->own_samples++;
		return;
	}
	if (!here)
		return; /* the weight is in the total, but no sample has it */
	at = *here;
	add_chain(s, r, bytes, &at);
	add(s, r, &at, weight);
}

/* When it switches a thread out, the kernel writes a sample with the call chain, then the record of the switch out; later comes
 * that of the switch in. */
static void take_switch(struct pf_sampler *s, const struct pf_record *r, const unsigned char *bytes, struct here here, int own)
{
	if (r->type == PF_RECORD_SAMPLE && !own) {
		add_chain(s, r, bytes, &here);
		s->out_chain = here.kind.chain;
	} else if (r->type == PF_RECORD_SWITCH && r->misc & PF_MISC_SWITCH_OUT) {
		s->out_since = r->time;
	} else if (r->type == PF_RECORD_SWITCH && s->out_since) {
		here.kind.chain = s->out_chain;
		s->out_weight += r->time - s->out_since;
		s->out_until = r->time;
		s->out_since = s->out_chain = 0;
		if (own)
			return; /* the stacks may be changing: the next sample covers this time too */
		add(s, r, &here, s->out_weight);
		s->out_weight = 0;
	}
}

/* Records from `own` on are the profiler's own work. here: of those before; NULL: unknown. */
static void empty_ring(struct pf_sampler *s, const struct here *here, uint64_t own)
{
	const unsigned char *bytes;
	struct pf_record r;
	int n;

	/* Skip a damaged record. A ring that is not mapped has no records, and would return an error every time. */
	while ((n = pf_ring_next(&s->ring, &r, &bytes)) != 0 && n != -EBADF) {
		const int is_own = (int64_t)(s->ring.tail - own) >= 0;

		if (n < 0)
			continue;
		if (s->mode == PF_SAMPLE_SWITCHES) {
			take_switch(s, &r, bytes, here ? *here : (struct here){.node = 0}, is_own || !here);
		} else if (r.type == PF_RECORD_SAMPLE) {
			take_sample(s, &r, bytes, here, is_own);
		}
	}
	pf_ring_release(&s->ring);
}

void pf_sampler_empty(struct pf_sampler *s, uint64_t own)
{
	empty_ring(s, NULL, own);
}

void pf_sampler_end_switches(struct pf_sampler *s)
{
	const struct here here = {.kind = {.state = PF_AT_LUA}};
	struct pf_record r;

	if (!s->out_weight)
		return;
	memset(&r, 0, sizeof r);
	r.time = s->out_until;
	add(s, &r, &here, s->out_weight);
	s->out_weight = 0;
}

void pf_sampler_arrive(struct pf_sampler *s)
{
	s->arrived = pf_ring_head(&s->ring);
}

void pf_sampler_take(struct pf_sampler *s, const void *context)
{
	struct here here = {.kind = {.state = PF_AT_LUA, .zone = *s->zone}};

	if (s->at.own) {
		pf_sampler_empty(s, s->ring.tail);
		return;
	}
	pf_sampling_enter(&s->at);
	if (s->arrived != s->ring.tail && s->unwind)
		unwind(s, context, &here);
	else if (!s->unwind)
		here.kind.state = s->classify(s->owner, &here.kind.function);
	empty_ring(s, &here, s->arrived);
	if (here.kind.state == PF_OUTSIDE)
		pf_sampler_flush(&s->at, NULL, 0);
	pf_sampling_leave(&s->at);
	if (pf_pendings_any(&s->at.pending))
		s->trigger(s->owner);
}

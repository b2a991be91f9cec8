/* The time that threads of other processes are off their CPU: see collector.h. */
#include <stdlib.h>

#include "core/outside/collector.h"

/* The slot of a thread, which is empty if its thread is 0; NULL without memory. */
static struct pf_off_cpu *slot(struct pf_off_cpu *items, unsigned slots, uint32_t thread)
{
	unsigned i = thread * UINT32_C(2654435761) % slots;

	while (items[i].thread && items[i].thread != thread)
		i = (i + 1) % slots;
	return &items[i];
}

static struct pf_off_cpu *slot_of(struct pf_collector *c, uint32_t thread)
{
	if (c->off_n * 2 >= c->off_slots) { /* threads that have returned are left out: they may have ended since */
		unsigned slots = 64, n = 0;
		struct pf_off_cpu *more;

		for (unsigned i = 0; i < c->off_slots; i++)
			n += c->off[i].time != 0;
		while (slots <= n * 4)
			slots *= 2;
		more = calloc(slots, sizeof *more);
		if (!more)
			return NULL;
		for (unsigned i = 0; i < c->off_slots; i++)
			if (c->off[i].time)
				*slot(more, slots, c->off[i].thread) = c->off[i];
		free(c->off);
		c->off = more;
		c->off_n = n;
		c->off_slots = slots;
	}
	return slot(c->off, c->off_slots, thread);
}

void pf_off_cpu_add(struct pf_collector *c, const struct pf_snapshot_head *s, uint32_t node)
{
	struct pf_off_cpu *o = slot_of(c, s->thread);

	if (!o)
		return;
	c->off_n += o->thread == 0;
	*o = (struct pf_off_cpu){s->thread, node, s->time, 0};
}

void pf_off_cpu_return(struct pf_collector *c, const struct pf_switched_in *in)
{
	struct pf_off_cpu *o = c->off ? slot(c->off, c->off_slots, in->thread) : NULL;

	if (!o || !o->time)
		return;
	pf_collector_weight(c, o->node, in->off > o->added ? in->off - o->added : 0);
	o->time = 0;
}

static uint64_t ended(const struct pf_collector *c)
{
	const uint32_t which = PF_SNAPSHOT_ENDED;
	uint64_t *const n = c->runs + c->cpus, sum = 0;

	if (pf_collector_ask(c->maps.counts, &which, n) < 0)
		return 0;
	for (unsigned i = 0; i < c->cpus; i++)
		sum += n[i];
	return sum;
}

void pf_off_cpu_ended(struct pf_collector *c)
{
	if (c->off_n == 0 || ended(c) == c->off_ended)
		return;
	for (unsigned i = 0; i < c->off_slots; i++) {
		const struct pf_off_cpu *o = &c->off[i];
		struct pf_switched_out out;

		if (!o->time || pf_collector_ask(c->maps.switches, &o->thread, &out) < 0 || out.time != o->time || !out.ended)
			continue;
		pf_off_cpu_return(c, &(struct pf_switched_in){.off = out.off, .thread = o->thread});
		pf_collector_tell(c->maps.switches, &o->thread, NULL);
		c->off_ended++;
	}
}

void pf_off_cpu_so_far(struct pf_collector *c, uint64_t now)
{
	pf_off_cpu_ended(c);
	c->off_ns = 0;
	for (unsigned i = 0; i < c->off_slots; i++) {
		struct pf_off_cpu *o = &c->off[i];
		struct pf_switched_out out;
		uint64_t off;

		/* If the BPF program's map no longer has the thread, its return is in the ring. */
		if (!o->time || pf_collector_ask(c->maps.switches, &o->thread, &out) < 0 || out.time != o->time)
			continue;
		off = out.off ? out.off : now > o->time ? now - o->time : 0;
		if (off > o->added) {
			pf_collector_weight(c, o->node, off - o->added);
			o->added = off;
		}
		if (!out.off)
			c->off_ns += o->added;
	}
}

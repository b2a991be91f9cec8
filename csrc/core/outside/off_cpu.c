/* The time that threads of other processes are off their CPU: see collector.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/sys.h"
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
	*o = (struct pf_off_cpu){s->thread, node, (pid_t)s->number, s->time, 0};
}

void pf_off_cpu_return(struct pf_collector *c, const struct pf_switched_in *in)
{
	struct pf_off_cpu *o = c->off ? slot(c->off, c->off_slots, in->thread) : NULL;

	if (!o || !o->time)
		return;
	pf_collector_weight(c, o->node, in->off > o->added ? in->off - o->added : 0);
	o->time = 0;
}

/* Is the entry of this switch still in the BPF program's map? If not, the thread's return was read already, or is in the ring. */
static int is_left(const struct pf_collector *c, const struct pf_off_cpu *o, struct pf_switched_out *out)
{
	return o->time && pf_collector_ask(c->maps.switches, &o->thread, out) == 0 && out->time == o->time;
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

		if (!is_left(c, o, &out) || !out.ended)
			continue;
		pf_off_cpu_return(c, &(struct pf_switched_in){.off = out.off, .thread = o->thread});
		pf_collector_tell(c->maps.switches, &o->thread, NULL);
		c->off_ended++;
	}
}

void pf_off_cpu_forget(struct pf_collector *c)
{
	struct pf_switched_out out;

	for (unsigned i = 0; i < c->off_slots; i++) {
		struct pf_off_cpu *o = &c->off[i];

		if (!o->time || pf_sys->kill(o->number, 0) != -ESRCH || !is_left(c, o, &out) || out.ended)
			continue;
		pf_collector_tell(c->maps.switches, &o->thread, NULL);
		if (out.off)
			pf_off_cpu_return(c, &(struct pf_switched_in){.off = out.off, .thread = o->thread});
		else
			o->time = 0; /* it is not known how long the thread was off its CPU */
	}
}

/* The CPU time that a thread has used since it left its CPU. It is more than 0 if the BPF program has missed the thread's return. */
static uint64_t used_since(const struct pf_off_cpu *o, uint64_t ran)
{
	char path[40], text[64];
	uint64_t now;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/schedstat", (int)o->number);
	fd = pf_sys->open(path, O_RDONLY, 0); /* not every kernel has this file */
	if (fd < 0)
		return 0;
	n = pf_sys->read(fd, text, sizeof text - 1);
	pf_sys->close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	now = strtoull(text, NULL, 10); /* 0 if the kernel does not count it there */
	return now > ran ? now - ran : 0;
}

void pf_off_cpu_so_far(struct pf_collector *c, uint64_t now)
{
	pf_off_cpu_ended(c);
	pf_off_cpu_forget(c);
	c->off_ns = 0;
	for (unsigned i = 0; i < c->off_slots; i++) {
		struct pf_off_cpu *o = &c->off[i];
		struct pf_switched_out out;
		uint64_t off, passed, used;

		if (!is_left(c, o, &out))
			continue;
		off = out.off;
		if (!off) {
			passed = now > o->time ? now - o->time : 0;
			used = used_since(o, out.ran);
			off = passed > used ? passed - used : 0;
		}
		if (off > o->added) {
			pf_collector_weight(c, o->node, off - o->added);
			o->added = off;
		}
		if (!out.off)
			c->off_ns += o->added;
	}
}

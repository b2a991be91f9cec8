/* See sampler.h. */
#include "core/profile/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/pages.h"
#include "core/base/peek.h"
#include "core/profile/trap.h"

enum { RING_PAGES = 64, FRAMES_SIZE = PF_STACK_DEPTH * sizeof(uint32_t) };

/* Map the event's ring. */
static int open_ring(struct pf_sampler *s, const struct pf_layout *l)
{
	size_t pages = RING_PAGES;
	int r = pf_layouts_add(&s->layouts, l);

	if (r < 0)
		return r;
	while ((r = pf_ring_map(&s->ring, s->event->fd, pages, 0, 0)) == -EPERM && pages > 1)
		pages /= 2;
	if (r < 0)
		return r;
	s->ring.layouts = &s->layouts;
	/* Touch each page now: the first access is a page fault, and page faults may be what is profiled. */
	for (size_t at = 0; at < s->ring.map_size; at += 4096)
		(void)*(volatile unsigned char *)(s->ring.map + at);
	pf_ring_skip(&s->ring, 0); /* write to the header page: the first write is another fault */
	memset(s->ring.scratch, 0, PF_RECORD_MAX_SIZE);
	return 0;
}

int pf_sampler_init(struct pf_sampler *s, struct pf_counter *event, const struct pf_layout *l, uint32_t moments)
{
	int r;

	s->event = event;
	s->at.flush = pf_sampler_flush;
	r = pf_stacks_init(&s->at.stacks);
	if (r == 0)
		r = pf_pendings_init(&s->at.pending, &(struct pf_kind){.state = PF_OTHER});
	if (r == 0) {
		s->other = pf_stacks_child(&s->at.stacks, 0, pf_stacks_frame(&s->at.stacks, PF_FRAME_STATE, PF_OTHER, 0));
		r = pf_stacks_add(&s->at.stacks, s->other, 0, 0);
	}
	if (r == 0)
		r = pf_moments_init(&s->moments, moments);
	if (r == 0)
		r = (s->frames = pf_pages_get(FRAMES_SIZE)) && (s->seen = pf_pages_get(sizeof *s->seen)) && (s->walks = pf_trace_seen_new()) ? 0 : -ENOMEM;
	if (r == 0 && event)
		r = open_ring(s, l);
	if (r < 0)
		pf_sampler_free(s);
	return r;
}

void pf_sampler_free(struct pf_sampler *s)
{
	pf_sampler_stop(s);
	pf_ring_unmap(&s->ring);
	pf_layouts_free(&s->layouts);
	pf_stacks_free(&s->at.stacks);
	pf_moments_free(&s->moments);
	pf_pendings_free(&s->at.pending);
	pf_pages_put(s->frames, FRAMES_SIZE);
	s->frames = NULL;
	pf_pages_put(s->seen, sizeof *s->seen);
	s->seen = NULL;
	pf_trace_seen_free(s->walks);
	s->walks = NULL;
	s->event = NULL;
}

/* If the event cannot send the signal, its descriptor does. */
static int signal_by_descriptor(const struct pf_sampler *s)
{
	const struct {
		int type, pid;
	} owner = {F_OWNER_TID, s->at.tid};
	const int fd = s->event->fd;
	int r;

	if (!s->by_descriptor)
		return 0;
	r = pf_sys->fcntl(fd, F_SETSIG, SIGTRAP);
	if (r >= 0)
		r = pf_sys->fcntl(fd, F_SETOWN_EX, (long)(intptr_t)&owner);
	if (r >= 0)
		r = pf_sys->fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK);
	return r;
}

int pf_sampler_start(struct pf_sampler *s)
{
	int r;

	s->zone = pf_zone_cell(); /* not in the handler, since a thread's first access may allocate */
	pf_sampling_bind(&s->at);
	pf_sampling_enter(&s->at);
	r = pf_trap_add(s);
	if (r < 0) {
		pf_sampling_leave(&s->at);
		return r;
	}
	s->at.running = 1;
	if (s->unwind) {
		pf_peek_take();
		s->loads = pf_peek_ready(NULL);
	}
	s->started_ns = pf_wall_ns();
	r = signal_by_descriptor(s);
	if (r >= 0)
		r = pf_counter_ioctl(s->event, PF_IOC_ENABLE, 0);
	if (r < 0) {
		pf_sampler_stop(s);
		return r;
	}
	pf_sampling_leave(&s->at);
	return 0;
}

int pf_sampler_stop(struct pf_sampler *s)
{
	const int inherited = pf_sampling_inherited(&s->at);
	uint64_t words[8], own = 0;
	ssize_t n;
	int r = 0;

	if (!s->at.running)
		return 0;
	/* Are there records yet? Then a handler of the program did not pass the signals on. They are not the profiler's own work. */
	if (!inherited && s->ring.map)
		own = pf_ring_head(&s->ring);
	pf_sampling_enter(&s->at);
	if (!inherited)
		r = pf_counter_ioctl(s->event, PF_IOC_DISABLE, 0);
	pf_trap_remove(s);
	if (s->unwind)
		pf_peek_give(s->at.generation);
	if (!inherited) {
		pf_sampler_empty(s, own);
		pf_sampler_end_switches(s);
		pf_sampler_flush(&s->at, NULL, 0); /* no safe point will follow */
		n = pf_counter_read(s->event, words, sizeof words / sizeof *words);
		s->value = n > 0 ? words[0] : s->own_weight;
		if (n > 1 && (s->event->format & PF_FORMAT(LOST))) /* the last word */
			s->lost = words[n - 1];
		s->duration_ns = pf_wall_ns() - s->started_ns;
		if (r < 0) { /* an event that cannot be disabled must be closed, or it would go on sending signals */
			pf_ring_unmap(&s->ring);
			pf_event_close(s->event);
		} else if (n < 0) {
			r = (int)n;
		}
	}
	s->at.running = 0;
	return r < 0 ? r : 0;
}

uint64_t pf_sampler_lost(struct pf_sampler *s)
{
	if (s->event && s->at.running && !pf_sampling_inherited(&s->at))
		pf_event_lost(s->event, &s->lost);
	return (s->lost > s->ring.lost ? s->lost : s->ring.lost) + s->ring.lost_samples;
}

uint64_t pf_sampler_total(const struct pf_sampler *s)
{
	return s->mode == PF_SAMPLE_SWITCHES ? s->sum : s->value - s->own_weight;
}

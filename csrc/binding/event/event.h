/* Event: one perf event, with its ring. */
#ifndef PB_EVENT_H
#define PB_EVENT_H

#include "core/event/event.h"
#include "core/event/ring.h"
#include "binding/base/binding.h"

#define PB_EVENT "perf.Event"

/* The userdata. Most files need the first member only. */
struct pb_event {
	struct pf_counter ev;
	struct pf_layout layout;   /* how the records that it writes are laid out */
	struct pf_ring ring;       /* its own ring, if it is mapped */
	struct pf_layouts layouts; /* one for each event that writes into that ring, this event's first */
	int backward;              /* attr.write_backward */
	int failed;                /* -errno of an error in the ring, which the next read reports */
	enum pb_plain { PB_UNKNOWN, PB_PLAIN, PB_NOT_PLAIN } plain; /* the result of is_plain */

	/* Lost records (ring_lost.c). lost_base: the event's loss when it began to write into its current ring. lost_gone: the
	 * loss in this event's ring of events that no longer write into it. */
	uint64_t lost_seen, lost_base, lost_gone;
	struct pb_event *output, *writers, *next_writer; /* it writes into output's ring; writers: the list of
							  * events that write into its own ring */
	int redirected;                                  /* its output was redirected at some time */
	struct pb_loss *loss;                            /* belongs to the function that ev:ring_loss() returned, or NULL */
	int collected;                                   /* its finalizer has run; other finalizers may still use it */

	/* Waking a reader (ring_wait.c): the pipe is opened by the first ev:wake_fd(). */
	int wake_fd, wake_read;
	unsigned reads;
	struct pb_hold hold; /* keeps its ring and its layouts */
	volatile int woken;
};

struct pf_counter *pb_check_event(lua_State *L, int i); /* raises if closed */

/* ring.c */
void pb_event_begin(struct pb_event *e, const struct pf_attr *attr, uint64_t hidden);
void pb_event_end(struct pb_event *e); /* idempotent; the descriptor is still open */
void pb_event_unhold(struct pb_event *e, int outer); /* after pb_hold(&e->hold) */

#endif

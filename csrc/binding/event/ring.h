/* Shared by the files of Event's ring methods: ring.c reads, ring_wait.c waits, ring_output.c redirects, ring_lost.c
 * counts lost records. */
#ifndef PB_RING_H
#define PB_RING_H

#include "binding/base/binding.h"
#include "binding/event/event.h"

struct pb_event *pb_ring_event(lua_State *L, int i);  /* raises if closed, or inherited by a fork */
struct pb_event *pb_check_mapped(lua_State *L, int i); /* raises also if it is not mapped */
/* The same without looking up a class by its name. e: an Event whose class the caller has checked, or NULL. The second function
 * takes the Event from upvalue 1 of an iterator, and leaves it alone on the stack, at 1. */
struct pb_event *pb_check_mapped_event(lua_State *L, int i, struct pb_event *e);
struct pb_event *pb_mapped_upvalue(lua_State *L);

/* Convert the seconds at i (none means 0) to a time of pf_wall_ns; 0 stands for now. */
uint64_t pb_check_deadline(lua_State *L, int i);

/* Wait for records. Returns 1 if there are records; -ETIMEDOUT; -EPIPE: the watched process has ended; -EIO: a pinned event lost
 * its counter; -ECANCELED: the reader was woken. Hooks run meanwhile and may raise. */
int pb_await_one(lua_State *L, struct pb_event *e, uint64_t deadline);
/* Whether the reader was woken. A loop that never waits can call it for each record: only an event with a pipe checks the pipe,
 * and only at one call in many. */
int pb_check_woken(struct pb_event *e);
static inline int pb_waking(struct pb_event *e)
{
	return e->woken || (e->wake_read >= 0 && pb_check_woken(e));
}
/* The same, but returns true only once for each wake. */
void pb_wake_clear(struct pb_event *e);
static inline int pb_woken(struct pb_event *e)
{
	const int woken = pb_waking(e);

	if (woken)
		pb_wake_clear(e);
	return woken;
}
void pb_wake_end(struct pb_event *e);
int pb_wait_failed(lua_State *L, int r);

/* Push the array of the info tables of all events that write into the ring of the event whose uservalue is at i. Its indexes are
 * those of the events' layouts. */
void pb_push_joined(lua_State *L, int i);

/* ring_lost.c: from now on e writes into the ring of target; NULL: into its own, or into none. */
void pb_lost_redirect(struct pb_event *e, struct pb_event *target);
/* Read the last count before the event is closed. */
void pb_lost_end(struct pb_event *e);
/* Read the ring's last count before its memory is freed. */
void pb_lost_collected(lua_State *L, struct pb_event *e);

/* ring.c: push the info table of the event with that layout. The Event that has the ring is at 1. */
void pb_ring_info(lua_State *L, const struct pb_event *e, const struct pf_layout *l);

#endif

/* The watched events of all threads are in one list under a spin lock: waiting by futex(2) would be counted. A thread uses only
 * its own events in the list; another thread may close them. */
#include "core/counts/own_calls.h"

#include "core/base/thread.h"
#include "core/counts/counter.h"

atomic_uint pf_own_watched;

static struct pf_own *watched;
static atomic_uint holder;

/* A list that a thread of the parent was changing at a fork has all its links in one direction: this makes the others. */
static void lock(void)
{
	if (pf_lock(&holder, PF_LOCK_SPIN))
		for (struct pf_own **at = &watched; *at; at = &(*at)->next)
			(*at)->link = at;
}

static void unlock(void)
{
	pf_unlock(&holder);
}

/* --- watched events ------------------------------------------------------------------------- */

int pf_own_watch(struct pf_counter *c, unsigned calls, int at_exit)
{
	struct pf_own *w = &c->own;
	uint64_t id;
	int r;

	if (w->link)
		return 0;
	r = pf_sys->ioctl(c->fd, PF_IOC_ID, &id);
	if (r < 0)
		return r;
	lock();
	*w = (struct pf_own){watched, &watched, c, .id = id, .owner = pf_thread_token(), .calls = (uint8_t)calls,
			     .at_exit = at_exit != 0};
	if (w->next)
		w->next->link = &w->next;
	watched = w;
	unlock();
	atomic_fetch_add(&pf_own_watched, 1);
	return 0;
}

void pf_own_forget(struct pf_counter *c)
{
	struct pf_own *w = &c->own;

	if (!w->link)
		return;
	atomic_fetch_sub(&pf_own_watched, 1);
	lock();
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	w->link = NULL;
	unlock();
}

void pf_own_filter(struct pf_counter *c)
{
	struct pf_own *w = &c->own;

	w->filter = w->calls >> PF_OWN_IOCTL & 1 ? PF_OWN_UNKNOWN : PF_OWN_REFUSES;
	w->seen = 0;
}

void pf_own_reset_event(struct pf_counter *c)
{
	c->own.count = 0;
}

/* The event that enables and disables it: the leader of its group, as long as that is open. */
static struct pf_counter *leader_of(const struct pf_own *w)
{
	struct pf_counter *leader = w->counter->leader;

	return leader && leader->fd >= 0 ? leader : w->counter;
}

void pf_own_reset_group(const struct pf_counter *leader)
{
	if (!pf_own_any())
		return;
	lock();
	for (struct pf_own *w = watched; w; w = w->next)
		if (leader_of(w) == leader)
			w->count = 0;
	unlock();
}

static int is_on(const struct pf_own *w)
{
	const int on = pf_counter_state(w->counter) & PF_COUNTER_ON;
	const struct pf_counter *leader = leader_of(w);

	return on && leader->state & PF_COUNTER_ON && !leader->held;
}

/* --- calls ----------------------------------------------------------------------------------- */

/* A call of this thread has passed the tracepoints of its begin, or of its return. An event with a filter is disabled during our
 * calls; so it can only count the ioctls that disable or enable another event. */
static void add(uint32_t me, enum pf_own_call call, int at_exit)
{
	for (struct pf_own *w = watched; w; w = w->next) {
		if (w->owner != me || w->at_exit != at_exit || !(w->calls >> call & 1) || !is_on(w))
			continue;
		if (w->filter == PF_OWN_UNKNOWN)
			w->seen++;
		else if (w->filter != PF_OWN_REFUSES)
			w->count++;
	}
}

static void hold(uint32_t me, struct pf_counter *leader, int stop)
{
	add(me, PF_OWN_IOCTL, 0);
	pf_sys->ioctl(leader->fd, stop ? PF_IOC_DISABLE : PF_IOC_ENABLE, NULL);
	leader->held = (uint8_t)stop;
	add(me, PF_OWN_IOCTL, 1);
}

/* Whether the event's filter can distinguish descriptors. Such an event counts only the ioctls of its own descriptor: it is
 * disabled first and enabled last. */
static int filters_descriptors(const struct pf_own *w)
{
	return w->calls == 1u << PF_OWN_IOCTL && !w->at_exit;
}

static void stop_filtered(uint32_t me)
{
	for (int by_descriptor = 1; by_descriptor >= 0; by_descriptor--)
		for (struct pf_own *w = watched; w; w = w->next)
			if (w->owner == me && w->filter && filters_descriptors(w) == by_descriptor && is_on(w))
				hold(me, leader_of(w), 1);
}

static void resume_filtered(uint32_t me)
{
	for (int by_descriptor = 0; by_descriptor <= 1; by_descriptor++)
		for (struct pf_own *w = watched; w; w = w->next)
			if (w->owner == me && w->filter && filters_descriptors(w) == by_descriptor && leader_of(w)->held)
				hold(me, leader_of(w), 0);
}

/* The value of an event; 0 where its group's values have no ids. */
static uint64_t value_of(const struct pf_own *w)
{
	uint64_t words[512];
	struct pf_reading rd;
	ssize_t n;

	n = pf_counter_read(w->counter, words, sizeof words / sizeof *words);
	if (n <= 0 || pf_read_decode(w->counter->format, words, (size_t)n, &rd) < 0)
		return 0;
	for (uint64_t i = 0; i < rd.nr; i++) {
		const uint64_t *v = rd.values + i * rd.stride;

		if (rd.nr == 1 || (rd.id_at && v[rd.id_at] == w->id))
			return v[0];
	}
	return 0;
}

/* The value of an event that is disabled. */
static uint64_t value_at_rest(const struct pf_own *w)
{
	uint64_t v;

	add(w->owner, PF_OWN_READ, 0);
	v = value_of(w);
	add(w->owner, PF_OWN_READ, 1);
	return v;
}

/* Find out whether the filters of the disabled events count these ioctls: enable the events, disable them again, and compare. */
static void try_filters(uint32_t me)
{
	unsigned unknown = 0;

	for (struct pf_own *w = watched; w; w = w->next)
		if (w->owner == me && w->filter == PF_OWN_UNKNOWN && leader_of(w)->held && w->counter->state & PF_COUNTER_ON) {
			w->before = value_at_rest(w);
			unknown++;
		}
	if (!unknown)
		return;
	resume_filtered(me);
	stop_filtered(me);
	for (struct pf_own *w = watched; w; w = w->next)
		if (w->owner == me && w->filter == PF_OWN_UNKNOWN && leader_of(w)->held && w->counter->state & PF_COUNTER_ON) {
			w->filter = value_at_rest(w) == w->before ? PF_OWN_REFUSES : PF_OWN_ACCEPTS;
			w->count += w->filter == PF_OWN_ACCEPTS ? w->seen : 0;
		}
}

static void enter(uint32_t me, enum pf_own_call call)
{
	stop_filtered(me);
	try_filters(me);
	add(me, call, 0);
}

static void leave(uint32_t me, enum pf_own_call call)
{
	add(me, call, 1);
	resume_filtered(me);
}

void pf_own_enter_watched(enum pf_own_call call)
{
	lock();
	enter(pf_thread_token(), call);
	unlock();
}

void pf_own_exit_watched(enum pf_own_call call)
{
	lock();
	leave(pf_thread_token(), call);
	unlock();
}

/* An enabled event is read at the begin and at the end of a section; then its count is set so that its value seems unchanged. */
int pf_own_section(int begin)
{
	uint32_t me = pf_thread_token();
	int any = 0;

	if (!pf_own_any())
		return 0;
	lock();
	for (struct pf_own *w = watched; w; w = w->next) {
		if (w->owner != me || (w->sections == 0 && !(begin && is_on(w))))
			continue;
		any = 1;
		enter(me, PF_OWN_READ);
		if (begin && w->sections++ == 0)
			w->kept = value_of(w) - w->count;
		else if (!begin && --w->sections == 0)
			w->count = value_of(w) - w->kept;
		leave(me, PF_OWN_READ);
	}
	unlock();
	return any;
}

ssize_t pf_own_read_watched(int fd, uint64_t *words, size_t size, struct pf_own_words at)
{
	ssize_t got;

	pf_own_enter_watched(PF_OWN_READ);
	got = pf_sys->read(fd, words, size);
	if (got > 0) {
		lock();
		for (const struct pf_own *w = watched; w; w = w->next)
			for (size_t i = 0; at.id + i < (size_t)got / sizeof *words; i += at.stride)
				if (words[at.id + i] == w->id)
					words[at.value + i] -= w->count;
		unlock();
	}
	pf_own_exit_watched(PF_OWN_READ);
	return got;
}

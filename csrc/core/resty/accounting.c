/* Requests and their turns. Their counts are in resty/accounting_sums.c, the reports of their ends in resty/accounting_ends.c. */
#include "core/resty/accounting_state.h"

#include <errno.h>

#include "core/base/clock.h"
#include "core/profile/sampler.h"

/* The present time, by the clock of the readings. */
static uint64_t clock_now(const struct pf_accounting *a)
{
	return a->meter->wall_ns + pf_wall_ns() - a->meter->since_ns;
}

/* --- the open turn ---------------------------------------------------------------------------- */

/* Pass a reading to the waits. */
static void read_waits(struct pf_accounting *a)
{
	uint64_t now = a->now->v[0], time = now - a->mark[0];

	a->waits->clock = (double)now;
	if (a->account != PF_ACCOUNTING_NONE)
		pf_waits_ran(a->waits, a->account, now);
	else
		pf_waits_between(a->waits, now, time, a->cpu ? a->now->v[a->cpu] - a->mark[a->cpu] : 0);
}

/* Report a turn that ended, or was read, after more time than the watcher's limit. now: the counters, if it is counted. */
static void report_turn(const struct pf_accounting *a, uint64_t ns, const uint64_t *now)
{
	static const char name[] = "request_uri";
	pf_accounting_get_variable *get = (pf_accounting_get_variable *)(uintptr_t)a->get_variable;
	char room[sizeof name];
	const char *uri = NULL, *error;
	size_t size = 0;

	if (!get || get((void *)(uintptr_t)a->owner, name, sizeof name - 1, room, 0, &uri, &size, &error) != 0 || !uri)
		size = 0;
	pf_watch_ended(a->watch, ns, now, a->mark, uri, size);
}

/* Read the counters: what was counted since the last reading is added to the account of the open turn, or to `unattributed`. */
static int read_counters(struct pf_accounting *a)
{
	uint64_t *to = a->account == PF_ACCOUNTING_NONE ? a->unattributed : pf_accounting_sums_of(a, a->account, a->phase);
	int r = pf_meter_mark(a->meter, a->now);

	if (r < 0)
		return r;
	if (a->account != PF_ACCOUNTING_NONE)
		a->account_of[a->account].used |= (uint64_t)1 << (a->phase - 1);
	if (a->waits)
		read_waits(a);
	if (a->watch && a->account != PF_ACCOUNTING_NONE && a->now->v[0] - a->mark[0] > a->watch->limit)
		report_turn(a, a->now->v[0] - a->mark[0], a->now->v);
	for (uint32_t i = 0; i < a->words; i++) {
		to[i] += a->now->v[i] - a->mark[i];
		a->mark[i] = a->now->v[i];
	}
	return 0;
}

/* The route of the open turn. A turn that is only watched, as every turn of a request that is not counted, has none. */
static uint32_t route_of_turn(const struct pf_accounting *a)
{
	return a->account == PF_ACCOUNTING_NONE ? PF_WATCH_UNCOUNTED : a->account_of[a->account].route;
}

/* Samples of a profile have the zone of the turn's route. */
static void enter_zone(const struct pf_accounting *a)
{
	uint32_t route = route_of_turn(a);

	pf_zone_set(route < a->zones ? a->zone_of[route] : 0);
}

/* The request of the open turn has another route now. */
static void reroute_turn(const struct pf_accounting *a)
{
	if (a->zone_of)
		enter_zone(a);
	if (a->watch)
		atomic_store_explicit(&a->watch->route, route_of_turn(a), memory_order_relaxed);
}

/* When the open turn began. */
static uint64_t beginning(const struct pf_accounting *a)
{
	if (!a->owner)
		return 0;
	return a->account == PF_ACCOUNTING_NONE ? pf_wall_ns() : a->mark[0] - a->meter->wall_ns + a->meter->since_ns;
}

static void take_turn(struct pf_accounting *a, const void *owner, uint32_t account, uint32_t phase)
{
	a->owner = owner;
	a->account = account;
	a->phase = phase;
	a->outer = 0;
	a->serial++;
	if (a->zone_of)
		enter_zone(a);
	if (a->watch)
		pf_watch_turn(a->watch, a->serial, route_of_turn(a), phase, beginning(a));
}

static void end_turn(struct pf_accounting *a)
{
	take_turn(a, NULL, PF_ACCOUNTING_NONE, 0);
}

/* Close a turn that was never ended. Its counts since the last reading cannot be separated from those of the code that ran after
 * it, so they go to `unattributed`. */
static void abandon_turn(struct pf_accounting *a)
{
	if (a->account != PF_ACCOUNTING_NONE)
		a->abandoned++;
	end_turn(a);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Close the account of the request that ended last; it has had no later phase. */
static void close_ended(struct pf_accounting *a)
{
	if (a->ended)
		pf_accounting_finish(a, a->ended);
}

typedef int get(void *request);

/* Read a property of a request by calling a function of the host. */
static uint32_t ask(const void *function, const void *request)
{
	int v = function ? ((get *)(uintptr_t)function)((void *)(uintptr_t)request) : 0;

	return v > 0 ? (uint32_t)v : 0;
}

/* Whether this is the request that ended last. */
static int is_ending(const struct pf_accounting *a, const void *request, uint32_t phase)
{
	if (a->ended != request || !a->add_end)
		return a->ended == request && phase == a->after;
	return pf_accounting_has_mark(a, request);
}

/* counted: whether the request is counted; if not, its waits are not counted either. */
static void note_end(struct pf_accounting *a, const void *request, int counted, void *data)
{
	uint32_t method;

	a->ended = request;
	pf_accounting_mark(a, request, data);
	if (!a->waits || !counted)
		return;
	method = ask(a->get_method, request);
	a->ended_at = clock_now(a);
	if (a->account == PF_ACCOUNTING_NONE && a->ended_at - a->mark[0] > PF_WAITS_NO_SLEEP)
		read_counters(a); /* the thread may have slept since the last turn */
	a->status = ask(a->get_status, request) & 0xffff;
	a->method = method ? (uint32_t)__builtin_ctz(method) : 0;
}

void pf_accounting_end(struct pf_accounting *a, const void *request, void *data)
{
	const struct pf_accounting_entry *e;
	int counted;

	close_ended(a);
	e = pf_accounting_find(a, request);
	if (!e)
		return;
	counted = e->account != PF_ACCOUNTING_NONE;
	if (a->owner == request || (counted && a->account == e->account))
		abandon_turn(a);
	note_end(a, request, counted, data);
}

/* Let a request share the account of a known one. */
static int share_account(struct pf_accounting *a, const void *request, const void *parent, int32_t route)
{
	const struct pf_accounting_entry *e = pf_accounting_find(a, parent);
	uint32_t account;

	if (!e)
		return -ENOENT;
	account = e->account;
	if (account == PF_ACCOUNTING_NONE)
		return 0; /* the end of that request would not remove the other address */
	if (route >= 0)
		a->account_of[account].route = (uint32_t)route;
	if (a->account == account)
		reroute_turn(a);
	if (request == parent)
		return 1;
	pf_accounting_finish(a, request);
	if (pf_accounting_room(a, 0) < 0)
		return -ENOMEM;
	pf_accounting_add(a, request, account, 1);
	return 1;
}

int pf_accounting_admit(struct pf_accounting *a, const void *request, const void *parent, int32_t route, int ended, double start)
{
	uint32_t account = PF_ACCOUNTING_NONE;
	int counted = route >= 0;

	if (counted && (uint32_t)route >= a->routes)
		return -EINVAL;
	if (parent)
		return share_account(a, request, parent, route);
	close_ended(a);
	pf_accounting_finish(a, request);
	if (pf_accounting_room(a, counted) < 0 || (a->add_end && !ended && pf_accounting_ask_for_end(a, request) < 0))
		return -ENOMEM;
	if (counted) {
		account = pf_accounting_take_account(a, (uint32_t)route);
		a->account_of[account].start = start;
		if (a->waits)
			pf_waits_begin(a->waits, account, clock_now(a));
	}
	pf_accounting_add(a, request, account, 0);
	if (ended)
		note_end(a, request, counted, NULL);
	return 0;
}

/* --- turns ----------------------------------------------------------------------------------- */

/* The request has waited for the host until this phase, which begins now. */
static void wait_until(struct pf_accounting *a, uint32_t account, uint32_t phase)
{
	uint64_t last = a->waits->of[account].last;

	pf_waits_resume(a->waits, account, a->account_of[account].route, phase, phase, last, a->mark[0]);
}

static int has_turn(const struct pf_accounting *a, const void *request)
{
	return request && a->owner == request;
}

/* Whether the turns of a request are counted, or at least watched. */
static int has_turns(const struct pf_accounting *a, const struct pf_accounting_entry *e)
{
	return e->account != PF_ACCOUNTING_NONE || a->watch;
}

/* The end of a turn that is only watched. */
static void finish_watched(const struct pf_accounting *a)
{
	uint64_t ns;

	if (atomic_load_explicit(&a->watch->half, memory_order_relaxed) != a->serial)
		return;
	ns = pf_wall_ns() - atomic_load_explicit(&a->watch->began, memory_order_relaxed);
	if (ns > a->watch->limit)
		report_turn(a, ns, NULL);
}

/* A turn begins, perhaps within another one of the same request, which ends for the watcher. */
static int begin_turn(struct pf_accounting *a, const void *request, uint32_t account, uint32_t phase)
{
	int r = 0;

	if (account != PF_ACCOUNTING_NONE)
		r = read_counters(a);
	else if (a->owner)
		finish_watched(a);
	if (r == 0)
		take_turn(a, request, account, phase);
	return r;
}

int pf_accounting_enter(struct pf_accounting *a, const void *request, uint32_t phase)
{
	const struct pf_accounting_entry *e;
	uint32_t outer = 0, anew = phase & PF_ACCOUNTING_ANEW;
	int r;

	phase &= ~(uint32_t)PF_ACCOUNTING_ANEW;
	if (a->ended && !is_ending(a, request, phase))
		close_ended(a);
	if (phase < 1 || phase > a->phases)
		return -EINVAL;
	e = pf_accounting_find(a, request);
	if (!e && phase == a->after && pf_accounting_has_mark(a, request))
		return 0;
	if (!e)
		e = pf_accounting_pass_over(a, request, phase);
	if (!e)
		return -ENOENT;
	if (!has_turns(a, e))
		return 0;
	if (has_turn(a, request)) {
		if (!anew && (phase < a->nested || a->outer))
			return -EBUSY;
		if (phase >= a->nested)
			outer = a->outer ? a->outer : a->phase;
	}
	if (!outer || a->outer)
		abandon_turn(a);
	r = begin_turn(a, request, e->account, phase);
	if (r < 0)
		return r;
	a->outer = outer;
	if (a->waits && e->account != PF_ACCOUNTING_NONE && !outer)
		wait_until(a, e->account, phase);
	return (int)outer + 1;
}

/* End the open turn. If it does not run within the phase `outer`, it is a nested one that an error has interrupted. */
static int finish_turn(struct pf_accounting *a, uint32_t outer)
{
	int counted = a->account != PF_ACCOUNTING_NONE, r = 0;

	if (a->outer != outer)
		abandon_turn(a);
	if (counted)
		r = read_counters(a);
	else if (a->owner && a->watch)
		finish_watched(a);
	end_turn(a);
	return r;
}

int pf_accounting_leave(struct pf_accounting *a, const void *request)
{
	uint32_t phase = a->outer ? a->outer : a->phase;
	int r;

	if (!has_turn(a, request))
		return 0;
	if (a->account == PF_ACCOUNTING_NONE)
		phase |= PF_ACCOUNTING_WATCHED;
	r = finish_turn(a, 0);
	return r < 0 ? r : (int)phase;
}

int pf_accounting_exit(struct pf_accounting *a, const void *request, uint32_t outer)
{
	uint32_t account = a->account;
	int r;

	if (!has_turn(a, request))
		return 0;
	r = finish_turn(a, outer);
	if (r < 0)
		return r;
	if (outer)
		take_turn(a, request, account, outer);
	return 1;
}

int pf_accounting_back(struct pf_accounting *a, const void *request, uint32_t phase, int keep, uint32_t site, double from)
{
	struct pf_accounting_entry *e;
	int r;

	if (keep && has_turn(a, request))
		return 0;
	e = pf_accounting_find(a, request);
	phase &= ~(uint32_t)PF_ACCOUNTING_WATCHED;
	if (!e || !has_turns(a, e) || phase < 1 || phase > a->phases)
		return 0;
	if (a->ended && a->ended != request)
		close_ended(a); /* the reading below is after its end */
	abandon_turn(a);
	r = begin_turn(a, request, e->account, phase);
	if (r < 0 || !a->waits || e->account == PF_ACCOUNTING_NONE)
		return r;
	if (site)
		pf_waits_resume(a->waits, e->account, a->account_of[e->account].route, site, phase, (uint64_t)from, a->mark[0]);
	else
		wait_until(a, e->account, phase);
	return 0;
}

/* --- results --------------------------------------------------------------------------------- */

/* Remove an alias, but not its account. */
static void forget_alias(struct pf_accounting *a, struct pf_accounting_entry *e)
{
	uint32_t i = (uint32_t)(e - a->entry), *at = &a->account_of[e->account].entries;

	if (a->account == e->account && a->owner == e->request)
		abandon_turn(a);
	while (*at != i)
		at = &a->entry[*at].sibling;
	*at = e->sibling;
	pf_accounting_remove(a, i);
}

int pf_accounting_finish(struct pf_accounting *a, const void *request)
{
	struct pf_accounting_entry *e = pf_accounting_find(a, request);
	int ended = a->ended == request;
	uint32_t account;

	if (ended)
		a->ended = NULL;
	if (!e)
		return -ENOENT;
	account = e->account;
	if (account == PF_ACCOUNTING_NONE) {
		if (a->owner == request)
			abandon_turn(a);
		pf_accounting_remove(a, (uint32_t)(e - a->entry));
		return 0;
	}
	if (e->alias) {
		forget_alias(a, e);
		return -ENOENT;
	}
	if (a->account == account)
		abandon_turn(a);
	for (uint32_t i = a->account_of[account].entries, next; i != PF_ACCOUNTING_NONE; i = next) {
		next = a->entry[i].sibling;
		pf_accounting_remove(a, i);
	}
	if (a->waits)
		pf_waits_end(a->waits, account, a->account_of[account].route, a->phases + 1, ended ? a->status : 0,
			     ended ? a->method : 0, ended ? a->ended_at : clock_now(a));
	return (int)pf_accounting_close_account(a, account) + 1;
}

int pf_accounting_settle(struct pf_accounting *a, const void *request)
{
	const struct pf_accounting_entry *e = NULL;
	int r;

	if (a->ended != request)
		close_ended(a);
	if (request) {
		e = pf_accounting_find(a, request);
		if (!e || e->account == PF_ACCOUNTING_NONE)
			return 0;
	}
	r = read_counters(a);
	for (uint32_t i = 0; i < a->words; i++)
		a->whole[i] = a->mark[i] - a->zero[i];
	pf_accounting_sum_up(a, e ? e->account : PF_ACCOUNTING_NONE);
	return r < 0 ? r : 1;
}

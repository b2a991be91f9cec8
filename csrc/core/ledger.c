#include "ledger_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- places ---------------------------------------------------------------------------------- */

static uint64_t *account_place(const struct pf_ledger *l, uint32_t account, uint32_t phase)
{
	return l->sums + ((size_t)account * l->phases + phase - 1) * l->words;
}

static uint64_t *route_place(const struct pf_ledger *l, uint32_t route, uint32_t phase)
{
	return l->route_sums + ((size_t)route * l->phases + phase - 1) * l->words;
}

/* Bring the account up to now: what was counted since the last reading goes to whose turn it is. */
static int settle(struct pf_ledger *l)
{
	uint64_t *to = l->account == PF_LEDGER_NONE ? l->nobody : account_place(l, l->account, l->phase);
	int r = pf_meter_snap(l->meter, l->now);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < l->words; i++) {
		to[i] += l->now->v[i] - l->mark[i];
		l->mark[i] = l->now->v[i];
	}
	return 0;
}

static void take_turn(struct pf_ledger *l, const void *owner, uint32_t account, uint32_t phase)
{
	l->owner = owner;
	l->account = account;
	l->phase = phase;
}

static void end_turn(struct pf_ledger *l)
{
	take_turn(l, NULL, PF_LEDGER_NONE, 0);
}

/* Whoever's turn is open did not end it: what it counted since cannot be told from what ran after it. */
static void abandon_turn(struct pf_ledger *l)
{
	if (l->account != PF_LEDGER_NONE)
		l->abandoned++;
	end_turn(l);
}

/* --- requests --------------------------------------------------------------------------------- */

int pf_ledger_admit(struct pf_ledger *l, const void *request, double start, int32_t route)
{
	int counted = route >= 0;

	pf_ledger_finish(l, request);
	if (counted && (uint32_t)route >= l->routes)
		return -EINVAL;
	if (pf_ledger_room(l, counted) < 0)
		return -ENOMEM;
	pf_ledger_add(l, request, start, counted ? pf_ledger_take_account(l, (uint32_t)route) : PF_LEDGER_NONE, 0);
	return 0;
}

int pf_ledger_alias(struct pf_ledger *l, const void *request, double start, const void *known)
{
	const struct pf_ledger_entry *e = pf_ledger_find(l, known);
	struct pf_ledger_entry *old = pf_ledger_find(l, request);
	uint32_t account;

	if (!e || request == known)
		return -ENOENT;
	account = e->account;
	if (old && old->account == account) { /* one subrequest of it after another */
		old->start = start;
		old->phase = 0;
		return 0;
	}
	pf_ledger_finish(l, request);
	if (pf_ledger_room(l, 0) < 0)
		return -ENOMEM;
	pf_ledger_add(l, request, start, account, 1);
	return 0;
}

int pf_ledger_same(struct pf_ledger *l, const void *request, double start)
{
	struct pf_ledger_entry *e = pf_ledger_find(l, request);

	if (!e || e->start < start || e->start > start)
		return 0;
	e->phase = 0;
	return 1;
}

/* --- turns ----------------------------------------------------------------------------------- */

int pf_ledger_enter(struct pf_ledger *l, const void *request, uint32_t phase)
{
	struct pf_ledger_entry *e = pf_ledger_find(l, request);
	uint32_t outer = 0;
	int r;

	if (!e)
		return -ENOENT;
	if (phase < 1 || phase > l->phases)
		return -EINVAL;
	if (phase <= e->phase && phase < l->repeats)
		return -EAGAIN;
	e->phase = phase;
	if (e->account == PF_LEDGER_NONE)
		return 0;
	if (l->account == e->account && l->owner == request && phase >= l->repeats)
		outer = l->phase;
	else
		abandon_turn(l);
	r = settle(l);
	if (r < 0)
		return r;
	take_turn(l, request, e->account, phase);
	return (int)outer + 1;
}

int pf_ledger_turn(const struct pf_ledger *l, const void *request)
{
	return l->account != PF_LEDGER_NONE && l->owner == request ? (int)l->phase : 0;
}

int pf_ledger_leave(struct pf_ledger *l, const void *request)
{
	int phase = pf_ledger_turn(l, request), r;

	if (phase == 0)
		return 0;
	r = settle(l);
	end_turn(l);
	return r < 0 ? r : phase;
}

int pf_ledger_exit(struct pf_ledger *l, const void *request, uint32_t outer)
{
	uint32_t account = l->account;
	int r = pf_ledger_leave(l, request);

	if (r > 0 && outer != 0)
		take_turn(l, request, account, outer);
	return r;
}

int pf_ledger_back(struct pf_ledger *l, const void *request, uint32_t phase, int keep)
{
	struct pf_ledger_entry *e;
	int r;

	if (keep && pf_ledger_turn(l, request))
		return 0;
	e = pf_ledger_find(l, request);
	if (!e || e->account == PF_LEDGER_NONE || phase < 1 || phase > l->phases)
		return 0;
	abandon_turn(l);
	r = settle(l);
	if (r == 0)
		take_turn(l, request, e->account, phase);
	return r;
}

/* --- results --------------------------------------------------------------------------------- */

static void add_account(struct pf_ledger *l, uint32_t account, uint64_t *sum)
{
	for (uint32_t phase = 1; phase <= l->phases; phase++) {
		const uint64_t *from = account_place(l, account, phase);

		for (uint32_t i = 0; i < l->words; i++)
			sum[i] += from[i];
	}
}

static unsigned bits(uint64_t v)
{
	return v == 0 ? 0 : 64 - (unsigned)__builtin_clzll(v);
}

/* Value k of an account's sum: 0 is wall time; an event that shared its counter is scaled to the whole time. */
static uint64_t value(const struct pf_ledger *l, const uint64_t *sum, uint32_t k)
{
	const struct pf_meter *m = l->meter;
	const uint64_t *times = sum + 1;
	uint32_t first = 0;

	if (k == 0)
		return sum[0];
	for (uint32_t g = 0; g < m->ngroups && k - 1 >= first + m->group[g].n; g++) {
		first += m->group[g].n;
		times += 2;
	}
	uint64_t raw = sum[l->words - l->values + k], enabled = times[0], running = times[1];

	if (running == enabled || running == 0)
		return raw;
	return (uint64_t)((double)raw / (double)running * (double)enabled + 0.5);
}

static uint32_t close_account(struct pf_ledger *l, uint32_t account)
{
	uint32_t route = l->account_of[account].route;

	memset(l->last, 0, l->words * sizeof *l->last);
	add_account(l, account, l->last);
	for (uint32_t phase = 1; phase <= l->phases; phase++) {
		uint64_t *from = account_place(l, account, phase), *to = route_place(l, route, phase);

		for (uint32_t i = 0; i < l->words; i++) {
			to[i] += from[i];
			from[i] = 0;
		}
	}
	for (uint32_t k = 0; k < l->values; k++)
		l->histogram[((size_t)route * l->values + k) * PF_LEDGER_BUCKETS + bits(value(l, l->last, k))]++;
	l->requests[route]++;
	pf_ledger_free_account(l, account);
	return route;
}

/* An alias goes, its account stays. */
static void forget_alias(struct pf_ledger *l, struct pf_ledger_entry *e)
{
	uint32_t i = (uint32_t)(e - l->entry), *at = &l->account_of[e->account].entries;

	if (l->account == e->account && l->owner == e->request)
		abandon_turn(l);
	while (*at != i)
		at = &l->entry[*at].sibling;
	*at = e->sibling;
	pf_ledger_remove(l, i);
}

int pf_ledger_finish(struct pf_ledger *l, const void *request)
{
	struct pf_ledger_entry *e = pf_ledger_find(l, request);
	uint32_t account;

	if (!e)
		return 0;
	account = e->account;
	if (account == PF_LEDGER_NONE) {
		pf_ledger_remove(l, (uint32_t)(e - l->entry));
		return 0;
	}
	if (e->alias) {
		forget_alias(l, e);
		return 0;
	}
	if (l->account == account)
		abandon_turn(l);
	for (uint32_t i = l->account_of[account].entries, next; i != PF_LEDGER_NONE; i = next) {
		next = l->entry[i].sibling;
		pf_ledger_remove(l, i);
	}
	return (int)close_account(l, account) + 1;
}

int pf_ledger_reroute(struct pf_ledger *l, const void *request, uint32_t route)
{
	struct pf_ledger_entry *e = pf_ledger_find(l, request);

	if (!e || e->account == PF_LEDGER_NONE || route >= l->routes)
		return 0;
	l->account_of[e->account].route = route;
	return 1;
}

int pf_ledger_settle(struct pf_ledger *l)
{
	return settle(l);
}

int pf_ledger_peek(struct pf_ledger *l, const void *request)
{
	struct pf_ledger_entry *e = pf_ledger_find(l, request);
	int r;

	if (!e || e->account == PF_LEDGER_NONE)
		return 0;
	r = settle(l);
	if (r < 0)
		return r;
	memset(l->last, 0, l->words * sizeof *l->last);
	add_account(l, e->account, l->last);
	return 1;
}

void pf_ledger_pending(struct pf_ledger *l)
{
	memset(l->last, 0, l->words * sizeof *l->last);
	for (uint32_t i = 0; i < l->accounts; i++) /* the free ones hold zeros */
		add_account(l, i, l->last);
}

const uint64_t *pf_ledger_whole(struct pf_ledger *l)
{
	for (uint32_t i = 0; i < l->words; i++)
		l->whole[i] = l->mark[i] - l->zero[i];
	return l->whole;
}

const uint64_t *pf_ledger_last(const struct pf_ledger *l)
{
	return l->last;
}

const uint64_t *pf_ledger_nobody(const struct pf_ledger *l)
{
	return l->nobody;
}

uint64_t pf_ledger_abandoned(const struct pf_ledger *l)
{
	return l->abandoned;
}

uint32_t pf_ledger_known(const struct pf_ledger *l)
{
	return l->known;
}

uint32_t pf_ledger_words(const struct pf_ledger *l)
{
	return l->words;
}

/* --- routes ---------------------------------------------------------------------------------- */

/* One row more of a table, zeros. */
static int grow_rows(uint64_t **table, uint32_t rows, size_t width)
{
	uint64_t *t = realloc(*table, (rows + (size_t)1) * width * sizeof *t);

	if (!t)
		return -ENOMEM;
	memset(t + rows * width, 0, width * sizeof *t);
	*table = t;
	return 0;
}

int pf_ledger_route(struct pf_ledger *l)
{
	if (grow_rows(&l->route_sums, l->routes, (size_t)l->phases * l->words) < 0 ||
	    grow_rows(&l->histogram, l->routes, (size_t)l->values * PF_LEDGER_BUCKETS) < 0 ||
	    grow_rows(&l->requests, l->routes, 1) < 0)
		return -ENOMEM;
	return (int)l->routes++;
}

const uint64_t *pf_ledger_sums(const struct pf_ledger *l, uint32_t route, uint32_t phase)
{
	return route < l->routes && phase >= 1 && phase <= l->phases ? route_place(l, route, phase) : NULL;
}

uint64_t pf_ledger_requests(const struct pf_ledger *l, uint32_t route)
{
	return route < l->routes ? l->requests[route] : 0;
}

const uint64_t *pf_ledger_histogram(const struct pf_ledger *l, uint32_t route, uint32_t k)
{
	if (route >= l->routes || k >= l->values)
		return NULL;
	return l->histogram + ((size_t)route * l->values + k) * PF_LEDGER_BUCKETS;
}

/* --- to open and close ----------------------------------------------------------------------- */

int pf_ledger_open(struct pf_ledger **out, struct pf_meter *meter, uint32_t phases, uint32_t repeats)
{
	struct pf_ledger *l = calloc(1, sizeof *l);
	uint32_t groups = meter->ngroups ? meter->ngroups : 1;
	uint64_t **blocks[] = {&l->mark, &l->zero, &l->nobody, &l->last, &l->whole};
	int r;

	if (!l)
		return -ENOMEM;
	l->meter = meter;
	l->phases = phases;
	l->repeats = repeats;
	l->values = 1 + meter->nvalues;
	l->words = 1 + 2 * groups + meter->nvalues;
	l->free_entry = l->free_account = PF_LEDGER_NONE;
	end_turn(l);
	l->now = calloc(1, sizeof *l->now + pf_meter_words(meter) * sizeof *l->now->v);
	r = l->now ? pf_ledger_room(l, 1) : -ENOMEM;
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
		*blocks[i] = calloc(l->words, sizeof **blocks[i]);
		if (!*blocks[i])
			r = -ENOMEM;
	}
	if (r == 0)
		r = pf_meter_begin(meter, l->now); /* which enables it */
	if (r == 0)
		r = pf_meter_snap(meter, l->now);
	if (r < 0) {
		pf_ledger_close(l);
		return r;
	}
	memcpy(l->mark, l->now->v, l->words * sizeof *l->mark);
	memcpy(l->zero, l->now->v, l->words * sizeof *l->zero);
	*out = l;
	return 0;
}

void pf_ledger_close(struct pf_ledger *l)
{
	if (!l)
		return;
	free(l->now);
	free(l->mark);
	free(l->zero);
	free(l->nobody);
	free(l->last);
	free(l->whole);
	free(l->entry);
	free(l->bucket);
	free(l->account_of);
	free(l->sums);
	free(l->route_sums);
	free(l->histogram);
	free(l->requests);
	free(l);
}

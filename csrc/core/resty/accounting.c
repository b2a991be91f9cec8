/* Requests and their turns. Their counts are in resty/accounting_sums.c. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- the open turn ---------------------------------------------------------------------------- */

/* Read the counters: what was counted since the last reading is added to the account of the open turn, or to `nobody`. */
static int read_counters(struct pf_ledger *l)
{
	uint64_t *to = l->account == PF_LEDGER_NONE ? l->nobody : pf_ledger_account_place(l, l->account, l->phase);
	int r = pf_meter_mark(l->meter, l->now);

	if (r < 0)
		return r;
	if (l->account != PF_LEDGER_NONE)
		l->account_of[l->account].used |= (uint64_t)1 << (l->phase - 1);
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
	l->serial++;
}

static void end_turn(struct pf_ledger *l)
{
	take_turn(l, NULL, PF_LEDGER_NONE, 0);
}

/* A turn that was not ended is still open. What it counted since the last reading cannot be told from what ran after it, and
 * goes to `nobody`. */
static void abandon_turn(struct pf_ledger *l)
{
	if (l->account != PF_LEDGER_NONE)
		l->abandoned++;
	end_turn(l);
}

/* --- requests --------------------------------------------------------------------------------- */

/* Close the account of the request that ended last, since what comes now is not that request's last phase. */
static void close_ended(struct pf_ledger *l)
{
	if (l->ended)
		pf_ledger_finish(l, l->ended);
}

void pf_ledger_end(struct pf_ledger *l, const void *request)
{
	const struct pf_ledger_entry *e = pf_ledger_find(l, request);

	close_ended(l);
	if (!e)
		return;
	if (e->account != PF_LEDGER_NONE && l->account == e->account)
		abandon_turn(l);
	l->ended = request;
}

struct end {
	struct pf_ledger *ledger;
	const void *request;
};

static void on_end(void *data)
{
	const struct end *end = data;
	struct pf_ledger *l = end->ledger;

	l->ends--;
	if (l->meter)
		pf_ledger_end(l, end->request);
	else if (l->ends == 0)
		free(l);
}

/* Ask the host to call on_end when a request ends. */
static int ask_for_end(struct pf_ledger *l, const void *request)
{
	pf_ledger_add_end *add = (pf_ledger_add_end *)(uintptr_t)l->add_end;
	struct pf_ledger_end *e = add((void *)(uintptr_t)request, sizeof(struct end));

	if (!e)
		return -ENOMEM;
	*(struct end *)e->data = (struct end){l, request};
	e->handler = on_end;
	l->ends++;
	return 0;
}

/* Let a request share the account of a known one. */
static int share_account(struct pf_ledger *l, const void *request, const void *parent, int32_t route)
{
	const struct pf_ledger_entry *e = pf_ledger_find(l, parent);
	uint32_t account;

	if (!e)
		return -ENOENT;
	account = e->account;
	if (account == PF_LEDGER_NONE)
		return 0; /* the end of that request would not remove the other address */
	if (route >= 0)
		l->account_of[account].route = (uint32_t)route;
	if (request == parent)
		return 1;
	pf_ledger_finish(l, request);
	if (pf_ledger_room(l, 0) < 0)
		return -ENOMEM;
	pf_ledger_add(l, request, account, 1);
	return 1;
}

int pf_ledger_admit(struct pf_ledger *l, const void *request, const void *parent, int32_t route, int ended, double start)
{
	uint32_t account = PF_LEDGER_NONE;
	int counted = route >= 0;

	if (counted && (uint32_t)route >= l->routes)
		return -EINVAL;
	if (parent)
		return share_account(l, request, parent, route);
	close_ended(l);
	pf_ledger_finish(l, request);
	if (pf_ledger_room(l, counted) < 0 || (l->add_end && !ended && ask_for_end(l, request) < 0))
		return -ENOMEM;
	if (counted) {
		account = pf_ledger_take_account(l, (uint32_t)route);
		l->account_of[account].start = start;
	}
	pf_ledger_add(l, request, account, 0);
	if (ended)
		l->ended = request;
	return 0;
}

/* --- turns ----------------------------------------------------------------------------------- */

int pf_ledger_enter(struct pf_ledger *l, const void *request, uint32_t phase)
{
	const struct pf_ledger_entry *e;
	uint32_t outer = 0;
	int r;

	if (l->ended && (l->ended != request || phase != l->after))
		close_ended(l);
	e = pf_ledger_find(l, request);
	if (!e)
		return -ENOENT;
	if (phase < 1 || phase > l->phases)
		return -EINVAL;
	if (e->account == PF_LEDGER_NONE)
		return 0;
	if (l->account == e->account && l->owner == request && phase >= l->repeats)
		outer = l->phase;
	else
		abandon_turn(l);
	r = read_counters(l);
	if (r < 0)
		return r;
	take_turn(l, request, e->account, phase);
	return (int)outer + 1;
}

static int has_turn(const struct pf_ledger *l, const void *request)
{
	return l->account != PF_LEDGER_NONE && l->owner == request;
}

int pf_ledger_leave(struct pf_ledger *l, const void *request)
{
	uint32_t phase = l->phase;
	int r;

	if (!has_turn(l, request))
		return 0;
	r = read_counters(l);
	end_turn(l);
	return r < 0 ? r : (int)phase;
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

	if (keep && has_turn(l, request))
		return 0;
	e = pf_ledger_find(l, request);
	if (!e || e->account == PF_LEDGER_NONE || phase < 1 || phase > l->phases)
		return 0;
	abandon_turn(l);
	r = read_counters(l);
	if (r == 0)
		take_turn(l, request, e->account, phase);
	return r;
}

/* --- results --------------------------------------------------------------------------------- */

/* Remove an alias, but not its account. */
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

	if (l->ended == request)
		l->ended = NULL;
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
	return (int)pf_ledger_close_account(l, account) + 1;
}

int pf_ledger_settle(struct pf_ledger *l, const void *request)
{
	const struct pf_ledger_entry *e = NULL;
	int r;

	if (l->ended != request)
		close_ended(l);
	if (request) {
		e = pf_ledger_find(l, request);
		if (!e || e->account == PF_LEDGER_NONE)
			return 0;
	}
	r = read_counters(l);
	for (uint32_t i = 0; i < l->words; i++)
		l->whole[i] = l->mark[i] - l->zero[i];
	pf_ledger_sum_up(l, e ? e->account : PF_LEDGER_NONE);
	return r < 0 ? r : 1;
}

/* --- to open and close ----------------------------------------------------------------------- */

int pf_ledger_open(struct pf_ledger **out, struct pf_meter *meter, uint32_t phases, uint32_t repeats, uint32_t after)
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
	l->after = after;
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
		r = pf_meter_begin(meter, l->now); /* enables the meter */
	if (r == 0)
		r = pf_meter_mark(meter, l->now);
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
	l->meter = NULL;
	if (l->ends == 0)
		free(l);
}

/* The counts of accounts, of routes and of the whole worker. Closing an account adds it to its route. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- accounts -------------------------------------------------------------------------------- */

static void add_words(const struct pf_ledger *l, uint64_t *to, const uint64_t *from)
{
	for (uint32_t i = 0; i < l->words; i++)
		to[i] += from[i];
}

/* The phases of an account that hold counts, one after the other. */
static uint32_t next_phase(uint64_t *used)
{
	uint32_t phase = (uint32_t)__builtin_ffsll((long long)*used);

	*used &= *used - 1;
	return phase;
}

static void add_account(struct pf_ledger *l, uint32_t account, uint64_t *sum)
{
	uint64_t used = l->account_of[account].used;

	while (used)
		add_words(l, sum, pf_ledger_account_place(l, account, next_phase(&used)));
}

void pf_ledger_sum_up(struct pf_ledger *l, uint32_t account)
{
	memset(l->last, 0, l->words * sizeof *l->last);
	if (account != PF_LEDGER_NONE) {
		add_account(l, account, l->last);
		return;
	}
	for (uint32_t i = 0; i < l->accounts; i++) /* the free ones hold zeros */
		add_account(l, i, l->last);
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

uint32_t pf_ledger_close_account(struct pf_ledger *l, uint32_t account)
{
	uint32_t route = l->account_of[account].route;

	pf_ledger_sum_up(l, account);
	for (uint64_t used = l->account_of[account].used; used;) {
		uint32_t phase = next_phase(&used);
		uint64_t *from = pf_ledger_account_place(l, account, phase);

		add_words(l, pf_ledger_route_place(l, route, phase), from);
		memset(from, 0, l->words * sizeof *from);
	}
	l->account_of[account].used = 0;
	for (uint32_t k = 0; k < l->values; k++)
		l->histogram[((size_t)route * l->values + k) * PF_LEDGER_BUCKETS + bits(value(l, l->last, k))]++;
	l->requests[route]++;
	l->last_start = l->account_of[account].start;
	pf_ledger_free_account(l, account);
	return route;
}

/* --- routes ---------------------------------------------------------------------------------- */

/* Add a row of zeros to a table. */
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

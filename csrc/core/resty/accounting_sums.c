/* The counts of accounts, of routes and of the whole worker. Closing an account adds it to its route. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- accounts -------------------------------------------------------------------------------- */

static void add_words(const struct pf_accounting *a, uint64_t *to, const uint64_t *from)
{
	for (uint32_t i = 0; i < a->words; i++)
		to[i] += from[i];
}

/* The phases of an account that hold counts, one after the other. */
static uint32_t next_phase(uint64_t *used)
{
	uint32_t phase = (uint32_t)__builtin_ffsll((long long)*used);

	*used &= *used - 1;
	return phase;
}

static void add_account(struct pf_accounting *a, uint32_t account, uint64_t *sum)
{
	uint64_t used = a->account_of[account].used;

	while (used)
		add_words(a, sum, pf_accounting_sums_of(a, account, next_phase(&used)));
}

void pf_accounting_sum_up(struct pf_accounting *a, uint32_t account)
{
	memset(a->last, 0, a->words * sizeof *a->last);
	if (account != PF_ACCOUNTING_NONE) {
		add_account(a, account, a->last);
		return;
	}
	for (uint32_t i = 0; i < a->accounts; i++) /* the free ones hold zeros */
		add_account(a, i, a->last);
}

/* Value k of an account's sum: 0 is wall time; an event that shared its counter is scaled to the whole time. */
static uint64_t value(const struct pf_accounting *a, const uint64_t *sum, uint32_t k)
{
	const struct pf_meter *m = a->meter;
	const uint64_t *times = sum + 1;
	uint32_t first = 0;

	if (k == 0)
		return sum[0];
	for (uint32_t g = 0; g < m->ngroups && k - 1 >= first + m->group[g].n; g++) {
		first += m->group[g].n;
		times += 2;
	}
	uint64_t raw = sum[a->words - a->values + k], enabled = times[0], running = times[1];

	if (running == enabled || running == 0)
		return raw;
	return (uint64_t)((double)raw / (double)running * (double)enabled + 0.5);
}

uint32_t pf_accounting_close_account(struct pf_accounting *a, uint32_t account)
{
	uint32_t route = a->account_of[account].route;

	pf_accounting_sum_up(a, account);
	for (uint64_t used = a->account_of[account].used; used;) {
		uint32_t phase = next_phase(&used);
		uint64_t *from = pf_accounting_sums_of(a, account, phase);

		add_words(a, pf_accounting_route_sums_of(a, route, phase), from);
		memset(from, 0, a->words * sizeof *from);
	}
	a->account_of[account].used = 0;
	for (uint32_t k = 0; k < a->values; k++)
		a->histogram[((size_t)route * a->values + k) * PF_ACCOUNTING_BUCKETS + pf_bits(value(a, a->last, k))]++;
	a->requests[route]++;
	a->last_start = a->account_of[account].start;
	pf_accounting_free_account(a, account);
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

int pf_accounting_route(struct pf_accounting *a)
{
	if (grow_rows(&a->route_sums, a->routes, (size_t)a->phases * a->words) < 0 ||
	    grow_rows(&a->histogram, a->routes, (size_t)a->values * PF_ACCOUNTING_BUCKETS) < 0 ||
	    grow_rows(&a->requests, a->routes, 1) < 0)
		return -ENOMEM;
	return (int)a->routes++;
}

int pf_accounting_ran(const struct pf_accounting *a, uint32_t route, uint32_t phase, const uint64_t *walls)
{
	while (++phase <= a->phases)
		if (*pf_accounting_route_sums_of(a, route, phase) != walls[phase - 1])
			return (int)phase;
	return 0;
}

void pf_accounting_histogram(const struct pf_accounting *a, uint32_t route, uint32_t value, double *before, double *to)
{
	const uint64_t *buckets = a->histogram + ((size_t)route * a->values + value) * PF_ACCOUNTING_BUCKETS;

	for (int b = 0; b < PF_ACCOUNTING_BUCKETS; b++) {
		double now = (double)buckets[b];

		to[b] += now - before[b];
		before[b] = now;
	}
}

static void move_row(uint64_t *table, uint32_t from, uint32_t to, size_t width)
{
	for (size_t i = 0; i < width; i++)
		table[to * width + i] += table[from * width + i];
	memset(table + from * width, 0, width * sizeof *table);
}

void pf_accounting_merge(struct pf_accounting *a, uint32_t route, uint32_t other)
{
	move_row(a->route_sums, route, other, (size_t)a->phases * a->words);
	move_row(a->histogram, route, other, (size_t)a->values * PF_ACCOUNTING_BUCKETS);
	move_row(a->requests, route, other, 1);
	if (a->waits)
		pf_waits_merge(a->waits, route, other);
	for (uint32_t i = 0; i < a->accounts; i++)
		if (a->account_of[i].route == route)
			a->account_of[i].route = other;
	if (a->watch)
		pf_watch_merge(a->watch, route, other);
}

/* To open and close an accounting, with its waits and its watcher. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int pf_accounting_open(struct pf_accounting **out, struct pf_meter *meter, uint32_t phases, uint32_t nested, uint32_t after)
{
	struct pf_accounting *a = calloc(1, sizeof *a);
	uint32_t groups = meter->ngroups ? meter->ngroups : 1;
	int r;

	if (!a)
		return -ENOMEM;
	a->meter = meter;
	a->phases = phases;
	a->nested = nested;
	a->after = after;
	a->values = 1 + meter->nvalues;
	a->words = 1 + 2 * groups + meter->nvalues;
	a->free_entry = a->free_account = PF_ACCOUNTING_NONE;
	a->account = PF_ACCOUNTING_NONE;
	a->serial = 1;
	a->slow = (double)INFINITY;
	a->now = calloc(1, sizeof *a->now + pf_meter_words(meter) * sizeof *a->now->v);
	a->mark = calloc(5 * (size_t)a->words, sizeof *a->mark); /* one block for all five */
	r = a->now && a->mark ? pf_accounting_room(a, 1) : -ENOMEM;
	if (r == 0)
		r = pf_meter_begin(meter, a->now); /* enables the meter, which then has no rest */
	if (r >= 0)
		r = pf_meter_mark(meter, a->now);
	if (r < 0) {
		pf_accounting_close(a);
		return r;
	}
	a->zero = a->mark + a->words;
	a->unattributed = a->zero + a->words;
	a->last = a->unattributed + a->words;
	a->whole = a->last + a->words;
	pf_accounting_open_ends(a);
	memcpy(a->mark, a->now->v, a->words * sizeof *a->mark);
	memcpy(a->zero, a->now->v, a->words * sizeof *a->zero);
	pf_accounting_show_label(a, 1);
	*out = a;
	return 0;
}

struct pf_waits *pf_accounting_waits(struct pf_accounting *a, uint32_t cpu)
{
	a->waits = pf_waits_new();
	if (!a->waits || pf_waits_room(a->waits, a->accounts) < 0) {
		pf_waits_free(a->waits);
		a->waits = NULL;
	}
	a->cpu = cpu ? a->words - a->values + cpu : 0;
	return a->waits;
}

void pf_accounting_watch(struct pf_accounting *a, struct pf_watch *watch)
{
	a->watch = watch;
	if (watch) {
		watch->words = a->words;
		watch->beat = a->beat;
		pf_watch_turn(watch, a->serial, PF_WATCH_UNCOUNTED, 0, 0);
	}
}

void pf_accounting_close(struct pf_accounting *a)
{
	if (!a)
		return;
	pf_accounting_show_label(a, 0);
	pf_accounting_close_ends(a);
	pf_waits_free(a->waits);
	free(a->now);
	free(a->mark);
	free(a->entry);
	free(a->bucket);
	free(a->account_of);
	free(a->sums);
	free(a->route_sums);
	free(a->histogram);
	free(a->requests);
	free(a->label);
	free(a);
}

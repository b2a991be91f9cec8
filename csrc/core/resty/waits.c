/* See waits.h. */
#include "core/resty/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* --- rows ------------------------------------------------------------------------------------ */

static uint32_t *slot_of(const struct pf_waits_table *t, const struct pf_wait_row *rows, uint64_t key)
{
	uint32_t mask = 2 * t->room - 1, i = (uint32_t)(key * 0x9e3779b97f4a7c15u >> 32) & mask;

	while (t->slot[i] && rows[t->slot[i] - 1].key != key)
		i = (i + 1) & mask;
	return &t->slot[i];
}

/* Double the room, which is a power of two, if there is memory. */
static void grow(struct pf_waits_table *t, struct pf_wait_row **rows, uint32_t n)
{
	uint32_t room = t->room ? 2 * t->room : 64, *slot;
	struct pf_wait_row *bigger = realloc(*rows, room * sizeof *bigger);

	if (!bigger)
		return;
	*rows = bigger;
	slot = calloc(2 * (size_t)room, sizeof *slot);
	if (!slot)
		return;
	free(t->slot);
	t->slot = slot;
	t->room = room;
	for (uint32_t i = 0; i < n; i++)
		*slot_of(t, *rows, bigger[i].key) = i + 1;
}

/* The row of a key. If there is no room for a new key, it is the row of PF_WAITS_OTHER, for which one place is reserved. NULL
 * without memory. */
static struct pf_wait_row *row_of(struct pf_waits_table *t, struct pf_wait_row **rows, uint32_t *n, uint64_t key)
{
	uint32_t *slot;

	if (*n + 1 >= t->room && *n + 1 < PF_WAITS_ROWS)
		grow(t, rows, *n); /* fails without memory; then the present room has to do */
	if (!*rows || !t->slot)
		return NULL;
	slot = slot_of(t, *rows, key);
	if (!*slot && *n + 1 >= t->room) {
		key = PF_WAITS_OTHER;
		slot = slot_of(t, *rows, key);
	}
	if (!*slot) {
		(*rows)[*n] = (struct pf_wait_row){.key = key};
		*slot = ++*n;
	}
	return *rows + *slot - 1;
}

static unsigned bucket(uint64_t v)
{
	const unsigned bits = pf_bits(v);

	return bits < PF_WAITS_BUCKETS ? bits : PF_WAITS_BUCKETS - 1;
}

static void add(struct pf_wait_row *row, uint64_t lasted, uint64_t waiting, uint64_t late)
{
	if (!row)
		return;
	row->count++;
	row->lasted += lasted;
	row->waiting += waiting;
	row->late += late;
	row->histogram[bucket(lasted)]++;
}

/* Add the waits of a request to a route. They stay readable until the next request begins. */
static void flush(struct pf_waits *w, struct pf_waits_of *of, uint32_t route)
{
	for (uint32_t i = 0; i < of->n; i++) {
		const struct pf_wait *wait = &of->wait[i];

		add(row_of(&w->row_table, &w->row, &w->rows, (uint64_t)route << 32 | wait->site), wait->lasted, wait->waiting,
		    wait->late);
	}
	w->last = of->wait;
	w->lasts = of->n;
	of->n = 0;
}

/* Add the rows of a route to those of another one. */
static void merge_rows(struct pf_waits_table *t, struct pf_wait_row *rows, uint32_t *n, uint32_t route, uint32_t other)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < *n; i++) {
		const uint32_t *slot;

		if (rows[i].key >> 32 != route)
			continue;
		slot = slot_of(t, rows, (uint64_t)other << 32 | (uint32_t)rows[i].key);
		if (!*slot)
			continue;
		struct pf_wait_row *to = &rows[*slot - 1], *from = &rows[i];

		to->count += from->count;
		to->lasted += from->lasted;
		to->waiting += from->waiting;
		to->late += from->late;
		for (unsigned b = 0; b < PF_WAITS_BUCKETS; b++)
			to->histogram[b] += from->histogram[b];
		from->count = 0;
	}
	memset(t->slot, 0, 2 * (size_t)t->room * sizeof *t->slot);
	for (uint32_t i = 0; i < *n; i++) {
		if (rows[i].count == 0)
			continue;
		rows[kept] = rows[i];
		if (rows[kept].key >> 32 == route)
			rows[kept].key = (uint64_t)other << 32 | (uint32_t)rows[kept].key;
		*slot_of(t, rows, rows[kept].key) = kept + 1;
		kept++;
	}
	*n = kept;
}

void pf_waits_merge(struct pf_waits *w, uint32_t route, uint32_t other)
{
	if (w->rows)
		merge_rows(&w->row_table, w->row, &w->rows, route, other);
	if (w->latencies)
		merge_rows(&w->latency_table, w->latency, &w->latencies, route, other);
}

/* --- requests -------------------------------------------------------------------------------- */

struct pf_waits *pf_waits_new(void)
{
	return calloc(1, sizeof(struct pf_waits));
}

void pf_waits_free(struct pf_waits *w)
{
	if (!w)
		return;
	free(w->row);
	free(w->latency);
	free(w->row_table.slot);
	free(w->latency_table.slot);
	free(w->of);
	free(w);
}

void pf_waits_copy(const struct pf_waits *w, double *to)
{
	for (uint32_t i = 0; i < w->rows; i++, to += 5) {
		const struct pf_wait_row *r = &w->row[i];
		const int other = r->key == PF_WAITS_OTHER;

		to[0] = other ? -1 : (double)(r->key >> 32);
		to[1] = other ? 0 : (double)(uint32_t)r->key;
		to[2] = (double)r->count;
		to[3] = (double)r->waiting;
		to[4] = (double)r->late;
	}
}

int pf_waits_room(struct pf_waits *w, uint32_t accounts)
{
	struct pf_waits_of *of;

	if (accounts <= w->accounts)
		return 0;
	of = realloc(w->of, accounts * sizeof *of);
	if (!of)
		return -ENOMEM;
	w->of = of;
	w->accounts = accounts;
	w->lasts = 0;
	return 0;
}

void pf_waits_begin(struct pf_waits *w, uint32_t account, uint64_t now)
{
	struct pf_waits_of *of = &w->of[account];

	of->began = of->last = now;
	of->n = 0;
	w->lasts = 0;
}

void pf_waits_between(struct pf_waits *w, uint64_t now, uint64_t time, uint64_t cpu)
{
	struct rusage u;

	if (time <= cpu + PF_WAITS_NO_SLEEP)
		return;
	/* The thread slept, or another thread had its CPU. Only a sleep is a voluntary switch. */
	if (getrusage(RUSAGE_THREAD, &u) < 0 || u.ru_nvcsw != w->sleeps)
		w->busy_since = now;
	w->sleeps = u.ru_nvcsw;
}

void pf_waits_resume(struct pf_waits *w, uint32_t account, uint32_t route, uint32_t site, uint32_t phase, uint64_t from,
		     uint64_t now)
{
	struct pf_waits_of *of = &w->of[account];
	uint64_t gap = now - of->last, since = from > w->busy_since ? from : w->busy_since;
	uint64_t late = since < now ? now - since : 0;

	if (late > gap)
		late = gap;
	if (of->n == PF_WAITS_KEPT)
		flush(w, of, route);
	of->wait[of->n++] = (struct pf_wait){from, now - from, gap - late, late, site, phase};
	of->last = now;
}

void pf_waits_end(struct pf_waits *w, uint32_t account, uint32_t route, uint32_t site, uint32_t status, uint32_t method,
		  uint64_t now)
{
	struct pf_waits_of *of = &w->of[account];
	uint64_t wall;

	if (now < of->last)
		now = of->last;
	if (now > of->last)
		pf_waits_resume(w, account, route, site, 0, of->last, now);
	wall = now - of->began;
	add(row_of(&w->latency_table, &w->latency, &w->latencies, (uint64_t)route << 32 | status << 8 | method), wall, 0, 0);
	flush(w, of, route);
	w->last_wall = wall;
	w->last_end = now;
}

/* The state of resty/accounting.c: its requests, the table in which it looks them up by address (resty/accounting_table.c), and the
 * counts of each account (resty/accounting_sums.c). */
#ifndef PF_LEDGER_STATE_H
#define PF_LEDGER_STATE_H

#include "core/resty/accounting.h"

#define PF_LEDGER_NONE UINT32_MAX

/* A known address. The entries of a bucket form a list, and so do those of an account and the free ones. */
struct pf_ledger_entry {
	const void *request;
	uint32_t account; /* PF_LEDGER_NONE: not counted */
	uint32_t next, sibling;
	uint32_t alias; /* the account was made for another address */
};

struct pf_ledger_account {
	uint32_t route;
	uint32_t entries; /* the first of its addresses; of a free account, the next free one */
	double start;
	uint64_t used;    /* phases that hold counts, 1 << phase - 1 */
};

struct pf_ledger {
	PF_LEDGER_STATE
	struct pf_meter *meter;
	struct pf_counts *now; /* the newest reading */
	uint64_t *mark, *zero; /* `words` each: the previous reading, and the first one */
	uint32_t repeats, after;
	uint32_t ends;     /* how many ends the host has still to report; the last one frees a closed ledger, whose meter is NULL */
	uint32_t account;  /* of the open turn, or PF_LEDGER_NONE */
	const void *ended; /* the request that ended last, while its account is open */

	struct pf_ledger_entry *entry;
	uint32_t *bucket; /* as many as entries */
	uint32_t entries, free_entry;
	struct pf_ledger_account *account_of;
	uint64_t *sums; /* [accounts][phases][words] */
	uint32_t accounts, free_account;
};

/* The sum of an account, or of a route, in a phase. */
static inline uint64_t *pf_ledger_account_place(const struct pf_ledger *l, uint32_t account, uint32_t phase)
{
	return l->sums + ((size_t)account * l->phases + phase - 1) * l->words;
}

static inline uint64_t *pf_ledger_route_place(const struct pf_ledger *l, uint32_t route, uint32_t phase)
{
	return l->route_sums + ((size_t)route * l->phases + phase - 1) * l->words;
}

/* Put the sum of an account into `last`; or of all of them, for PF_LEDGER_NONE. */
void pf_ledger_sum_up(struct pf_ledger *l, uint32_t account);
/* Add an account to its route, leave its sum in `last`, and free it. Returns the route. */
uint32_t pf_ledger_close_account(struct pf_ledger *l, uint32_t account);

/* The entry of an address, or NULL. */
struct pf_ledger_entry *pf_ledger_find(const struct pf_ledger *l, const void *request);
/* Make room for one more entry, and for one more account. Return 0 or -ENOMEM. */
int pf_ledger_room(struct pf_ledger *l, int account);
/* Take a free account, of which there is one after pf_ledger_room; add an address to an account, or to none; free both. */
uint32_t pf_ledger_take_account(struct pf_ledger *l, uint32_t route);
void pf_ledger_add(struct pf_ledger *l, const void *request, uint32_t account, uint32_t alias);
void pf_ledger_remove(struct pf_ledger *l, uint32_t entry);
void pf_ledger_free_account(struct pf_ledger *l, uint32_t account);

#endif

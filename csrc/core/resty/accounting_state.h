/* The state of resty/accounting.c: its requests, the table in which it looks them up by address (resty/accounting_table.c),
 * their ends (resty/accounting_ends.c), and the counts of each account (resty/accounting_sums.c). */
#ifndef PF_ACCOUNTING_STATE_H
#define PF_ACCOUNTING_STATE_H

#include "core/resty/accounting.h"
#include "core/resty/waits.h"
#include "core/resty/watch.h"
#include "core/stack/label.h"

#define PF_ACCOUNTING_NONE UINT32_MAX

/* A known address. The entries of a bucket form a list, and so do those of an account and the free ones. */
struct pf_accounting_entry {
	const void *request;
	uint32_t account; /* PF_ACCOUNTING_NONE: not counted */
	uint32_t next, sibling;
	uint32_t alias; /* the account was made for another address */
};

struct pf_account {
	uint32_t route;
	uint32_t entries; /* the first of its addresses; of a free account, the next free one */
	double start;
	uint64_t used;    /* phases that hold counts, 1 << phase - 1 */
};

struct pf_accounting {
	PF_ACCOUNTING_STATE
	uint32_t nested, after;
	uint32_t main_at, main_tries; /* main_request.c: the place of the pointer, 0 while it is unknown */
	uint32_t account;  /* the account of the open turn, or PF_ACCOUNTING_NONE */
	uint32_t entries, free_entry;
	struct pf_accounting_entry *entry;
	uint32_t *bucket; /* as many as entries */
	const void *ended; /* the request that ended last, while its account is open */
	struct pf_waits *waits; /* NULL: waits are not counted */
	struct pf_watch *watch; /* the caller's watcher; NULL: none */

	struct pf_accounting *next; /* of those that are open in this thread */
	struct pf_meter *meter;
	struct pf_counts *now; /* the newest reading */
	uint64_t *mark, *zero; /* `words` each: the previous reading, and the first one */
	uint64_t ended_at;      /* when `ended` ended, and */
	uint32_t status, method;
	uint32_t cpu;           /* the word that counts CPU time; 0: none */

	uint32_t accounts, free_account;
	struct pf_account *account_of;
	uint64_t *sums; /* [accounts][phases][words] */
	const struct pf_label **label; /* by route */
	uint32_t labels;
};

/* The sum of an account, or of a route, in a phase. */
static inline uint64_t *pf_accounting_sums_of(const struct pf_accounting *a, uint32_t account, uint32_t phase)
{
	return a->sums + ((size_t)account * a->phases + phase - 1) * a->words;
}

static inline uint64_t *pf_accounting_route_sums_of(const struct pf_accounting *a, uint32_t route, uint32_t phase)
{
	return a->route_sums + ((size_t)route * a->phases + phase - 1) * a->words;
}

/* Put the sum of an account into `last`; for PF_ACCOUNTING_NONE the sum of all accounts. */
void pf_accounting_sum_up(struct pf_accounting *a, uint32_t account);
/* Add an account to its route, leave its sum in `last`, and free it. Returns the route. */
uint32_t pf_accounting_close_account(struct pf_accounting *a, uint32_t account);

/* accounting_ends.c: call these when an accounting is opened and closed, in the same thread. */
void pf_accounting_open_ends(struct pf_accounting *a);
void pf_accounting_close_ends(struct pf_accounting *a);
/* Is it the newest open accounting of this thread? */
int pf_accounting_is_newest(const struct pf_accounting *a);
/* Ask the host to report the end of a request to pf_accounting_end. 0 or -ENOMEM. */
int pf_accounting_ask_for_end(const struct pf_accounting *a, const void *request);
/* Mark a request that has ended. It keeps the mark until the host frees it; a later request at the same address has none. data: as
 * for pf_accounting_end. */
void pf_accounting_mark(const struct pf_accounting *a, const void *request, void *data);
int pf_accounting_has_mark(const struct pf_accounting *a, const void *request);

/* main_request.c: whether this is a main request; 0 while that cannot be known. */
int pf_accounting_is_main(const struct pf_accounting *a, const void *request);
/* accounting_skip.c: make an unknown request known that is not to be counted, as pf_accounting_enter says. Returns its entry, or
 * NULL. */
struct pf_accounting_entry *pf_accounting_pass_over(struct pf_accounting *a, const void *request, uint32_t phase);

/* The first entry of an address's list. */
static inline uint32_t *pf_accounting_bucket(const struct pf_accounting *a, const void *request)
{
	uint64_t h = (uint64_t)(uintptr_t)request * 0x9e3779b97f4a7c15u;

	return &a->bucket[(h >> 32) & (a->entries - 1)];
}

/* The entry of an address, or NULL. */
static inline struct pf_accounting_entry *pf_accounting_find(const struct pf_accounting *a, const void *request)
{
	for (uint32_t i = *pf_accounting_bucket(a, request); i != PF_ACCOUNTING_NONE; i = a->entry[i].next)
		if (a->entry[i].request == request)
			return &a->entry[i];
	return NULL;
}

/* accounting_labels.c: from now on another process can read the label of the open turn (1), or cannot (0), as while the arrays that have
 * the label are moved. Only the newest accounting's labels are shown: for an older one this does nothing. */
void pf_accounting_show_label(struct pf_accounting *a, int shown);
/* Make room for one more entry, and for one more account. Returns 0 or -ENOMEM. */
int pf_accounting_grow(struct pf_accounting *a, int account);
static inline int pf_accounting_room(struct pf_accounting *a, int account)
{
	return account || a->free_entry == PF_ACCOUNTING_NONE ? pf_accounting_grow(a, account) : 0;
}
/* Take a free account (pf_accounting_room has made one); add an address to an account, or to none; free both. */
uint32_t pf_accounting_take_account(struct pf_accounting *a, uint32_t route);
struct pf_accounting_entry *pf_accounting_add(struct pf_accounting *a, const void *request, uint32_t account, uint32_t alias);
void pf_accounting_remove(struct pf_accounting *a, uint32_t entry);
void pf_accounting_free_account(struct pf_accounting *a, uint32_t account);

#endif

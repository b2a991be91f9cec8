/* The tables of addresses (hashed, with a list for each bucket) and of accounts (by number). Free entries form lists too, so that
 * a turn allocates no memory. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Double the number of entries, which is a power of two. */
static int grow_entries(struct pf_accounting *a)
{
	uint32_t n = a->entries ? 2 * a->entries : 64;
	struct pf_accounting_entry *entry = realloc(a->entry, n * sizeof *entry);
	uint32_t *bucket;

	if (!entry)
		return -ENOMEM;
	a->entry = entry;
	bucket = realloc(a->bucket, n * sizeof *bucket);
	if (!bucket)
		return -ENOMEM;
	a->bucket = bucket;
	for (uint32_t i = 0; i < n; i++)
		bucket[i] = PF_ACCOUNTING_NONE;
	for (uint32_t i = n; i-- > a->entries;) {
		entry[i].request = NULL;
		entry[i].next = a->free_entry;
		a->free_entry = i;
	}
	/* Only called if no entry is free, so all old entries are in use. */
	uint32_t old = a->entries;

	a->entries = n;
	for (uint32_t i = 0; i < old; i++) {
		uint32_t *b = pf_accounting_bucket(a, entry[i].request);

		entry[i].next = *b;
		*b = i;
	}
	return 0;
}

static int grow_accounts(struct pf_accounting *a)
{
	uint32_t n = a->accounts ? 2 * a->accounts : 32;
	size_t each = (size_t)a->phases * a->words;
	struct pf_account *accounts = realloc(a->account_of, n * sizeof *accounts);
	uint64_t *sums;

	if (!accounts)
		return -ENOMEM;
	a->account_of = accounts;
	sums = realloc(a->sums, n * each * sizeof *sums);
	if (!sums)
		return -ENOMEM;
	a->sums = sums;
	memset(sums + a->accounts * each, 0, (n - a->accounts) * each * sizeof *sums);
	for (uint32_t i = n; i-- > a->accounts;) {
		accounts[i] = (struct pf_account){0, a->free_account, 0, 0};
		a->free_account = i;
	}
	a->accounts = n;
	return 0;
}

int pf_accounting_grow(struct pf_accounting *a, int account)
{
	if (a->free_entry == PF_ACCOUNTING_NONE && grow_entries(a) < 0)
		return -ENOMEM;
	if (account && a->free_account == PF_ACCOUNTING_NONE) {
		int r;

		pf_accounting_show_label(a, 0);
		r = grow_accounts(a);
		pf_accounting_show_label(a, 1);
		if (r < 0)
			return -ENOMEM;
	}
	return account && a->waits ? pf_waits_room(a->waits, a->accounts) : 0;
}

uint32_t pf_accounting_take_account(struct pf_accounting *a, uint32_t route)
{
	uint32_t account = a->free_account;

	a->free_account = a->account_of[account].entries;
	a->account_of[account] = (struct pf_account){route, PF_ACCOUNTING_NONE, 0, 0};
	return account;
}

void pf_accounting_free_account(struct pf_accounting *a, uint32_t account)
{
	a->account_of[account].entries = a->free_account;
	a->free_account = account;
}

struct pf_accounting_entry *pf_accounting_add(struct pf_accounting *a, const void *request, uint32_t account, uint32_t alias)
{
	uint32_t i = a->free_entry, *b = pf_accounting_bucket(a, request), sibling = PF_ACCOUNTING_NONE;
	struct pf_accounting_entry *e = &a->entry[i];

	a->free_entry = e->next;
	if (account != PF_ACCOUNTING_NONE) {
		sibling = a->account_of[account].entries;
		a->account_of[account].entries = i;
	}
	*e = (struct pf_accounting_entry){request, account, *b, sibling, alias};
	*b = i;
	a->known++;
	return e;
}

void pf_accounting_remove(struct pf_accounting *a, uint32_t i)
{
	struct pf_accounting_entry *e = &a->entry[i];
	uint32_t *at = pf_accounting_bucket(a, e->request);

	while (*at != i)
		at = &a->entry[*at].next;
	*at = e->next;
	e->request = NULL;
	e->next = a->free_entry;
	a->free_entry = i;
	a->known--;
}

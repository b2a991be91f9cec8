/* The tables of addresses (hashed, with a list for each bucket) and of accounts (by number). Free entries form lists too, so that a
 * turn allocates no memory. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint32_t *bucket_of(const struct pf_ledger *l, const void *request)
{
	uint64_t h = (uint64_t)(uintptr_t)request * 0x9e3779b97f4a7c15u;

	return &l->bucket[(h >> 32) & (l->entries - 1)];
}

struct pf_ledger_entry *pf_ledger_find(const struct pf_ledger *l, const void *request)
{
	for (uint32_t i = *bucket_of(l, request); i != PF_LEDGER_NONE; i = l->entry[i].next)
		if (l->entry[i].request == request)
			return &l->entry[i];
	return NULL;
}

/* Double the number of entries, which is a power of two. */
static int grow_entries(struct pf_ledger *l)
{
	uint32_t n = l->entries ? 2 * l->entries : 64;
	struct pf_ledger_entry *entry = realloc(l->entry, n * sizeof *entry);
	uint32_t *bucket;

	if (!entry)
		return -ENOMEM;
	l->entry = entry;
	bucket = realloc(l->bucket, n * sizeof *bucket);
	if (!bucket)
		return -ENOMEM;
	l->bucket = bucket;
	for (uint32_t i = 0; i < n; i++)
		bucket[i] = PF_LEDGER_NONE;
	for (uint32_t i = n; i-- > l->entries;) {
		entry[i].request = NULL;
		entry[i].next = l->free_entry;
		l->free_entry = i;
	}
	/* Only called if no entry is free, so all old entries are in use. */
	uint32_t old = l->entries;

	l->entries = n;
	for (uint32_t i = 0; i < old; i++) {
		uint32_t *b = bucket_of(l, entry[i].request);

		entry[i].next = *b;
		*b = i;
	}
	return 0;
}

static int grow_accounts(struct pf_ledger *l)
{
	uint32_t n = l->accounts ? 2 * l->accounts : 32;
	size_t each = (size_t)l->phases * l->words;
	struct pf_ledger_account *accounts = realloc(l->account_of, n * sizeof *accounts);
	uint64_t *sums;

	if (!accounts)
		return -ENOMEM;
	l->account_of = accounts;
	sums = realloc(l->sums, n * each * sizeof *sums);
	if (!sums)
		return -ENOMEM;
	l->sums = sums;
	memset(sums + l->accounts * each, 0, (n - l->accounts) * each * sizeof *sums);
	for (uint32_t i = n; i-- > l->accounts;) {
		accounts[i] = (struct pf_ledger_account){0, l->free_account, 0, 0};
		l->free_account = i;
	}
	l->accounts = n;
	return 0;
}

int pf_ledger_room(struct pf_ledger *l, int account)
{
	if (l->free_entry == PF_LEDGER_NONE && grow_entries(l) < 0)
		return -ENOMEM;
	return account && l->free_account == PF_LEDGER_NONE ? grow_accounts(l) : 0;
}

uint32_t pf_ledger_take_account(struct pf_ledger *l, uint32_t route)
{
	uint32_t account = l->free_account;

	l->free_account = l->account_of[account].entries;
	l->account_of[account] = (struct pf_ledger_account){route, PF_LEDGER_NONE, 0, 0};
	return account;
}

void pf_ledger_free_account(struct pf_ledger *l, uint32_t account)
{
	l->account_of[account].entries = l->free_account;
	l->free_account = account;
}

void pf_ledger_add(struct pf_ledger *l, const void *request, uint32_t account, uint32_t alias)
{
	uint32_t i = l->free_entry, *b = bucket_of(l, request), sibling = PF_LEDGER_NONE;
	struct pf_ledger_entry *e = &l->entry[i];

	l->free_entry = e->next;
	if (account != PF_LEDGER_NONE) {
		sibling = l->account_of[account].entries;
		l->account_of[account].entries = i;
	}
	*e = (struct pf_ledger_entry){request, account, *b, sibling, alias};
	*b = i;
	l->known++;
}

void pf_ledger_remove(struct pf_ledger *l, uint32_t i)
{
	struct pf_ledger_entry *e = &l->entry[i];
	uint32_t *at = bucket_of(l, e->request);

	while (*at != i)
		at = &l->entry[*at].next;
	*at = e->next;
	e->request = NULL;
	e->next = l->free_entry;
	l->free_entry = i;
	l->known--;
}

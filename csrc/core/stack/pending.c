/* See pending.h. */
#include "core/stack/pending.h"

#include <errno.h>

#include "core/base/pages.h"

enum { FIRST = 128 };

static size_t items_size(uint32_t room)
{
	return room * sizeof(struct pf_pending);
}

static size_t slots_size(uint32_t slots)
{
	return slots * sizeof(uint32_t);
}

static uint32_t hash(const struct pf_kind *k)
{
	uint64_t h = k->function ^ ((uint64_t)k->chain << 32 | k->zone << 3 | k->state);

	h = (h ^ (h >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32);
}

static int same(const struct pf_kind *a, const struct pf_kind *b)
{
	return a->function == b->function && a->state == b->state && a->zone == b->zone && a->chain == b->chain;
}

/* The slot of a kind, or the free one where it belongs. */
static uint32_t *slot_of(const struct pf_pendings *p, const struct pf_kind *kind)
{
	uint32_t at = hash(kind) & (p->slots - 1);

	while (p->slot[at] && !same(&p->items[p->slot[at]].kind, kind))
		at = (at + 1) & (p->slots - 1);
	return p->slot + at;
}

static void take_slot(struct pf_pendings *p, uint32_t i)
{
	uint32_t *slot = slot_of(p, &p->items[i].kind);

	*slot = i;
	p->items[i].at = (uint32_t)(slot - p->slot);
}

static int grow(struct pf_pendings *p)
{
	const uint32_t room = p->room * 2, slots = p->slots * 2;
	void *items = p->items;
	uint32_t *slot;

	if (room > PF_PENDING_MOST || (slot = pf_pages_get(slots_size(slots))) == NULL)
		return -ENOMEM;
	if (pf_sys->mremap(&items, items_size(p->room), items_size(room)) < 0) {
		pf_pages_put(slot, slots_size(slots));
		return -ENOMEM;
	}
	p->items = items;
	p->room = room;
	pf_pages_put(p->slot, slots_size(p->slots));
	p->slot = slot;
	p->slots = slots;
	for (uint32_t i = 1; i < p->n; i++)
		take_slot(p, i);
	return 0;
}

int pf_pendings_init(struct pf_pendings *p, const struct pf_kind *other)
{
	*p = (struct pf_pendings){.items = pf_pages_get(items_size(FIRST)), .slot = pf_pages_get(slots_size(2 * FIRST))};
	p->room = p->items ? FIRST : 0;
	p->slots = p->slot ? 2 * FIRST : 0;
	if (!p->items || !p->slot)
		return -ENOMEM;
	p->items[0] = (struct pf_pending){.kind = *other};
	p->n = 1;
	return 0;
}

void pf_pendings_free(struct pf_pendings *p)
{
	pf_pages_put(p->items, items_size(p->room));
	pf_pages_put(p->slot, slots_size(p->slots));
	*p = (struct pf_pendings){.items = NULL};
}

uint32_t pf_pendings_add(struct pf_pendings *p, const struct pf_kind *kind, uint64_t weight)
{
	uint32_t i = 0;

	if (!same(kind, &p->items[0].kind)) {
		i = *slot_of(p, kind);
		if (i == 0 && (p->n < p->room || grow(p) == 0)) {
			i = p->n++;
			p->items[i] = (struct pf_pending){.kind = *kind};
			take_slot(p, i);
		}
	}
	p->items[i].weight += weight;
	p->items[i].count++;
	return i;
}

void pf_pendings_clear(struct pf_pendings *p)
{
	for (uint32_t i = 1; i < p->n; i++)
		p->slot[p->items[i].at] = 0;
	p->items[0].weight = p->items[0].count = 0;
	p->n = 1;
}

size_t pf_pendings_memory(const struct pf_pendings *p)
{
	return items_size(p->room) + slots_size(p->slots);
}

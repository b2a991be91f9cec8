/* See allocator.h. */
#include "core/memory/allocator.h"

#include "core/base/clock.h"
#include "core/stack/own_thread.h"

/* Prepare the watchers that will see the block. */
static void announce(struct pf_watcher *w, const void *old, size_t size)
{
	struct pf_registers r;
	int known = 0;

	for (; w; w = w->next) {
		w->is_seen = size && w->left <= (double)size;
		if (!w->is_seen)
			continue;
		if (!known) {
			pf_own_registers_here(&r);
			r.stack_end = pf_own_stack_end(r.sp);
			known = 1;
		}
		w->will_give(w, &r, old, size);
	}
}

static void show(struct pf_watcher *w, const void *old, void *block, size_t size)
{
	for (; w; w = w->next) {
		if (old && w->wants_freed)
			w->freed(w, old);
		if (w->is_seen)
			w->gave(w, block, size);
		else
			w->left -= (double)size;
	}
}

void *pf_allocator_call(void *ud, void *old, size_t old_size, size_t size)
{
	struct pf_allocator *in = ud;
	const int counts = atomic_load_explicit(&in->thread, memory_order_relaxed) == pf_thread_token() && in->users;
	void *block;

	if (counts && in->watchers)
		announce(in->watchers, old, size);
	block = in->next(in->next_ud, old, old_size, size);
	if (!counts || (size && !block))
		return block;
	if (old) {
		in->given.freed_bytes += old_size;
		in->given.freed_blocks++;
	}
	if (size) {
		in->given.bytes += size;
		in->given.blocks++;
	}
	if (in->watchers)
		show(in->watchers, old, block, size);
	return block;
}

void pf_allocator_claim_anew(struct pf_allocator *in)
{
	if (pf_inherited(in->generation)) { /* these are the parent's */
		in->watchers = NULL;
		in->users = 0;
	}
	in->generation = pf_fork_generation();
	atomic_store(&in->thread, pf_thread_token());
}

void pf_allocator_watch(struct pf_allocator *in, struct pf_watcher *w)
{
	pf_allocator_claim(in);
	w->next = in->watchers;
	in->watchers = w;
	in->users++;
}

void pf_allocator_unwatch(struct pf_allocator *in, struct pf_watcher *w)
{
	struct pf_watcher **link = &in->watchers;

	while (*link && *link != w)
		link = &(*link)->next;
	if (!*link)
		return;
	*link = w->next;
	in->users--;
}

static uint64_t field(const struct pf_blocks *blocks, unsigned offset)
{
	return *(const uint64_t *)(const void *)((const char *)blocks + offset);
}

uint64_t pf_block_reader_read(const struct pf_block_reader *b, uint64_t *values, unsigned stride)
{
	if (!b->in)
		return 0;
	pf_allocator_claim(b->in);
	for (uint32_t i = 0; i < b->n; i++)
		values[i * stride] = field(&b->in->given, b->at[i]) - field(&b->from, b->at[i]);
	return pf_wall_ns() - b->opened_ns + 1; /* also if it is read at once */
}

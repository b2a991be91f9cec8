/* See allocator.h. */
#include "core/memory/allocator.h"

#include "core/base/clock.h"
#include "core/stack/own_thread.h"

static const uint32_t no_bits, all_bits = UINT32_MAX;
static const struct pf_sieve no_blocks = {&no_bits, 0}, all_blocks = {&all_bits, 0};

void pf_allocator_init(struct pf_allocator *in, pf_allocate *next, void *next_ud)
{
	in->next = next;
	in->next_ud = next_ud;
	pf_allocator_refresh(in);
}

void pf_allocator_refresh(struct pf_allocator *in)
{
	unsigned sieves = 0;

	in->due = PF_NEVER_DUE;
	in->sieve = no_blocks;
	for (const struct pf_watcher *w = in->watchers; w; w = w->next) {
		if (w->due < in->due)
			in->due = w->due;
		if (w->sieve.words)
			in->sieve = sieves++ ? all_blocks : w->sieve;
	}
	atomic_store_explicit(&in->counted, in->users ? in->thread : PF_NO_THREAD, memory_order_relaxed);
}

/* In the child of a fork the users are the parent's. Blocks are counted there as before, until this is called. */
static void forget_parent(struct pf_allocator *in)
{
	if (!pf_inherited(in->generation))
		return;
	in->watchers = NULL;
	in->users = 0;
	pf_allocator_refresh(in);
}

/* Prepare the watchers that will see the block. */
static void announce(struct pf_allocator *in, const void *old, size_t size)
{
	struct pf_registers *r = &in->registers;
	int known = 0;

	forget_parent(in);
	for (struct pf_watcher *w = in->watchers; w; w = w->next) {
		w->is_seen = in->given.bytes + size >= w->due;
		if (!w->is_seen)
			continue;
		if (!known) {
			pf_own_registers_here(r);
			r->stack_end = pf_own_stack_end(r->sp);
			known = 1;
		}
		w->will_give(w, r, old, size);
	}
}

static void show(struct pf_allocator *in, void *block, size_t size)
{
	for (struct pf_watcher *w = in->watchers; w; w = w->next)
		if (w->is_seen)
			w->gave(w, block, size);
	pf_allocator_refresh(in);
}

static void show_freed(struct pf_allocator *in, const void *block)
{
	forget_parent(in);
	for (struct pf_watcher *w = in->watchers; w; w = w->next)
		if (w->sieve.words && pf_sieve_has(&w->sieve, block))
			w->freed(w, block);
}

static void add_given(struct pf_allocator *in, size_t size)
{
	in->given.bytes += size;
	in->given.blocks++;
}

static void add_freed(struct pf_allocator *in, size_t size)
{
	in->given.freed_bytes += size;
	in->given.freed_blocks++;
}

static void *pass_on(const struct pf_allocator *in, void *old, size_t old_size, size_t size)
{
	return in->next(in->next_ud, old, old_size, size);
}

static __attribute__((noinline)) void *free_seen(struct pf_allocator *in, void *old, size_t old_size, size_t size)
{
	show_freed(in, old);
	return pass_on(in, old, old_size, size);
}

/* A block that replaces an old one, or that a watcher sees. */
static __attribute__((noinline)) void *give_seen(struct pf_allocator *in, void *old, size_t old_size, size_t size)
{
	const int is_seen = in->given.bytes + size >= in->due;
	void *block;

	if (is_seen)
		announce(in, old, size);
	block = pass_on(in, old, old_size, size);
	if (!block)
		return NULL;
	if (old) {
		add_freed(in, old_size);
		if (pf_sieve_has(&in->sieve, old))
			show_freed(in, old);
	}
	add_given(in, size);
	if (is_seen)
		show(in, block, size);
	return block;
}

static __attribute__((noinline)) void *give(struct pf_allocator *in, void *old, size_t old_size, size_t size)
{
	void *block = pass_on(in, old, old_size, size);

	if (block)
		add_given(in, size);
	return block;
}

/* Called for each block that the interpreter makes or frees, so it is short. All calls in it are tail calls, which the compiler makes
 * jumps, so it saves no registers. */
void *pf_allocator_call(void *ud, void *old, size_t old_size, size_t size)
{
	struct pf_allocator *in = ud;

	if (!pf_has_token(atomic_load_explicit(&in->counted, memory_order_relaxed)))
		return pass_on(in, old, old_size, size);
	if (size)
		return old || in->given.bytes + size >= in->due ? give_seen(in, old, old_size, size) : give(in, old, old_size, size);
	if (old) {
		add_freed(in, old_size);
		if (pf_sieve_has(&in->sieve, old))
			return free_seen(in, old, old_size, size);
	}
	return pass_on(in, old, old_size, size);
}

void pf_allocator_claim_anew(struct pf_allocator *in)
{
	forget_parent(in);
	in->generation = pf_fork_generation();
	in->thread = pf_thread_token();
	pf_allocator_refresh(in);
}

void pf_allocator_watch(struct pf_allocator *in, struct pf_watcher *w)
{
	pf_allocator_claim(in);
	w->next = in->watchers;
	in->watchers = w;
	in->users++;
	pf_allocator_refresh(in);
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
	pf_allocator_refresh(in);
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

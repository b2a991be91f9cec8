/* Wraps the allocator of a Lua state. A Lua state calls its allocator for each block of memory; while it is wrapped, a struct
 * pf_allocator counts all blocks exactly, and shows some of them to watchers.
 *
 * A block that is made larger or smaller counts as freed and allocated anew, as the interpreter's own count has it. */
#ifndef PF_ALLOCATOR_H
#define PF_ALLOCATOR_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/thread.h"
#include "core/stack/unwind.h"

/* The interpreter's type of an allocator's function. */
typedef void *pf_allocate(void *ud, void *block, size_t old_size, size_t size);

#define PF_NEVER_DUE UINT64_MAX
#define PF_NO_THREAD UINT32_MAX

/* A block's bytes and its 1 are not beside each other: the compiler would add them as a vector, which takes longer to make. */
struct pf_blocks {
	uint64_t bytes, freed_bytes;
	uint64_t blocks, freed_blocks;
};

/* Which blocks a watcher may have. The address of a block tells its bit; if that is 0, the watcher does not have the block. */
struct pf_sieve {
	const uint32_t *words; /* NULL in a watcher: it wants to see no block that is freed */
	uint32_t last; /* the number of the last bit; the number of bits is a power of two */
};

/* The number of the block's bit. */
static inline uint32_t pf_sieve_bit(const struct pf_sieve *s, const void *block)
{
	return (uint32_t)((uintptr_t)block * UINT64_C(0x9e3779b97f4a7c15) >> 28) & s->last;
}

static inline int pf_sieve_has(const struct pf_sieve *s, const void *block)
{
	const uint32_t bit = pf_sieve_bit(s, block);

	return s->words[bit / 32] >> bit % 32 & 1;
}

/* Sees the block with which the allocator's count of bytes reaches `due`. */
struct pf_watcher {
	struct pf_watcher *next;
	uint64_t due; /* PF_NEVER_DUE: it sees none */
	int is_seen; /* the block that is being allocated */
	struct pf_sieve sieve; /* it sees the blocks that are freed and that the sieve has */
	/* Before the allocation, since the old block may be the interpreter's own stack; and after it, if it was not refused.
	 * gave() may change `due` and `sieve`. */
	void (*will_give)(struct pf_watcher *w, const struct pf_registers *r, const void *old, size_t size);
	void (*gave)(struct pf_watcher *w, void *block, size_t size);
	void (*freed)(struct pf_watcher *w, const void *block);
};

/* It is never freed: the program may have noted it as the state's allocator, and may call it later, even in other threads for other
 * Lua states. So only the calls of one thread are counted. */
struct pf_allocator {
	pf_allocate *next; /* the allocator that it calls; this member and the next one never change */
	void *next_ud;
	struct pf_blocks given;
	uint64_t due; /* the least `due` of the watchers */
	struct pf_sieve sieve; /* has the blocks that those of all watchers have */
	atomic_uint counted; /* pf_thread_token of the thread that is counted, or PF_NO_THREAD */
	uint32_t thread; /* that of the thread that used it last, which is counted while there are users */
	uint32_t users; /* watchers, and those that need the counts */
	uint32_t generation; /* pf_fork_generation of the process whose users these are */
	struct pf_watcher *watchers;
	struct pf_allocator *older; /* of the same state */
	/* At the last block that a watcher saw. They are not on the C stack, in which the unwinder searches for threads: some of their
	 * words look like addresses of threads where no memory is, and each read of one is a page fault. */
	struct pf_registers registers;
};

/* The lua_Alloc function of a struct pf_allocator, which is its `ud`. */
pf_allocate pf_allocator_call;

/* One that calls `next`. It is a zeroed struct pf_allocator before. */
void pf_allocator_init(struct pf_allocator *in, pf_allocate *next, void *next_ud);

void pf_allocator_claim_anew(struct pf_allocator *in);

/* From now on the calls of the calling thread are counted. In the child of a fork it has no users. */
static inline void pf_allocator_claim(struct pf_allocator *in)
{
	if (in->thread != pf_thread_token())
		pf_allocator_claim_anew(in);
}

/* Reads some of the counts, as differences from those when it was made. */
struct pf_block_reader {
	struct pf_allocator *in; /* NULL: it is closed */
	struct pf_blocks from;
	uint64_t opened_ns;
	uint32_t generation; /* the allocator's when it was made */
	uint32_t n;
	uint16_t at[]; /* the offset of each field of struct pf_blocks */
};

/* Fill n values, each at its place of values[i * stride]. Returns the time since it was made, which the values are of, or 0: it is
 * closed. */
uint64_t pf_block_reader_read(const struct pf_block_reader *b, uint64_t *values, unsigned stride);

/* Call it after a change of `users`, and after a change of a watcher's `due` outside its functions. */
void pf_allocator_refresh(struct pf_allocator *in);

void pf_allocator_watch(struct pf_allocator *in, struct pf_watcher *w);
void pf_allocator_unwatch(struct pf_allocator *in, struct pf_watcher *w); /* idempotent */

#endif

/* Samples the blocks that an interpreter's allocator gives: how many bytes each Lua line allocated, or allocated and did not free.
 *
 * A Lua state calls its allocator for each block of memory. While a sampler of allocations runs, a struct pf_allocator stands in
 * front of that allocator. It counts all blocks exactly, and takes the stacks of some of them in the call itself. The bytes between
 * two samples are exponentially distributed, so a block of n bytes is sampled with the probability p = 1 - e^(-n / period), wherever
 * it comes, and it stands for n / p bytes in 1 / p blocks. With a period of 1 each block is a sample that stands for itself.
 *
 * A block that is made larger or smaller counts as freed and allocated anew, as the interpreter's own count has it. */
#ifndef PF_ALLOCATIONS_H
#define PF_ALLOCATIONS_H

#include <stdatomic.h>

#include "core/profile/sampler.h"

/* The interpreter's type of an allocator's function. */
typedef void *pf_allocate(void *ud, void *block, size_t old_size, size_t size);

struct pf_allocations;

/* Stands in front of a Lua state's allocator. It is never freed: the program may have noted it as the state's allocator, and may call
 * it later, even in other threads for other Lua states. So only the calls of one thread are counted. */
struct pf_allocator {
	pf_allocate *next; /* the allocator behind it; this one and the next member never change */
	void *next_ud;
	struct pf_allocator *older; /* of the same state */
	atomic_uint thread; /* pf_thread_token of the thread that is counted: the one that started a profiler last */
	struct pf_allocations *running; /* linked by `next` */
	uint32_t generation; /* pf_fork_generation of the process that started the running ones */
};

enum { PF_BORN_BITS = 30, PF_BORN = (1 << PF_BORN_BITS) - 1 };

/* A sampled block that is not freed. */
struct pf_live {
	uint64_t block; /* its address; 0: none */
	uint64_t weight, count;
	uint32_t node;
	uint32_t born : PF_BORN_BITS; /* the low bits of `collections` when it was allocated */
	uint32_t is_young : 1, is_freed : 1; /* while the weights are read */
};

struct pf_allocations {
	struct pf_sampler *s; /* has the stacks */
	struct pf_allocator *in;
	struct pf_allocations *next;
	double period, left; /* bytes between two samples, on average; and until the next one */
	uint64_t random;
	uint32_t node; /* the stack of the block that is being allocated, if it is a sample */
	int is_sample;
	int is_read; /* between pf_allocations_read and pf_allocations_resume */
	uint64_t bytes, blocks, freed_bytes, freed_blocks; /* exact */
	int is_live; /* the weights are those of the blocks that are not freed */
	uint64_t survived; /* and that have survived this number of collections */
	uint32_t collections; /* that have ended since the start */
	struct pf_live *live; /* open addressing, at most three quarters full */
	uint32_t live_n, live_room; /* room: a power of two */
};

/* The lua_Alloc function of a struct pf_allocator, which is its `ud`. */
pf_allocate pf_allocator_call;

/* Start. is_live and survived are set before, and pf_sampler_init has prepared the sampler without an event. period: at least 1. Returns
 * 0 or -ENOMEM. */
int pf_allocations_start(struct pf_allocations *a, struct pf_sampler *s, struct pf_allocator *in, uint64_t period);
/* From here to pf_allocations_resume, the weights are those of the blocks that live now and have survived enough collections, and do not
 * change: what is freed meanwhile is subtracted later, and what is allocated meanwhile is not sampled. */
void pf_allocations_read(struct pf_allocations *a);
void pf_allocations_resume(struct pf_allocations *a); /* idempotent */
/* The opposite of the start; idempotent. In the child of a fork the samples of the child's own blocks are missing. */
void pf_allocations_stop(struct pf_allocations *a);
void pf_allocations_free(struct pf_allocations *a);

#endif

/* Samples the blocks that an interpreter's allocator gives: how many bytes each Lua line allocated, or allocated and did not free.
 *
 * The stacks of some blocks are taken in the call of the allocator itself. The bytes between two samples are exponentially
 * distributed, so a block of n bytes is sampled with the probability p = 1 - e^(-n / period), wherever it comes, and it stands for
 * n / p bytes in 1 / p blocks. With a period of 1 each block is sampled, with its own size as its weight.
 *
 * The sums of the stacks are what was allocated. Live memory is added up on request, from a table of the sampled blocks that
 * are not freed. */
#ifndef PF_ALLOCATIONS_H
#define PF_ALLOCATIONS_H

#include "core/memory/allocator.h"
#include "core/profile/sampler.h"

/* A sampled block that is not freed. */
struct pf_live {
	uint64_t block; /* its address; 0: none */
	uint64_t size;
	uint32_t node;
	uint32_t born; /* `collections` when it was allocated */
};

struct pf_allocations {
	struct pf_watcher watcher;
	struct pf_sampler *s; /* has the stacks */
	struct pf_allocator *in;
	double period; /* bytes between two samples, on average */
	uint64_t random;
	uint32_t node; /* the stack of the block that is being allocated, if it is a sample */
	int is_read; /* between pf_allocations_read and pf_allocations_resume */
	uint64_t left; /* meanwhile: bytes until the watcher is due */
	struct pf_blocks start, stop; /* the allocator's counts then; `stop` while it is read or when it has stopped */
	const void *strings; /* the interpreter's table of strings, or NULL; and whether an allocation is of it */
	int (*resizes)(const void *strings, const void *old, size_t size);
	int is_live; /* the weights are those of the blocks that are not freed */
	uint64_t survived; /* and that have survived this number of collections */
	uint32_t collections; /* that have ended since the start */
	struct pf_live *live; /* open addressing, at most 13/16 full, and 13/32 just after it has grown */
	uint32_t *sieve; /* the watcher's, behind `live`: 16 bits for each place, so a block takes 64 bytes at most of both */
	uint32_t live_n, live_room; /* room: a power of two */
	struct pf_sum *alive; /* while it is read or when it has stopped: live memory, by the numbers of the stacks' sums */
	uint32_t alive_room;
	uint64_t alive_sum; /* their weight */
};

/* Start. strings, resizes, is_live and survived are set before, and pf_sampler_init has prepared the sampler without an event. period: at least 1. Returns
 * 0 or -ENOMEM. */
int pf_allocations_start(struct pf_allocations *a, struct pf_sampler *s, struct pf_allocator *in, uint64_t period);
/* Pause, and add up live memory: nothing that is allocated from here to pf_allocations_resume is sampled, so that the work of reading is
 * in no profile. Returns 0 or -ENOMEM. */
int pf_allocations_read(struct pf_allocations *a);
void pf_allocations_resume(struct pf_allocations *a); /* idempotent */
/* The opposite of the start; idempotent. In the child of a fork the samples of the child's own blocks are missing. Returns 0, or -ENOMEM
 * if live memory could not be added up. */
int pf_allocations_stop(struct pf_allocations *a);
void pf_allocations_free(struct pf_allocations *a);
size_t pf_allocations_memory(const struct pf_allocations *a); /* of the table of live blocks */

/* While it is read, or after the stop: the exact counts of all blocks, without those of its reading if the weights are of all blocks;
 * and the sum of the weights, or for all blocks their bytes. */
struct pf_blocks pf_allocations_blocks(const struct pf_allocations *a);
uint64_t pf_allocations_total(const struct pf_allocations *a);

#endif

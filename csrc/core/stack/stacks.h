/* Stacks, interned: what a profiler adds up.
 *
 *   text      bytes; a text is its offset, 0 for none
 *   function  a Lua function: where it is defined and what it is called
 *   frame     one line of a function, one C function, one address ...: {kind, key, line}
 *   node      a stack, as the stack of its caller (parent) and its innermost frame
 *   sum       weight and count of a stack alone: few nodes are the innermost of one that was sampled
 *
 * Node 0 is the empty stack, and the end of every other. Each kind lives in an array that grows where it is, by a quarter once it
 * is large, found by a table of hashes. A million stacks that end in two frames of their own each take 60 MB. Memory comes from
 * mmap, never from malloc: a profiler of malloc must not count itself; and it subtracts its own page faults. If there is no more
 * memory, an operation returns an error and the owner adds to an existing node. No operation may be interrupted by another one:
 * the owner (sampler.h) ensures that. */
#ifndef PF_STACKS_H
#define PF_STACKS_H

#include <stddef.h>
#include <stdint.h>

enum pf_frame_kind {
	PF_FRAME_LUA = 1, /* key: function, line: the line */
	PF_FRAME_C,       /* key: function, whose source_key is its code's address and line -1 */
	PF_FRAME_STATE,   /* key: enum pf_state */
	PF_FRAME_ZONE,    /* key: number of the zone; always next to the root */
	PF_FRAME_USER,    /* key: address */
	PF_FRAME_KERNEL,  /* key: address */
};

struct pf_function {
	uint64_t source_key; /* what tells sources apart: the address of the name that Lua keeps */
	uint32_t hash;       /* of short_src */
	int32_t line;        /* of the definition; 0 for a file's own code */
	uint32_t source, short_src, name;
	uint32_t hidden; /* 1: not to be shown */
};

struct pf_frame {
	uint64_t key;
	uint32_t line;
	uint32_t kind;
};

struct pf_node {
	uint32_t parent, frame;
	uint32_t sum;
};

struct pf_sum {
	uint64_t weight, count;
};

struct pf_array {
	void *items; /* from 1 on; sums have a 0 */
	uint32_t n, room;
	uint32_t *slot; /* open addressing, at most three quarters full; none for sums */
	uint32_t slots; /* a power of two */
	uint32_t size;  /* of an item */
};

struct pf_stacks {
	struct pf_array functions, frames, nodes, sums;
	char *text;
	uint32_t text_n, text_room;
	uint32_t failed; /* what there was no memory for */
};

/* 0 or -ENOMEM; free after either. */
int pf_stacks_init(struct pf_stacks *s);
void pf_stacks_free(struct pf_stacks *s); /* idempotent */

/* Bytes that are held. */
size_t pf_stacks_memory(const struct pf_stacks *s);

/* The offset of a copy of the text; 0 for NULL, for an empty one, and without memory. */
uint32_t pf_stacks_text(struct pf_stacks *s, const char *text);
const char *pf_stacks_text_at(const struct pf_stacks *s, uint32_t offset);

/* The function that was defined there; 0 when it is not known. */
uint32_t pf_stacks_find_function(const struct pf_stacks *s, uint64_t source_key, uint32_t hash, int32_t line);
/* Makes it; 0 without memory. f->line, source_key and hash are its identity. */
uint32_t pf_stacks_add_function(struct pf_stacks *s, const struct pf_function *f);

/* Interned; 0 without memory. */
uint32_t pf_stacks_frame(struct pf_stacks *s, enum pf_frame_kind kind, uint64_t key, uint32_t line);
/* 0 also when frame is 0. */
uint32_t pf_stacks_child(struct pf_stacks *s, uint32_t parent, uint32_t frame);

/* The child of a child ... of parent, by n frames of which the innermost is the first. 0 when one of them has no room. */
uint32_t pf_stacks_path(struct pf_stacks *s, uint32_t parent, const uint32_t *frames, unsigned n);

/* 0, or -ENOMEM and nothing was added. It cannot fail for a node that has been added to before. */
int pf_stacks_add(struct pf_stacks *s, uint32_t node, uint64_t weight, uint64_t count);

static inline struct pf_function *pf_stacks_function_at(const struct pf_stacks *s, uint32_t i)
{
	return (struct pf_function *)s->functions.items + i;
}

static inline struct pf_frame *pf_stacks_frame_at(const struct pf_stacks *s, uint32_t i)
{
	return (struct pf_frame *)s->frames.items + i;
}

static inline struct pf_node *pf_stacks_node_at(const struct pf_stacks *s, uint32_t i)
{
	return (struct pf_node *)s->nodes.items + i;
}

/* Of a node. */
static inline struct pf_sum *pf_stacks_sum_at(const struct pf_stacks *s, uint32_t node)
{
	return (struct pf_sum *)s->sums.items + (node ? pf_stacks_node_at(s, node)->sum : 0);
}

/* Of a text. */
uint32_t pf_stacks_hash(const char *text);

#endif

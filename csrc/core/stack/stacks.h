/* The stacks of a profile, interned, with the sum of the samples of each.
 *
 *   text      bytes; a text is an offset in them, 0 for none
 *   function  a Lua function: the place of its definition and its name
 *   frame     one line of a function, one C function, one address ...: {kind, key, line}
 *   node      a stack, stored as the node of its caller (parent) and its innermost frame
 *   sum       weight and count of one stack, kept apart because most nodes are only parts of sampled stacks
 *
 * Node 0 is the empty stack, the root of all others. Items of one type are kept in an array, which grows in place, by a quarter
 * once it is large, and are found by a hash table. A million stacks that each end in two frames of their own take 60 MB. Memory
 * comes from mmap, never from malloc: a profiler of malloc must not count its own calls. (It subtracts its own page faults.)
 * Without memory an operation returns an error, and the owner adds to an existing node. No operation may interrupt another one:
 * the owner (sampler.h) ensures that. */
#ifndef PF_STACKS_H
#define PF_STACKS_H

#include <stddef.h>
#include <stdint.h>

enum pf_frame_kind {
	PF_FRAME_LUA = 1, /* key: function, line: the line */
	PF_FRAME_RANGE,   /* key: function, and the last line in the upper half; line: the first line */
	PF_FRAME_C,       /* key: function, whose source_key is its code's address and line -1 */
	PF_FRAME_STATE,   /* key: enum pf_state */
	PF_FRAME_ZONE,    /* key: number of the zone; always the outermost frame */
	PF_FRAME_USER,    /* key: address; line: of another process, the number of its image */
	PF_FRAME_KERNEL,  /* key: address */
	PF_FRAME_LABEL,   /* key: function, whose name is the label of the sample; always the outermost frame */
};

enum { PF_STACK_DEPTH = 1000 }; /* frames of a stack at most */

struct pf_function {
	uint64_t source_key; /* the address of the chunk's name in Lua's memory; of a C function's code */
	uint32_t hash;       /* hash of the chunk's name */
	int32_t line;        /* the line of its definition; 0 for a file's main chunk */
	uint32_t source, name;
	uint32_t hidden; /* 1: it is not shown */
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
	void *items; /* numbered from 1; sums also have an item 0 */
	uint32_t n, room;
	uint32_t *slot; /* open addressing, at most three quarters full; none for sums */
	uint32_t slots; /* a power of two */
	uint32_t size;  /* bytes of an item */
};

struct pf_stacks {
	struct pf_array functions, frames, nodes, sums;
	char *text;
	uint32_t text_n, text_room;
	uint32_t path, path_n; /* the last node of pf_stacks_path, and the n of that call */
};

/* 0 or -ENOMEM; call pf_stacks_free after either. */
int pf_stacks_init(struct pf_stacks *s);
void pf_stacks_free(struct pf_stacks *s); /* idempotent */

/* The memory it uses, in bytes. */
size_t pf_stacks_memory(const struct pf_stacks *s);

/* The offset of room for a text of n bytes, which the caller writes to *text, and a zero byte; 0 for an empty one, and without
 * memory. */
uint32_t pf_stacks_text(struct pf_stacks *s, size_t n, char **text);
const char *pf_stacks_text_at(const struct pf_stacks *s, uint32_t offset);

/* The number of a function, by its identity; 0 if it was not added. */
uint32_t pf_stacks_find_function(const struct pf_stacks *s, uint64_t source_key, uint32_t hash, int32_t line);
/* Add a function, identified by source_key, hash and line. Returns its number, 0 without memory. */
uint32_t pf_stacks_add_function(struct pf_stacks *s, const struct pf_function *f);

/* The number of a frame; 0 without memory. */
uint32_t pf_stacks_frame(struct pf_stacks *s, enum pf_frame_kind kind, uint64_t key, uint32_t line);
/* The node of a frame below parent; 0 without memory, or if frame is 0. */
uint32_t pf_stacks_child(struct pf_stacks *s, uint32_t parent, uint32_t frame);

/* The node that n frames, listed innermost first, lead to from parent. 0 without memory. */
uint32_t pf_stacks_path(struct pf_stacks *s, uint32_t parent, const uint32_t *frames, unsigned n);

/* Add to the sum of a node. Returns 0, or -ENOMEM without adding anything. It cannot fail for a node that already has a sum. */
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

/* The sum of a node. */
static inline struct pf_sum *pf_stacks_sum_at(const struct pf_stacks *s, uint32_t node)
{
	return (struct pf_sum *)s->sums.items + (node ? pf_stacks_node_at(s, node)->sum : 0);
}

#endif

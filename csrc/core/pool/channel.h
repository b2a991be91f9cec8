/* A channel: a queue of byte strings between threads that share nothing else. */
#ifndef PF_CHANNEL_H
#define PF_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

struct pf_channel;

struct pf_message {
	struct pf_message *next;
	uint64_t id; /* the sender's */
	size_t size;
	char bytes[];
};

/* Holds at most `most` messages; 0 = as many as memory does. One reference is the caller's. NULL when there is no memory. */
struct pf_channel *pf_channel_new(size_t most);
void pf_channel_ref(struct pf_channel *c);
/* Was it made before a fork, by the parent? A thread that the child does not have may hold its lock for ever, so the child may
 * only release references. */
int pf_channel_inherited(const struct pf_channel *c);
/* Releases a reference; the last one frees the channel and the messages in it. In the child of a fork nothing is freed. */
void pf_channel_unref(struct pf_channel *c);

/* Copies the bytes. Returns 0; -EAGAIN when it is full, -EPIPE when it is closed, -ENOMEM. Never waits. */
int pf_channel_push(struct pf_channel *c, uint64_t id, const void *bytes, size_t size);
/* The oldest message, for the caller to free(). Waits until timeout_ns from now (0: not at all, negative: for ever). Returns 0;
 * -ETIMEDOUT; -EPIPE when it is closed and empty. */
int pf_channel_pop(struct pf_channel *c, int64_t timeout_ns, struct pf_message **out);
/* Takes a message out that nobody has popped. Returns 1, or 0 when it is not there. */
int pf_channel_remove(struct pf_channel *c, uint64_t id);
/* Nothing goes in any more; what is in it can still be popped, unless it is dropped. Returns how many were dropped. */
size_t pf_channel_close(struct pf_channel *c, int drop);
size_t pf_channel_length(struct pf_channel *c);

#endif

/* A channel: a queue of byte strings between threads that share nothing else. */
#ifndef PF_CHANNEL_H
#define PF_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

struct pf_channel;

struct pf_message {
	struct pf_message *next;
	uint64_t id; /* chosen by the sender */
	size_t size;
	char bytes[];
};

/* A channel for at most `most` messages; 0: no limit. The caller has one reference. NULL without memory. */
struct pf_channel *pf_channel_new(size_t most);
void pf_channel_ref(struct pf_channel *c);
/* Whether it was made before a fork, by the parent. A thread that the child does not have may hold its lock for ever, so the
 * child may only release references. */
int pf_channel_inherited(const struct pf_channel *c);
/* Releases a reference; the last one frees the channel and the messages in it. In the child of a fork nothing is freed. */
void pf_channel_unref(struct pf_channel *c);

/* Copies the bytes. Returns 0; -EAGAIN when it is full, -EPIPE when it is closed, -ENOMEM. Never waits. */
int pf_channel_push(struct pf_channel *c, uint64_t id, const void *bytes, size_t size);
/* Take the oldest message, which the caller frees with free(). Waits for at most timeout_ns (0: not at all, negative: without
 * limit). Returns 0; -ETIMEDOUT; -EPIPE if the channel is closed and empty. */
int pf_channel_pop(struct pf_channel *c, int64_t timeout_ns, struct pf_message **out);
/* Remove a message that is still in the channel. Returns 1, or 0 if it is not there. */
int pf_channel_remove(struct pf_channel *c, uint64_t id);
/* Refuse further messages. Those in the channel can still be popped, unless `drop` is set. Returns the number of dropped
 * messages. */
size_t pf_channel_close(struct pf_channel *c, int drop);
size_t pf_channel_length(struct pf_channel *c);

#endif

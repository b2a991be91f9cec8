/* Each channel has one lock and one condition variable: a message is a whole job, which takes far longer than either. Waits use
 * the monotonic clock. */
#include "core/pool/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/thread.h"

struct pf_channel {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct pf_message *first, **last;
	size_t n, most, refs;
	int closed;
	uint32_t generation; /* pf_fork_generation when it was made */
};

struct pf_channel *pf_channel_new(size_t most)
{
	struct pf_channel *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	pf_clock_condition(&c->changed);
	c->last = &c->first;
	c->most = most;
	c->refs = 1;
	c->generation = pf_fork_generation();
	return c;
}

int pf_channel_inherited(const struct pf_channel *c)
{
	return pf_inherited(c->generation);
}

void pf_channel_ref(struct pf_channel *c)
{
	pthread_mutex_lock(&c->lock);
	c->refs++;
	pthread_mutex_unlock(&c->lock);
}

static size_t drop_all(struct pf_channel *c)
{
	size_t n = c->n;

	while (c->first) {
		struct pf_message *m = c->first;

		c->first = m->next;
		free(m);
	}
	c->last = &c->first;
	c->n = 0;
	return n;
}

void pf_channel_unref(struct pf_channel *c)
{
	size_t left;

	if (pf_channel_inherited(c))
		return;
	pthread_mutex_lock(&c->lock);
	left = --c->refs;
	pthread_mutex_unlock(&c->lock);
	if (left > 0)
		return;
	drop_all(c);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

int pf_channel_push(struct pf_channel *c, uint64_t id, const void *bytes, size_t size)
{
	struct pf_message *m = malloc(sizeof *m + size);
	int r = 0;

	if (!m)
		return -ENOMEM;
	*m = (struct pf_message){.id = id, .size = size};
	if (size > 0)
		memcpy(m->bytes, bytes, size);
	pthread_mutex_lock(&c->lock);
	if (c->closed) {
		r = -EPIPE;
	} else if (c->most > 0 && c->n >= c->most) {
		r = -EAGAIN;
	} else {
		*c->last = m;
		c->last = &m->next;
		c->n++;
		pthread_cond_signal(&c->changed);
	}
	pthread_mutex_unlock(&c->lock);
	if (r < 0)
		free(m);
	return r;
}

int pf_channel_pop(struct pf_channel *c, int64_t timeout_ns, struct pf_message **out)
{
	const struct timespec till = pf_clock_after(timeout_ns > 0 ? timeout_ns : 0);
	int r = 0;

	pthread_mutex_lock(&c->lock);
	while (!c->first && !c->closed && r == 0) {
		if (timeout_ns < 0)
			pthread_cond_wait(&c->changed, &c->lock);
		else
			r = timeout_ns == 0 ? ETIMEDOUT : pthread_cond_timedwait(&c->changed, &c->lock, &till);
	}
	if (c->first) {
		struct pf_message *m = c->first;

		c->first = m->next;
		if (!c->first)
			c->last = &c->first;
		c->n--;
		*out = m;
		r = 0;
	} else {
		r = c->closed ? -EPIPE : -ETIMEDOUT;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

int pf_channel_remove(struct pf_channel *c, uint64_t id)
{
	int found = 0;

	pthread_mutex_lock(&c->lock);
	for (struct pf_message **at = &c->first; *at; at = &(*at)->next) {
		struct pf_message *m = *at;

		if (m->id != id)
			continue;
		*at = m->next;
		if (c->last == &m->next)
			c->last = at;
		c->n--;
		free(m);
		found = 1;
		break;
	}
	pthread_mutex_unlock(&c->lock);
	return found;
}

size_t pf_channel_close(struct pf_channel *c, int drop)
{
	size_t n = 0;

	pthread_mutex_lock(&c->lock);
	c->closed = 1;
	if (drop)
		n = drop_all(c);
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return n;
}

size_t pf_channel_length(struct pf_channel *c)
{
	size_t n;

	pthread_mutex_lock(&c->lock);
	n = c->n;
	pthread_mutex_unlock(&c->lock);
	return n;
}

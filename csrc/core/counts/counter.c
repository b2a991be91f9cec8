/* Reading formats (read_format decides; every field is a u64):
 *
 *   one event:  value [enabled] [running] [id] [lost]
 *   GROUP:      nr [enabled] [running] { value [id] [lost] } x nr
 */
#include "core/counts/counter.h"

#include "core/base/sys.h"
#include "core/counts/meter.h"

int pf_counter_ioctl_ptr(const struct pf_counter *c, unsigned long request, void *arg)
{
	int r = pf_counter_usable(c);

	return r < 0 ? r : pf_sys->ioctl(c->fd, request, arg);
}

int pf_counter_ioctl(const struct pf_counter *c, unsigned long request, unsigned long arg)
{
	return pf_counter_ioctl_ptr(c, request, (void *)(uintptr_t)arg);
}

int pf_counter_enable(struct pf_counter *c)
{
	int r = pf_counter_usable(c);

	if (r < 0)
		return r;
	if (c->user.may) /* map the page before the event counts; without it, readings are system calls */
		pf_user_map(&c->user);
	r = pf_sys->ioctl(c->fd, PF_IOC_ENABLE, NULL);
	if (r >= 0)
		pf_counter_set(c, 1);
	return r;
}

int pf_counter_reset(struct pf_counter *c)
{
	int r = pf_counter_ioctl(c, PF_IOC_RESET, 0);
	uint64_t words[PF_COUNTER_WORDS], own;

	if (r == 0)
		pf_own_reset_event(c);
	if (r == 0 && (c->format & ~PF_FORMAT(LOST)) == PF_COUNTER_FORMAT &&
	    pf_counter_read_own(c, words, PF_COUNTER_WORDS, &own) >= PF_COUNTER_VALUES)
		c->reset_at = words[1];
	return r;
}

int pf_counter_disable(struct pf_counter *c)
{
	int r = pf_counter_ioctl(c, PF_IOC_DISABLE, 0);

	if (r >= 0)
		pf_counter_set(c, 0);
	return r;
}

int pf_counter_user(struct pf_counter *c, uint64_t *words)
{
	struct pf_user *user = &c->user;
	uint64_t group[3 + 2]; /* nr enabled running value id */
	int r = (c->format & ~PF_FORMAT(LOST)) != PF_COUNTER_FORMAT ? -ENOTSUP
		: c->format != PF_COUNTER_FORMAT ? -EAGAIN : pf_user_read(&user, 1, group);

	if (r < 0)
		return r;
	words[0] = group[3];
	words[1] = group[1];
	words[2] = group[2];
	words[3] = group[4];
	return 0;
}

/* plain: for the program, not for a measurement. Inlined, so that no return lies between a system call and the caller: see meter.c. */
static inline __attribute__((always_inline)) int read_one(struct pf_counter *c, uint64_t *words, int plain)
{
	const struct pf_own_words at = {0, PF_COUNTER_ID, PF_COUNTER_WORDS};
	ssize_t got;

	if (c->user.page && pf_counter_user(c, words) == 0)
		return 0;
	got = plain ? pf_sys->read(c->fd, words, PF_COUNTER_WORDS * sizeof *words)
		    : pf_own_read(c->fd, words, PF_COUNTER_WORDS * sizeof *words, at);
	return got >= (ssize_t)(PF_COUNTER_VALUES * sizeof *words) ? 0 : got < 0 ? (int)got : -ENODATA;
}

int pf_counter_begin(struct pf_counter *c, uint64_t *words)
{
	int r = pf_counter_usable(c);

	if (r < 0)
		return r;
	if ((c->format & ~PF_FORMAT(LOST)) != PF_COUNTER_FORMAT)
		return -ENOTSUP;
	if (pf_counter_state(c) != PF_COUNTER_ON) {
		if (c->user.may) /* not between pf_own_enter and _exit: mapping makes other system calls */
			pf_user_map(&c->user);
		pf_own_enter(PF_OWN_IOCTL);
		r = pf_counter_enable(c);
		pf_own_exit(PF_OWN_IOCTL);
		if (r < 0)
			return r;
	}
	return read_one(c, words, 0);
}

int pf_counter_take(struct pf_counter *c, uint64_t *words)
{
	int r = pf_counter_usable(c);

	if (r < 0)
		return r;
	if ((c->format & ~(c->hidden & PF_FORMAT(LOST))) != PF_COUNTER_FORMAT)
		return -ENOTSUP;
	return read_one(c, words, 1);
}

int pf_counter_end(struct pf_counter *c, uint64_t *words)
{
	uint64_t now[PF_COUNTER_WORDS];
	int r = pf_counter_usable(c);

	if (r == 0)
		r = read_one(c, now, 0);
	if (r < 0)
		return r;
	words[0] = c->reset_at > words[1] ? PF_COUNT_FELL : pf_count_since(words[0], now[0]);
	for (int i = 1; i < 3; i++) /* the times of read(2) and of the user page may differ slightly */
		words[i] = now[i] > words[i] ? now[i] - words[i] : 0;
	words[3] = now[3];
	return 0;
}

ssize_t pf_counter_read(const struct pf_counter *c, uint64_t *words, size_t nwords)
{
	ssize_t got = pf_counter_usable(c);

	if (got < 0)
		return got;
	got = pf_sys->read(c->fd, words, nwords * sizeof *words);
	return got < 0 ? got : got / (ssize_t)sizeof *words;
}

ssize_t pf_counter_read_own(const struct pf_counter *c, uint64_t *words, size_t nwords, uint64_t *own)
{
	ssize_t n;

	pf_own_enter(PF_OWN_READ);
	n = pf_counter_read(c, words, nwords);
	*own = c->own.count;
	pf_own_exit(PF_OWN_READ);
	return n;
}

ssize_t pf_read_decode(uint64_t format, const uint64_t *words, size_t n, struct pf_reading *out)
{
	const int group = (format & PF_FORMAT(GROUP)) != 0, ids = (format & PF_FORMAT(ID)) != 0, lost = (format & PF_FORMAT(LOST)) != 0;
	const size_t times = (format & PF_FORMAT(TOTAL_TIME_ENABLED) ? 1 : 0) + (format & PF_FORMAT(TOTAL_TIME_RUNNING) ? 1 : 0);
	const unsigned stride = (unsigned)(1 + ids + lost);
	size_t at = 1;
	unsigned next; /* the offset of what follows a value */

	*out = (struct pf_reading){.format = format, .nr = 1, .stride = stride, .values = words};
	if (n < times + (group ? 1 : stride))
		return -EBADMSG;
	if (format & PF_FORMAT(TOTAL_TIME_ENABLED))
		out->enabled = words[at++];
	if (format & PF_FORMAT(TOTAL_TIME_RUNNING))
		out->running = words[at++];
	if (group) {
		out->nr = words[0];
		if (out->nr > (n - at) / stride)
			return -EBADMSG;
		out->values = words + at;
	}
	next = group ? 1 : (unsigned)at; /* the times of one event stand between its value and its id */
	out->id_at = ids ? next++ : 0;
	out->lost_at = lost ? next++ : 0;
	return (ssize_t)(group ? at + out->nr * stride : next);
}

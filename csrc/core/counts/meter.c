/* Wall time is read first and last, and groups are read in the same order at both ends, so that every group covers the measured
 * code and as little other code as possible. */
#include "core/counts/meter.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/sys.h"
#include "core/base/thread.h"
#include "core/base/clock.h"

/* After a system call the CPU has lost its predictions of return addresses (the kernel clears them), so each return after a read
 * costs some 20 cycles: the code between a reading and the caller is inlined. */
#define INLINE static inline __attribute__((always_inline))

struct pf_counter pf_no_leader = {.fd = -1, .state = PF_COUNTER_ON};

static int read_usage(uint64_t *times, uint64_t *values)
{
	struct rusage ru;

	times[0] = times[1] = values[PF_USAGE_TASK_CLOCK] = pf_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (getrusage(RUSAGE_THREAD, &ru) < 0)
		return -errno;
	values[PF_USAGE_PAGE_FAULTS] = (uint64_t)ru.ru_minflt + (uint64_t)ru.ru_majflt;
	values[PF_USAGE_CONTEXT_SWITCHES] = (uint64_t)ru.ru_nvcsw + (uint64_t)ru.ru_nivcsw;
	return 0;
}

/* nr enabled running {value id [lost]}..., or value enabled running id [lost] of an event alone: the times are at the same places. */
enum { HEAD = 3, STRIDE = 2, WORDS = HEAD + (STRIDE + 1) * PF_METER_MAX_GROUP };

/* The places of the first value and of its id in the words of a group. */
INLINE uint32_t value_at(const struct pf_meter_group *g)
{
	return g->alone ? 0 : HEAD;
}

INLINE uint32_t id_at(const struct pf_meter_group *g)
{
	return g->alone ? PF_COUNTER_ID : HEAD + 1;
}

static int read_blocks(const struct pf_meter_group *g, uint64_t *words)
{
	words[1] = words[2] = pf_block_reader_read(g->blocks, words + HEAD, STRIDE);
	for (uint32_t i = 0; i < g->n; i++)
		words[HEAD + STRIDE * i + 1] = 0; /* the kernel's ids begin with 1 */
	return words[1] ? 0 : -EBADF;
}

/* Read a group into words[WORDS]; plain: for the program, not for a measurement. A pinned group that lost its counter reads as end
 * of file until it is enabled again. Then the times are UINT64_MAX, so that no later reading seems to have run longer. */
INLINE int read_group(const struct pf_meter_group *g, uint64_t *words, int plain)
{
	const size_t n = g->alone ? (size_t)PF_COUNTER_VALUES + g->lost : HEAD + (STRIDE + (size_t)g->lost) * g->n;
	ssize_t got;

	if (g->leader->fd < 0)
		return g->blocks ? read_blocks(g, words) : -EBADF;
	if (g->users && (g->alone ? pf_counter_user(g->leader, words) : pf_user_read(g->users, g->n, words)) == 0)
		return 0;
	got = plain ? pf_sys->read(g->leader->fd, words, n * sizeof *words)
		    : pf_own_read(g->leader->fd, words, n * sizeof *words,
				  (struct pf_own_words){(uint8_t)value_at(g), (uint8_t)id_at(g), (uint8_t)(STRIDE + g->lost)});
	if (got == (ssize_t)(n * sizeof *words))
		return 0;
	if (got < 0)
		return (int)got;
	if (got > 0) /* fewer counts: a member was closed, and the rest cannot be assigned */
		return -EBADF;
	for (size_t i = 0; i < n; i++)
		words[i] = 0;
	words[1] = words[2] = UINT64_MAX;
	return 0;
}

/* Clocks that are read in two ways may differ slightly. */
static uint64_t elapsed(uint64_t from, uint64_t to)
{
	return from == UINT64_MAX || to == UINT64_MAX || to < from ? 0 : to - from;
}

/* The positions of the parts of Counts. */
struct parts {
	uint64_t *times, *values, *ids;
};

static struct parts parts_of(const struct pf_meter *m, struct pf_counts *c)
{
	uint64_t *times = c->v + 1, *values = times + 2 * (m->ngroups ? m->ngroups : 1);

	return (struct parts){times, values, values + m->nvalues};
}

INLINE int read_all(const struct pf_meter *m, struct pf_counts *c, int plain)
{
	struct parts p = parts_of(m, c);
	uint64_t words[WORDS];

	c->n = pf_meter_words(m);
	c->reset_ns = 0;
	if (m->ngroups == 0)
		return read_usage(p.times, p.values);
	for (uint32_t i = 0; i < m->ngroups; i++) {
		const struct pf_meter_group *g = &m->group[i];
		int r = read_group(g, words, plain);

		if (r < 0)
			return r;
		*p.times++ = words[1];
		*p.times++ = words[2];
		for (uint32_t k = 0, value = value_at(g), id = id_at(g); k < g->n; k++, value += STRIDE + g->lost, id += STRIDE + g->lost) {
			*p.values++ = words[value];
			*p.ids++ = words[id];
		}
	}
	return 0;
}

/* own: the calls are made for a measurement. A leader enables and disables its members too, but each member is reset separately. */
static int switch_groups(struct pf_meter *m, unsigned long request, int own)
{
	void *flag = (void *)(uintptr_t)(request == PF_IOC_RESET ? PF_IOC_FLAG_GROUP : 0);
	uint64_t before = pf_wall_ns();

	if (pf_inherited(m->generation))
		return -ECHILD;
	m->fresh = 0;
	for (uint32_t i = 0; i < m->ngroups; i++) {
		const struct pf_meter_group *g = &m->group[i];
		int r;

		if (g->blocks)
			continue;
		if (g->users && request == PF_IOC_ENABLE) /* before the event counts; without pages read(2) is used */
			for (uint32_t k = 0; k < g->n; k++)
				pf_user_map(g->users[k]);
		if (own)
			pf_own_enter(PF_OWN_IOCTL);
		r = pf_counter_ioctl_ptr(g->leader, request, flag);
		if (r >= 0 && request != PF_IOC_RESET)
			pf_counter_set(g->leader, request == PF_IOC_ENABLE);
		if (own)
			pf_own_exit(PF_OWN_IOCTL);
		if (r < 0)
			return r;
		if (request == PF_IOC_RESET)
			pf_own_reset_group(g->leader);
	}
	switch (request) {
	case PF_IOC_ENABLE:
		if (!m->since_ns)
			m->since_ns = before;
		break;
	case PF_IOC_DISABLE:
		m->wall_ns += m->since_ns ? pf_wall_ns() - m->since_ns : 0;
		m->since_ns = 0;
		break;
	case PF_IOC_RESET:
		m->reset_ns = pf_wall_ns();
		m->wall_ns = 0;
		if (m->since_ns)
			m->since_ns = before;
		break;
	}
	return 0;
}

int pf_meter_ioctl(struct pf_meter *m, unsigned long request)
{
	return switch_groups(m, request, 0);
}

static void disable_idle(struct pf_meter *m)
{
	if (m->running == 0)
		switch_groups(m, PF_IOC_DISABLE, 1);
}

INLINE int all_on(const struct pf_meter *m)
{
	for (uint32_t i = 0; i < m->ngroups; i++)
		if (pf_counter_state(m->group[i].leader) != PF_COUNTER_ON)
			return 0;
	return 1;
}

int pf_meter_begin(struct pf_meter *m, struct pf_counts *c)
{
	int r;

	if (m->owner != 0 && m->owner != pf_thread_token())
		return -ESRCH;
	if (pf_inherited(m->generation))
		return -ECHILD;
	if (!m->since_ns || !all_on(m)) {
		const uint32_t fresh = m->fresh;

		c->v[0] = pf_wall_ns();
		r = switch_groups(m, PF_IOC_ENABLE, 1);
		if (r < 0)
			return r;
		if (fresh) { /* all counts are 0: no read is needed */
			c->n = pf_meter_words(m);
			c->reset_ns = 0;
			memset(c->v + 1, 0, (c->n - 1) * sizeof *c->v);
			m->running++;
			m->used_ns = c->v[0];
			return 0;
		}
	}
	m->used_ns = c->v[0] = pf_wall_ns();
	r = read_all(m, c, 0);
	if (r == 0) {
		m->running++;
		return (int)m->needs;
	}
	if (m->rests)
		disable_idle(m);
	return r;
}

void pf_meter_begin_memory(const struct pf_meter *m, struct pf_counts *c)
{
	uint64_t *values = parts_of(m, c).values, words[WORDS];

	for (uint32_t i = 0; i < m->ngroups; values += m->group[i++].n)
		if (m->group[i].blocks && read_blocks(&m->group[i], words) == 0)
			for (uint32_t k = 0; k < m->group[i].n; k++)
				values[k] = words[HEAD + STRIDE * k];
}

/* The result, in the child of a fork, of a measurement that the parent began. */
static int end_inherited(const struct pf_meter *m, struct pf_counts *c)
{
	uint64_t began = c->v[0];

	memset(c->v, 0, pf_meter_words(m) * sizeof *c->v);
	for (uint64_t *t = c->v + 1; t < parts_of(m, c).values; t += 2)
		t[1] = PF_METER_INHERITED;
	c->v[0] = pf_wall_ns() - began;
	return 0;
}

INLINE int read_end(const struct pf_meter *m, struct pf_counts *c)
{
	struct parts p = parts_of(m, c);
	uint64_t words[WORDS];
	int reset;

	if (pf_inherited(m->generation))
		return end_inherited(m, c);
	if (m->ngroups == 0) {
		uint64_t now[PF_USAGE_COUNT] = {0}, t[2];
		int r = read_usage(t, now);

		if (r < 0)
			return r;
		p.times[0] = t[0] - p.times[0];
		p.times[1] = t[1] - p.times[1];
		for (uint32_t k = 0; k < m->nvalues; k++)
			p.values[k] = pf_count_since(p.values[k], now[k]);
	}
	reset = m->reset_ns > c->v[0];
	for (uint32_t i = 0; i < m->ngroups; i++, p.times += 2) {
		const struct pf_meter_group *g = &m->group[i];
		int r = read_group(g, words, 0);

		if (r < 0)
			return r;
		p.times[0] = elapsed(p.times[0], words[1]);
		p.times[1] = elapsed(p.times[1], words[2]);
		for (uint32_t k = 0, value = value_at(g), id = id_at(g); k < g->n; k++, value += STRIDE + g->lost, id += STRIDE + g->lost) {
			*p.values = reset ? PF_COUNT_FELL : pf_count_since(*p.values, words[value]);
			if (*p.ids == 0) /* the start was not read */
				*p.ids = words[id];
			p.values++;
			p.ids++;
		}
	}
	c->v[0] = pf_wall_ns() - c->v[0];
	return 0;
}

int pf_meter_end(struct pf_meter *m, struct pf_counts *c)
{
	int r = read_end(m, c);

	if (m->running)
		m->running--;
	if (!m->rests)
		return r;
	disable_idle(m);
	return r < 0 ? r : 1;
}

void pf_meter_forget(struct pf_meter *m)
{
	static struct pf_counter closed = {.fd = -1};

	for (uint32_t i = 0; i < m->ngroups; i++) {
		m->group[i].leader = &closed;
		m->group[i].blocks = NULL;
	}
}

void pf_meter_abandon(struct pf_meter *m)
{
	if (m->running)
		m->running--;
	if (m->rests && (m->owner == 0 || m->owner == pf_thread_token()))
		disable_idle(m);
}

INLINE int snap(const struct pf_meter *m, struct pf_counts *c, int plain)
{
	struct parts p = parts_of(m, c);
	int r;

	if (pf_inherited(m->generation))
		return -ECHILD;
	r = read_all(m, c, plain);
	for (uint32_t i = 0; i < 2 * m->ngroups; i++)
		p.times[i] = elapsed(0, p.times[i]);
	c->reset_ns = m->reset_ns;
	c->v[0] = m->wall_ns + (m->since_ns ? pf_wall_ns() - m->since_ns : 0);
	return r;
}

int pf_meter_snap(const struct pf_meter *m, struct pf_counts *c)
{
	return snap(m, c, 1);
}

int pf_meter_mark(const struct pf_meter *m, struct pf_counts *c)
{
	return snap(m, c, 0);
}

int pf_counts_add(const struct pf_meter *m, struct pf_counts *into, const struct pf_counts *from, int take)
{
	const uint32_t words = pf_meter_words(m), ids = words - m->nvalues, values = ids - m->nvalues;

	if (into->n != words || from->n != words)
		return -EINVAL;
	for (uint32_t i = 0; i < values; i++) {
		uint64_t a = into->v[i], b = from->v[i];

		into->v[i] = !take ? a + b : a > b ? a - b : 0;
	}
	for (uint32_t i = values; i < ids; i++) {
		uint64_t a = into->v[i], b = from->v[i];

		into->v[i] = a == PF_COUNT_FELL || b == PF_COUNT_FELL ? PF_COUNT_FELL : take ? pf_count_since(b, a) : a + b;
	}
	return 0;
}

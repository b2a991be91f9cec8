/* Wall time is taken outermost and groups are read in the same order at both ends, so that every group covers the
 * measured code and as little else as the others. */
#include "meter.h"

#include <errno.h>

#include "sys.h"
#include "usage.h"

static int read_usage(uint64_t *times, uint64_t *values)
{
	int r = pf_usage_read(values);

	times[0] = times[1] = values[PF_USAGE_TASK_CLOCK];
	return r;
}

/* One group into words[3 + n]. A pinned group that lost its counter reads as end of file, and stays so until it is
 * enabled again: times of UINT64_MAX stand for it at the start, so that no later reading seems to have run longer. */
static int read_group(const struct pf_meter_group *g, uint64_t *words)
{
	const size_t size = (3 + g->n) * sizeof *words;
	ssize_t got;

	if (g->fd < 0)
		return -EBADF;
	got = pf_sys->read(g->fd, words, size);
	if (got == (ssize_t)size)
		return 0;
	if (got < 0)
		return (int)got;
	words[1] = words[2] = UINT64_MAX;
	for (size_t i = 3; i < 3 + g->n; i++)
		words[i] = 0;
	return 0;
}

static uint64_t elapsed(uint64_t from, uint64_t to)
{
	return from == UINT64_MAX || to == UINT64_MAX ? 0 : to - from;
}

int pf_meter_begin(const struct pf_meter *m, struct pf_counts *c)
{
	uint64_t *times = c->v + 1, *values = times + 2 * (m->ngroups ? m->ngroups : 1);
	uint64_t words[3 + PF_METER_MAX_GROUP];

	c->n = pf_meter_words(m);
	c->v[0] = pf_wall_ns();
	if (m->ngroups == 0)
		return read_usage(times, values);
	for (uint32_t i = 0; i < m->ngroups; i++) {
		const struct pf_meter_group *g = &m->group[i];
		int r = read_group(g, words);

		if (r < 0)
			return r;
		*times++ = words[1];
		*times++ = words[2];
		for (uint32_t k = 0; k < g->n; k++)
			*values++ = words[3 + k];
	}
	return 0;
}

int pf_meter_end(const struct pf_meter *m, struct pf_counts *c)
{
	uint64_t *times = c->v + 1, *values = times + 2 * (m->ngroups ? m->ngroups : 1);
	uint64_t words[3 + PF_METER_MAX_GROUP];

	if (m->ngroups == 0) {
		uint64_t now[PF_USAGE_COUNT], t[2];
		int r = read_usage(t, now);

		if (r < 0)
			return r;
		times[0] = t[0] - times[0];
		times[1] = t[1] - times[1];
		for (uint32_t k = 0; k < m->nvalues; k++)
			values[k] = now[k] - values[k];
	}
	for (uint32_t i = 0; i < m->ngroups; i++) {
		const struct pf_meter_group *g = &m->group[i];
		int r = read_group(g, words);

		if (r < 0)
			return r;
		times[0] = elapsed(times[0], words[1]);
		times[1] = elapsed(times[1], words[2]);
		times += 2;
		for (uint32_t k = 0; k < g->n; k++, values++)
			*values = words[3 + k] - *values;
	}
	c->v[0] = pf_wall_ns() - c->v[0];
	return 0;
}

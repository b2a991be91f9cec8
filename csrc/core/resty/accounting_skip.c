/* Requests that are not counted. With sampling most requests are not, so a single call makes such a request known, and another one
 * forgets it. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "core/base/clock.h"

#define NOT_KNOWN UINT32_MAX
#define LONGEST_NAME 128

struct text {
	const char *at;
	size_t size;
};

/* Functions that only samplers of routes and headers need are not inlined, so that other requests do not pay for their stack. */
#define NOT_INLINE __attribute__((noinline)) static

/* Read a variable of a request, by its name in lower case. Returns 0, or another number if it has no value. */
NOT_INLINE int read_variable(const struct pf_accounting *a, const void *request, const char *name, size_t n, struct text *value)
{
	pf_accounting_get_variable *get = (pf_accounting_get_variable *)(uintptr_t)a->get_variable;
	char room[LONGEST_NAME];
	const char *error;

	if (!get || n > sizeof room)
		return -ENOENT;
	return get((void *)(uintptr_t)request, name, n, room, 0, &value->at, &value->size, &error);
}

/* --- samplers --------------------------------------------------------------------------------- */

/* The place of a path in `paths`; NULL if the path is too long. */
static struct pf_accounting_path *place_of(const struct pf_accounting_sampling *s, const struct text *path)
{
	uint64_t hash = path->size, word;

	if (path->size > sizeof s->paths->text)
		return NULL;
	for (size_t i = 0; i < path->size; i += sizeof word) {
		word = 0;
		memcpy(&word, path->at + i, path->size - i < sizeof word ? path->size - i : sizeof word);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 32;
	}
	return &s->paths[hash % PF_ACCOUNTING_PATHS];
}

static int read_path(const struct pf_accounting *a, const void *request, struct text *path)
{
	static const char name[] = "uri";

	return read_variable(a, request, name, sizeof name - 1, path);
}

void pf_accounting_learn(const struct pf_accounting *a, const void *request, uint32_t sampler)
{
	const struct pf_accounting_sampling *s = a->sampling;
	struct pf_accounting_path *place;
	struct text path;

	if (!s || !s->paths || read_path(a, request, &path) != 0 || !(place = place_of(s, &path)))
		return;
	memcpy(place->text, path.at, path.size);
	place->size = (uint32_t)path.size;
	place->sampler = sampler;
}

/* The sampler of a request's path, or NOT_KNOWN if the path is not in `paths`. */
NOT_INLINE uint32_t sampler_of(const struct pf_accounting *a, const struct pf_accounting_sampling *s, const void *request)
{
	const struct pf_accounting_path *place;
	struct text path;

	if (read_path(a, request, &path) != 0 || !(place = place_of(s, &path)))
		return NOT_KNOWN;
	return place->size == path.size && path.size > 0 && memcmp(place->text, path.at, path.size) == 0 ? place->sampler : NOT_KNOWN;
}

NOT_INLINE int has_header(const struct pf_accounting *a, const struct pf_accounting_sampling *s, const void *request)
{
	struct text value;

	if (s->header_size > LONGEST_NAME)
		return 1;
	return read_variable(a, request, s->header, s->header_size, &value) == 0 && value.size > 0;
}

/* --- requests --------------------------------------------------------------------------------- */

struct pf_accounting_entry *pf_accounting_pass_over(struct pf_accounting *a, const void *request, uint32_t phase)
{
	const struct pf_accounting_sampling *s = a->sampling;
	uint32_t sampler = 0;

	if (!s || phase >= a->after || !a->add_end || !pf_accounting_is_main(a, request))
		return NULL;
	if (s->paths)
		sampler = sampler_of(a, s, request);
	if (sampler == NOT_KNOWN || !(s->skip[sampler] >= 1) || (s->header && has_header(a, s, request)))
		return NULL;
	if (pf_accounting_room(a, 0) < 0 || pf_accounting_ask_for_end(a, request) < 0)
		return NULL;
	s->skip[sampler]--;
	pf_accounting_see(a, request);
	return pf_accounting_add(a, request, PF_ACCOUNTING_NONE, 0);
}

typedef double get_start(void *request);

static int is_slow(const struct pf_accounting *a, const void *request)
{
	get_start *get = (get_start *)(uintptr_t)a->get_start;

	return !get || (double)pf_clock_ns(CLOCK_REALTIME) / 1e9 - get((void *)(uintptr_t)request) >= a->slow;
}

int pf_accounting_report(struct pf_accounting *a, const void *request)
{
	int r = pf_accounting_finish(a, request);

	return r == 0 && (a->slow == (double)INFINITY || !is_slow(a, request)) ? -ENOENT : r;
}

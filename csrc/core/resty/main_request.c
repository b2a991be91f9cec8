/* Finds the main request of a subrequest. A request's structure has a pointer to its main request, followed by one to its parent.
 * In a main request the first points to the request itself, and the second is NULL. So their place is learned from a main request. */
#include "core/resty/accounting_state.h"

#include "core/base/peek.h"

#define MOST_WORDS 256
#define MOST_TRIES 8

struct links {
	uintptr_t main, parent;
};

static int read_links(const void *request, uint32_t at, struct links *links)
{
	return pf_peek_call(links, (uint64_t)(uintptr_t)request + at, sizeof *links);
}

static int is_main(const void *request, uint32_t at)
{
	struct links links;

	return read_links(request, at, &links) == 0 && links.main == (uintptr_t)request && links.parent == 0;
}

static void learn_place(struct pf_accounting *a, const void *request)
{
	a->main_tries++;
	for (uint32_t at = sizeof(void *); at < MOST_WORDS * sizeof(void *); at += sizeof(void *))
		if (is_main(request, at)) {
			a->main_at = at;
			return;
		}
}

int pf_accounting_is_main(const struct pf_accounting *a, const void *request)
{
	return a->main_at && *(const void *const *)((const char *)request + a->main_at) == request;
}

const void *pf_accounting_main(struct pf_accounting *a, const void *request)
{
	const void *main;

	if (!a->main_at && a->main_tries < MOST_TRIES)
		learn_place(a, request);
	if (!a->main_at)
		return NULL;
	main = *(const void *const *)((const char *)request + a->main_at);
	return main == request || is_main(main, a->main_at) ? main : NULL;
}

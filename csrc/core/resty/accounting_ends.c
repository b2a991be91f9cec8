/* The ends of requests, which the host reports (pf_accounting_add_end). */
#include "core/resty/accounting_state.h"

#include <errno.h>

#include "core/base/thread.h"

/* The open accountings of this thread. */
static PF_THREAD_LOCAL struct pf_accounting *open_here;
static PF_THREAD_LOCAL uint64_t opened_here;

/* The data of a handler. The accounting may be closed by then; its number is never used again. */
struct end {
	uint64_t number;
	const void *request;
};

void pf_accounting_open_ends(struct pf_accounting *a)
{
	a->number = a->first = ++opened_here;
	a->next = open_here;
	open_here = a;
}

void pf_accounting_close_ends(struct pf_accounting *a)
{
	struct pf_accounting **at = &open_here;

	while (*at && *at != a)
		at = &(*at)->next;
	if (*at)
		*at = a->next;
}

int pf_accounting_is_newest(const struct pf_accounting *a)
{
	return a == open_here;
}

static struct pf_accounting *open_of(const struct end *end)
{
	struct pf_accounting *a = open_here;

	while (a && a->number != end->number)
		a = a->next;
	return a;
}

static struct pf_accounting_end *add_end(const struct pf_accounting *a, const void *request, size_t n)
{
	pf_accounting_add_end *add = (pf_accounting_add_end *)(uintptr_t)a->add_end;

	return add ? add((void *)(uintptr_t)request, n) : NULL;
}

/* data: that of an earlier handler of the request, which is used again; NULL: there is none. */
static int ask(const struct pf_accounting *a, const void *request, void (*handler)(void *data), void *data)
{
	struct pf_accounting_end *e = add_end(a, request, data ? 0 : sizeof(struct end));

	if (!e)
		return -ENOMEM;
	if (data)
		e->data = data;
	else
		*(struct end *)e->data = (struct end){a->number, request};
	e->handler = handler;
	return 0;
}

static void on_end(void *data)
{
	const struct end *end = data;
	struct pf_accounting *a = open_of(end);

	if (a)
		pf_accounting_end(a, end->request, data);
}

int pf_accounting_ask_for_end(const struct pf_accounting *a, const void *request)
{
	return ask(a, request, on_end, NULL);
}

/* The host empties the list of a request that it terminates again, so the mark has to be added again. */
static void on_mark(void *data)
{
	const struct end *end = data;
	const struct pf_accounting *a = open_of(end);

	if (a)
		pf_accounting_mark(a, end->request, data);
}

void pf_accounting_mark(const struct pf_accounting *a, const void *request, void *data)
{
	ask(a, request, on_mark, data);
}

/* Whether an accounting with a number from `first` to `last` has added this handler. */
static int has_end(const struct pf_accounting *a, const void *request, void (*handler)(void *data), uint64_t first, uint64_t last)
{
	const struct pf_accounting_end *e = add_end(a, request, 0);

	while (e && (e = e->next)) {
		if (e->handler != handler)
			continue;
		const struct end *end = e->data;

		if (end->number >= first && end->number <= last)
			return 1;
	}
	return 0;
}

int pf_accounting_has_mark(const struct pf_accounting *a, const void *request)
{
	return has_end(a, request, on_mark, a->number, a->number);
}

void pf_accounting_see(struct pf_accounting *a, const void *request)
{
	if (a->first == a->number || !has_end(a, request, on_end, a->first, a->number - 1))
		a->seen++;
}

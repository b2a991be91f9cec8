/* Requests that are not counted. With sampling most requests are not, so a single call makes such a request known, and another one
 * forgets it. */
#include "core/resty/accounting_state.h"

#include <errno.h>
#include <math.h>

#include "core/base/clock.h"

struct pf_accounting_entry *pf_accounting_pass_over(struct pf_accounting *a, const void *request, uint32_t phase)
{
	if (!(a->skip >= 1) || phase >= a->after || !a->add_end || !pf_accounting_is_main(a, request))
		return NULL;
	if (pf_accounting_room(a, 0) < 0 || pf_accounting_ask_for_end(a, request) < 0)
		return NULL;
	a->skip--;
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

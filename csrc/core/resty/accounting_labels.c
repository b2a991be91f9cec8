/* The label of the open turn, for a profiler in another process: the name of its route. See stack/label.h. */
#include "core/resty/accounting_state.h"

#include <stdlib.h>
#include <string.h>

void pf_accounting_show_label(struct pf_accounting *a, int shown)
{
	struct pf_label_place *p = &pf_label_place;

	if (!pf_accounting_is_newest(a))
		return;
	*(volatile uint64_t *)&p->index = 0; /* first, since a sample may be taken here */
	atomic_signal_fence(memory_order_seq_cst);
	if (!shown)
		return;
	p->items = (uintptr_t)&a->account_of;
	p->names = (uintptr_t)&a->label;
	p->none = PF_ACCOUNTING_NONE;
	p->size = sizeof *a->account_of;
	p->number = offsetof(struct pf_account, route);
	atomic_signal_fence(memory_order_seq_cst);
	if (a->label)
		*(volatile uint64_t *)&p->index = (uintptr_t)&a->account;
}

void pf_accounting_label(struct pf_accounting *a, uint32_t route, const char *text, size_t n)
{
	const struct pf_label *label = pf_label(text, n), **more;

	if (route < a->labels) {
		a->label[route] = label;
		return;
	}
	pf_accounting_show_label(a, 0);
	more = realloc(a->label, (route + (size_t)1) * 2 * sizeof *more);
	if (more) {
		memset(more + a->labels, 0, ((route + (size_t)1) * 2 - a->labels) * sizeof *more);
		a->label = more;
		a->labels = (route + 1) * 2;
		more[route] = label;
	}
	pf_accounting_show_label(a, 1);
}

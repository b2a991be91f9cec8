/* See label.h. */
#include "core/stack/label.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/thread.h"

/* It is not zero, so that it lies in the part of the file that is mapped, and not in anonymous memory. */
struct pf_label_place pf_label_place = {.mark = PF_LABEL_MARK};

struct kept {
	struct kept *next;
	struct pf_label label;
};

static struct kept *labels;
static unsigned labels_n;
static atomic_uint lock;

static const struct pf_label *find(const char *text, size_t n)
{
	struct kept *k;

	for (k = labels; k; k = k->next)
		if (k->label.size == n && memcmp(k->label.text, text, n) == 0)
			return &k->label;
	k = malloc(sizeof *k + n);
	if (!k)
		return NULL;
	k->label.mark = PF_LABEL_MARK;
	k->label.size = (uint32_t)n;
	memcpy(k->label.text, text, n);
	k->next = labels;
	labels = k;
	labels_n++;
	return &k->label;
}

const struct pf_label *pf_label(const char *text, size_t n)
{
	static const char other[] = "(other)";
	const struct pf_label *found;

	pf_lock(&lock, PF_LOCK_PAUSE);
	if (n > PF_LABEL_SIZE || labels_n >= PF_LABEL_MOST)
		found = find(other, sizeof other - 1);
	else
		found = find(text, n);
	pf_unlock(&lock);
	return found;
}

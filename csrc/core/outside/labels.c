/* The labels of samples: see core/stack/label.h. A label never changes, so it is read from its process once. */
#include <string.h>

#include "core/outside/collector.h"
#include "core/stack/label.h"
#include "core/stack/places.h"

uint32_t pf_label_frame(struct pf_collector *c, const struct pf_target *t, uint64_t address)
{
	struct pf_function f = {.source_key = address, .hash = t->image, .line = PF_PLACES_LABEL};
	struct pf_label label;
	char bytes[PF_LABEL_SIZE], *text;
	uint32_t i;

	if (!address || !t->image)
		return 0;
	i = pf_stacks_find_function(&c->stacks, f.source_key, f.hash, f.line);
	if (i)
		return pf_stacks_frame(&c->stacks, PF_FRAME_LABEL, i, 0);
	if (pf_read_process(t->pid, &label, address, sizeof label) < 0 || label.mark != PF_LABEL_MARK || label.size > PF_LABEL_SIZE ||
	    pf_read_process(t->pid, bytes, address + sizeof label, label.size) < 0)
		return 0;
	f.name = pf_stacks_text(&c->stacks, label.size, &text);
	if (!f.name)
		return 0;
	memcpy(text, bytes, label.size);
	return pf_stacks_frame(&c->stacks, PF_FRAME_LABEL, pf_stacks_add_function(&c->stacks, &f), 0);
}

/* The labels of samples: see core/stack/label.h. A label never changes, so it is read from its process once. */
#include <string.h>

#include "core/outside/collector.h"
#include "core/stack/label.h"
#include "core/stack/places.h"

/* The frame of a label with this text, which all processes share; 0 without memory. */
static uint32_t frame_of(struct pf_stacks *s, const unsigned char *bytes, size_t size)
{
	struct pf_function f = {.source_key = pf_places_hash(bytes, size, ~(uint32_t)size), .line = PF_PLACES_LABEL,
				.hash = pf_places_hash(bytes, size, (uint32_t)size)};
	uint32_t i = pf_stacks_find_function(s, f.source_key, f.hash, f.line);
	char *text;

	if (!i) {
		f.name = pf_stacks_text(s, size, &text);
		if (!f.name)
			return 0;
		memcpy(text, bytes, size);
		i = pf_stacks_add_function(s, &f);
	}
	return pf_stacks_frame(s, PF_FRAME_LABEL, i, 0);
}

uint32_t pf_label_frame(struct pf_collector *c, struct pf_target *t, uint64_t address)
{
	struct pf_process_memory *const process = &c->reader->process;
	const unsigned slot = (unsigned)(address >> 4) % PF_TARGET_LABELS;
	unsigned char bytes[PF_LABEL_SIZE];
	struct pf_label label;

	if (!address || !t->maps)
		return 0;
	if (t->labels[slot].address == address)
		return t->labels[slot].frame;
	if (pf_read_known(&t->fixed, process, &label, address, sizeof label) < 0 || label.mark != PF_LABEL_MARK ||
	    label.size > PF_LABEL_SIZE || pf_read_known(&t->fixed, process, bytes, address + sizeof label, label.size) < 0)
		return 0;
	t->labels[slot].frame = frame_of(&c->stacks, bytes, label.size);
	t->labels[slot].address = t->labels[slot].frame ? address : 0;
	return t->labels[slot].frame;
}

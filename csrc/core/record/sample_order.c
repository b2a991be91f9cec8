#include "core/record/sample_order.h"

#include <stddef.h>
#include <string.h>

const struct pf_place pf_places[] = {
#define WORD(bit, name) {#name, PF_SAMPLE(bit), 0, 8},
#define PAIR(bit, first, second) {#first, PF_SAMPLE(bit), 0, 4}, {#second, PF_SAMPLE(bit), 4, 4},
#define HALF(bit, name) {#name, PF_SAMPLE(bit), 0, 4},
#define EVENT_ID(bit) {"event_id", PF_SAMPLE(bit), 0, 8}, {"id", PF_SAMPLE(bit), 0, 8},
#include "core/record/sample_order.def"
	{NULL, 0, 0, 0},
};

uint16_t pf_place_at(const struct pf_place *row, uint64_t sample_type)
{
	const uint16_t header = 8;
	uint64_t before = 0;

	if (!(sample_type & row->bit))
		return 0;
	for (const struct pf_place *p = pf_places; p->bit != row->bit; p++)
		before |= sample_type & p->bit;
	return (uint16_t)(header + 8 * __builtin_popcountll(before) + row->offset);
}

uint16_t pf_place_named(const char *name, uint64_t sample_type, uint16_t *size)
{
	uint16_t found = 0;

	for (const struct pf_place *p = pf_places; p->name; p++) {
		uint16_t at = strcmp(p->name, name) == 0 ? pf_place_at(p, sample_type) : 0;

		if (at) {
			found = at;
			*size = p->size;
		}
	}
	return found;
}

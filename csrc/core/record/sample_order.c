#include "core/record/sample_order.h"

#include <stddef.h>
#include <string.h>

const struct pf_place pf_places[] = {
	{"event_id", PF_SAMPLE(IDENTIFIER), 0, 8}, {"id", PF_SAMPLE(IDENTIFIER), 0, 8},
	{"ip", PF_SAMPLE(IP), 0, 8},               {"pid", PF_SAMPLE(TID), 0, 4},
	{"tid", PF_SAMPLE(TID), 4, 4},             {"time", PF_SAMPLE(TIME), 0, 8},
	{"addr", PF_SAMPLE(ADDR), 0, 8},           {"event_id", PF_SAMPLE(ID), 0, 8},
	{"id", PF_SAMPLE(ID), 0, 8},               {"stream_id", PF_SAMPLE(STREAM_ID), 0, 8},
	{"cpu", PF_SAMPLE(CPU), 0, 4},             {"period", PF_SAMPLE(PERIOD), 0, 8},
	{NULL, 0, 0, 0},
};

uint16_t pf_place_at(const struct pf_place *row, uint64_t sample_type)
{
	uint16_t at = 8; /* the header */
	uint64_t before = 0;

	if (!(sample_type & row->bit))
		return 0;
	for (const struct pf_place *p = pf_places; p->bit != row->bit; p++)
		if (p->bit != before) {
			before = p->bit;
			at = (uint16_t)(at + (sample_type & before ? 8 : 0));
		}
	return (uint16_t)(at + row->offset);
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

/* See own_code.h. The table .eh_frame_hdr has the first address of each function, in order. */
#include "core/stack/own_code.h"

#include <errno.h>
#include <link.h>
#include <string.h>

struct table {
	uint8_t version, frames, count, entries; /* the encodings */
	int32_t frames_at;
	uint32_t n;
	struct {
		int32_t from, frame; /* from the table on */
	} functions[];
};
enum { VERSION = 1, UNSIGNED_4 = 0x03, SIGNED_4_FROM_HERE = 0x1b, SIGNED_4_FROM_TABLE = 0x3b };

struct search {
	uint64_t address, from, end;
};

static void look_up(struct search *s, const struct table *t)
{
	uint32_t low = 0, high = t->n;

	if (t->version != VERSION || t->frames != SIGNED_4_FROM_HERE || t->count != UNSIGNED_4 || t->entries != SIGNED_4_FROM_TABLE)
		return;
#define FROM(i) ((uintptr_t)t + (uint64_t)(int64_t)t->functions[i].from)
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (FROM(middle) <= s->address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && low < t->n) { /* the last function's end is not in the table */
		s->from = FROM(low - 1);
		s->end = FROM(low);
	}
#undef FROM
}

static int on_object(struct dl_phdr_info *o, size_t size, void *to)
{
	const struct table *table = NULL;
	struct search *s = to;
	int inside = 0;

	(void)size;
	for (unsigned i = 0; i < o->dlpi_phnum; i++) {
		const uint64_t at = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr;

		if (o->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			table = (const struct table *)(uintptr_t)at;
		if (o->dlpi_phdr[i].p_type == PT_LOAD && o->dlpi_phdr[i].p_flags & PF_X)
			inside |= s->address - at < o->dlpi_phdr[i].p_memsz;
	}
	if (inside && table)
		look_up(s, table);
	return inside;
}

int pf_own_function(uint64_t address, uint64_t *from, uint64_t *end)
{
	struct search s = {.address = address};

	dl_iterate_phdr(on_object, &s);
	*from = s.from;
	*end = s.end;
	return s.end ? 0 : -ENOENT;
}

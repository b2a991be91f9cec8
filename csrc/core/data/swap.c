/* The other byte order. Every field is swapped by its own width; byte arrays (names, build ids) stay as they are. */
#include "core/data/swap.h"

#include <errno.h>
#include <string.h>

#include "core/data/schema.h"
#include "core/record/walk.h"

static void swap_words(unsigned char *p, size_t n, unsigned width)
{
	for (; n > 0; n--, p += width)
		for (unsigned i = 0; i < width / 2; i++) {
			unsigned char c = p[i];

			p[i] = p[width - 1 - i];
			p[width - 1 - i] = c;
		}
}

void pf_swap_u64s(void *p, size_t n)
{
	swap_words(p, n, 8);
}

void pf_swap_header(struct pf_header *h)
{
	h->type = __builtin_bswap32(h->type);
	h->misc = __builtin_bswap16(h->misc);
	h->size = __builtin_bswap16(h->size);
}

void pf_swap_attr(struct pf_attr *a)
{
	static const struct {
		uint8_t at, n, width;
	} words[] = {{0, 2, 4}, {8, 5, 8}, {48, 2, 4}, {56, 4, 8}, {88, 2, 4}, {96, 1, 8}, {104, 1, 4}, {108, 1, 2}, {112, 2, 4},
		     {120, 3, 8}};
	static const unsigned char widths[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}; /* up to precise_ip */
	unsigned char *p = (unsigned char *)a;
	uint64_t flags;
	uint32_t aux;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		swap_words(p + words[i].at, words[i].n, words[i].width);
	memcpy(&flags, p + 40, sizeof flags);
	flags = pf_swap_bits(flags, widths, sizeof widths);
	memcpy(p + 40, &flags, sizeof flags);
	memcpy(&aux, p + 116, sizeof aux);
	aux = (uint32_t)(pf_swap_bits(aux, NULL, 0) >> 32);
	memcpy(p + 116, &aux, sizeof aux);
}

void pf_attr_from(struct pf_attr *out, const void *bytes, size_t size, int swapped)
{
	memset(out, 0, sizeof *out);
	memcpy(out, bytes, size < sizeof *out ? size : sizeof *out);
	if (swapped)
		pf_swap_attr(out);
}

_Static_assert(offsetof(struct pf_attr, read_format) == 32 && offsetof(struct pf_attr, wakeup_events) == 48 &&
		       offsetof(struct pf_attr, sample_stack_user) == 88 && offsetof(struct pf_attr, sample_regs_intr) == 96 &&
		       offsetof(struct pf_attr, sample_max_stack) == 108 && offsetof(struct pf_attr, sig_data) == 120,
	       "the offsets of pf_swap_attr");

int pf_swap_user(unsigned char *record, size_t size)
{
	unsigned char *const body = record + sizeof(struct pf_header);
	struct pf_reader r = {.begin = body, .at = body, .end = record + size, .swapped = 1, .native = body};
	const struct pf_user_record *shape;
	struct pf_header h;

	memcpy(&h, record, sizeof h);
	shape = pf_user_record(h.type);
	if (shape)
		pf_read(&r, shape->rows);
	return r.bad ? -EBADMSG : 0;
}

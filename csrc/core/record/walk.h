/* A bounded walk over the bytes of a record, in this machine's byte order or in the other one, where it swaps the bytes in place.
 * The functions are inlined with a constant swap, so the native walk has no code for the other order. */
#ifndef PF_WALK_H
#define PF_WALK_H

#include "core/base/bytes.h"
#include "core/record/record.h"

/* at <= end holds always. The bytes are written only if swap is set. */
struct pf_walk {
	unsigned char *bytes;
	size_t at, end;
	int swap;
};

PF_INLINE size_t pf_left(const struct pf_walk *w)
{
	return w->end - w->at;
}

/* pf_next64, pf_next32, pf_next16: the next number; the caller has checked pf_left. */
#define NEXT(bits)                                               \
	PF_INLINE uint##bits##_t pf_next##bits(struct pf_walk *w) \
	{                                                        \
		unsigned char *p = w->bytes + w->at;             \
		uint##bits##_t v = pf_load##bits(p);             \
                                                                 \
		if (w->swap) {                                   \
			v = __builtin_bswap##bits(v);            \
			memcpy(p, &v, sizeof v);                 \
		}                                                \
		w->at += sizeof v;                               \
		return v;                                        \
	}
NEXT(64)
NEXT(32)
NEXT(16)
#undef NEXT

/* n numbers of 64 bits; n comes from the data. Returns 0 if they do not fit. */
PF_INLINE int pf_take64(struct pf_walk *w, uint64_t n, struct pf_view *out)
{
	if (n > pf_left(w) / 8)
		return 0;
	*out = (struct pf_view){.at = (uint16_t)w->at, .n = (uint16_t)n};
	if (w->swap) {
		while (n-- > 0)
			pf_next64(w);
	} else {
		w->at += 8 * (size_t)n;
	}
	return 1;
}

PF_INLINE int pf_take_bytes(struct pf_walk *w, uint64_t n, struct pf_view *out)
{
	if (n > pf_left(w))
		return 0;
	*out = (struct pf_view){.at = (uint16_t)w->at, .n = (uint16_t)n};
	w->at += (size_t)n;
	return 1;
}

/* The values of a read_format, as read(2) gives them. */
PF_INLINE int pf_take_read(struct pf_walk *w, uint64_t format, struct pf_view *out)
{
	const uint64_t each = 1u + !!(format & PF_FORMAT(ID)) + !!(format & PF_FORMAT(LOST));
	const uint64_t times = 0u + !!(format & PF_FORMAT(TOTAL_TIME_ENABLED)) + !!(format & PF_FORMAT(TOTAL_TIME_RUNNING));
	const size_t start = w->at;
	uint64_t n = 1;

	if (format & PF_FORMAT(GROUP)) {
		if (pf_left(w) < 8)
			return 0;
		n = pf_next64(w);
		if (n > pf_left(w) / 8)
			return 0;
	}
	if (!pf_take64(w, times + n * each, out))
		return 0;
	*out = (struct pf_view){.at = (uint16_t)start, .n = (uint16_t)((w->at - start) / 8)};
	return 1;
}

/* The fields of sample_order.def whose bits are in st. Those in had are not taken, since the body of the record already has them,
 * with the same values, except that fork's are the child's. The caller has checked pf_left. */
PF_INLINE void pf_take_fields(struct pf_walk *w, uint64_t st, uint64_t had, struct pf_record *out)
{
	uint64_t word;
	uint32_t low, high;

#define WORD(bit, member)                             \
	if (st & PF_SAMPLE(bit)) {                    \
		word = pf_next64(w);                  \
		if (!(had & PF_SAMPLE(bit)))          \
			out->member = word;           \
	}
#define PAIR(bit, first, second)                      \
	if (st & PF_SAMPLE(bit)) {                    \
		low = pf_next32(w);                   \
		high = pf_next32(w);                  \
		if (!(had & PF_SAMPLE(bit))) {        \
			out->first = low;             \
			out->second = high;           \
		}                                     \
	}
#define HALF(bit, member)                             \
	if (st & PF_SAMPLE(bit)) {                    \
		out->member = pf_next32(w);           \
		pf_next32(w);                         \
	}
#define EVENT_ID(bit)                                 \
	if (st & PF_SAMPLE(bit)) {                    \
		out->event_id = pf_next64(w);         \
		if (!(had & PF_SAMPLE(ID)))           \
			out->id = out->event_id;      \
	}
#include "core/record/sample_order.def"
}

/* The bits of `has` for the ids. */
PF_INLINE uint64_t pf_has_ids(uint64_t st)
{
	return st & (PF_SAMPLE(ID) | PF_SAMPLE(IDENTIFIER)) ? PF_HAS_EVENT_ID | PF_SAMPLE(ID) : 0;
}

/* sample.c: a word of C bit fields from a machine of the other byte order, which allocates them from the other end of the word. The
 * bytes of v are swapped already. widths has the first n fields, from the first bit on; the others have one bit. */
uint64_t pf_swap_bits(uint64_t v, const unsigned char *widths, size_t n);

/* The body of a sample, from w->at to its end. 0 or -EBADMSG. */
int pf_sample_parse(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out);
int pf_sample_parse_swapped(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out);

#endif

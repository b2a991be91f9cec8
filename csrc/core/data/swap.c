/* The other byte order. Every field is swapped by its own width. Three kinds need more than that:
 *
 * - C bit fields (perf_event_attr's flags) are laid out from the other end of their word on a machine of the other order,
 *   so the word's bits are mirrored, and then the bits within each field that is wider than one are mirrored back.
 * - Byte arrays stay: names, build ids, auxtrace data.
 * - Lengths are read before what they measure, and bound it. */
#include "core/data/swap.h"

#include <errno.h>
#include <string.h>

#include "core/data/format.h"

struct span {
	unsigned char *at, *end;
};

static uint64_t get64(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

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
	unsigned char *at = p;

	for (; n > 0; n--, at += 8) {
		uint64_t v = __builtin_bswap64(get64(at));

		memcpy(at, &v, sizeof v);
	}
}

/* Each step returns 0 when the record ends too early. */
static int s64(struct span *s, uint64_t n)
{
	if (n > (uint64_t)(s->end - s->at) / 8)
		return 0;
	pf_swap_u64s(s->at, (size_t)n);
	s->at += n * 8;
	return 1;
}

static int s32(struct span *s, uint64_t n)
{
	if (n > (uint64_t)(s->end - s->at) / 4)
		return 0;
	swap_words(s->at, (size_t)n, 4);
	s->at += n * 4;
	return 1;
}

static int s16(struct span *s, uint64_t n)
{
	if (n > (uint64_t)(s->end - s->at) / 2)
		return 0;
	swap_words(s->at, (size_t)n, 2);
	s->at += n * 2;
	return 1;
}

static int skip(struct span *s, uint64_t n)
{
	if (n > (uint64_t)(s->end - s->at))
		return 0;
	s->at += n;
	return 1;
}

/* A u64 that is swapped and then needed. */
static int take(struct span *s, uint64_t *out)
{
	if (!s64(s, 1))
		return 0;
	*out = get64(s->at - 8);
	return 1;
}

static uint64_t mirror(uint64_t v, unsigned bits)
{
	uint64_t r = 0;

	for (unsigned i = 0; i < bits; i++)
		r |= (v >> i & 1) << (bits - 1 - i);
	return r;
}

/* The word v with the bits of the field at [at, at + width) mirrored, whichever end the machine counts them from. */
static uint64_t mirror_field(uint64_t v, unsigned at, unsigned width)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	at = 64 - at - width;
#endif
	uint64_t mask = ((UINT64_C(1) << width) - 1) << at;

	return (v & ~mask) | mirror((v & mask) >> at, width) << at;
}

void pf_swap_header(struct pf_header *h)
{
	h->type = __builtin_bswap32(h->type);
	h->misc = __builtin_bswap16(h->misc);
	h->size = __builtin_bswap16(h->size);
}

void pf_swap_attr(struct pf_attr *a)
{
	unsigned char *p = (unsigned char *)a;
	uint64_t flags;
	uint32_t aux;

	swap_words(p, 2, 4);
	pf_swap_u64s(p + 8, 4);
	memcpy(&flags, p + 40, sizeof flags);
	flags = mirror_field(mirror(__builtin_bswap64(flags), 64), 15, 2); /* precise_ip */
	memcpy(p + 40, &flags, sizeof flags);
	swap_words(p + 48, 2, 4);
	pf_swap_u64s(p + 56, 4);
	a->sample_stack_user = __builtin_bswap32(a->sample_stack_user);
	a->clockid = (int32_t)__builtin_bswap32((uint32_t)a->clockid);
	a->sample_regs_intr = __builtin_bswap64(a->sample_regs_intr);
	a->aux_watermark = __builtin_bswap32(a->aux_watermark);
	a->sample_max_stack = __builtin_bswap16(a->sample_max_stack);
	a->aux_sample_size = __builtin_bswap32(a->aux_sample_size);
	memcpy(&aux, p + 116, sizeof aux);
	aux = (uint32_t)mirror(__builtin_bswap32(aux), 32);
	memcpy(p + 116, &aux, sizeof aux);
	pf_swap_u64s(p + 120, 3);
}

_Static_assert(offsetof(struct pf_attr, read_format) == 32 && offsetof(struct pf_attr, wakeup_events) == 48 &&
		       offsetof(struct pf_attr, sample_stack_user) == 88 && offsetof(struct pf_attr, sig_data) == 120,
	       "the offsets of pf_swap_attr");

/* A CPU map: u16 type, then {u16 nr, cpus} or {u16 nr, u16 long_size, words} or {u8 any, u8, u16 first, u16 last}. */
static int swap_cpu_map(struct span *s)
{
	uint16_t type, nr, width;

	if (!s16(s, 1))
		return 0;
	memcpy(&type, s->at - 2, sizeof type);
	if (type == 2)
		return skip(s, 2) && s16(s, 2);
	if (!s16(s, 1))
		return 0;
	memcpy(&nr, s->at - 2, sizeof nr);
	if (type == 0)
		return s16(s, nr);
	if (type != 1 || !s16(s, 1))
		return 0;
	memcpy(&width, s->at - 2, sizeof width);
	return width == 4 ? s32(s, nr) : width == 8 ? skip(s, 4) && s64(s, nr) : 0;
}

static int swap_event_update(struct span *s)
{
	uint64_t type;

	if (!take(s, &type) || !s64(s, 1))
		return 0;
	return type == 1 ? s64(s, 1) : type == 3 ? swap_cpu_map(s) : 1;
}

static int swap_auxtrace_error(struct span *s)
{
	uint32_t format;

	if (!s32(s, 6))
		return 0;
	memcpy(&format, s->at - 4, sizeof format);
	return s64(s, format ? 2 : 1) && skip(s, 64) && (format < 2 || s32(s, 2));
}

static int swap_header_attr(struct span *s)
{
	struct pf_attr a;
	uint32_t size;

	if (s->end - s->at < (ptrdiff_t)PF_ATTR_SIZE_VER0)
		return 0;
	memcpy(&size, s->at + 4, sizeof size);
	size = __builtin_bswap32(size);
	if (size == 0)
		size = PF_ATTR_SIZE_VER0;
	if (size < PF_ATTR_SIZE_VER0 || size > (size_t)(s->end - s->at))
		return 0;
	memset(&a, 0, sizeof a);
	memcpy(&a, s->at, size < sizeof a ? size : sizeof a);
	pf_swap_attr(&a);
	memcpy(s->at, &a, size < sizeof a ? size : sizeof a);
	s->at += size;
	return s64(s, (uint64_t)(s->end - s->at) / 8);
}

static int swap_body(struct span *s, uint32_t type)
{
	uint64_t nr, left = (uint64_t)(s->end - s->at) / 8;

	switch (type) {
	case PF_USER_HEADER_ATTR:
		return swap_header_attr(s);
	case PF_USER_HEADER_EVENT_TYPE:
	case PF_USER_HEADER_FEATURE:
	case PF_USER_COMPRESSED2:
		return s64(s, 1);
	case PF_USER_HEADER_TRACING_DATA:
	case PF_USER_HEADER_BUILD_ID:
		return s32(s, 1);
	case PF_USER_ID_INDEX:
	case PF_USER_STAT_CONFIG:
	case PF_USER_STAT_ROUND:
		return s64(s, left);
	case PF_USER_AUXTRACE_INFO:
		return s32(s, 2) && s64(s, left - 1);
	case PF_USER_AUXTRACE:
		return s64(s, 3) && s32(s, 3);
	case PF_USER_AUXTRACE_ERROR:
		return swap_auxtrace_error(s);
	case PF_USER_THREAD_MAP:
		if (!take(s, &nr) || nr > PF_RECORD_MAX)
			return 0;
		for (; nr > 0; nr--)
			if (!s64(s, 1) || !skip(s, 16))
				return 0;
		return 1;
	case PF_USER_CPU_MAP:
		return swap_cpu_map(s);
	case PF_USER_STAT:
		return s64(s, 1) && s32(s, 2) && s64(s, 3);
	case PF_USER_EVENT_UPDATE:
		return swap_event_update(s);
	case PF_USER_TIME_CONV:
		return s64(s, left >= 5 ? 5 : 3);
	default:
		return 1;
	}
}

int pf_swap_user(unsigned char *record, size_t size)
{
	struct span body = {record + sizeof(struct pf_header), record + size};
	struct pf_header h;

	memcpy(&h, record, sizeof h);
	return swap_body(&body, h.type) ? 0 : -EBADMSG;
}

/* The position of the id. A sample has IDENTIFIER right after its header, or ID after the fields that come before it. Any
 * other record ends with the sample_id fields TID TIME ID STREAM_ID CPU IDENTIFIER (8 bytes each, only those that are set),
 * so the position of its id is counted from the end. Events that share a ring must have the same position: IDENTIFIER in all. */
#include "core/record/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/record/sample_order.h"

#define S(sym) PF_SAMPLE(sym)

enum pf_arch pf_arch_native(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return PF_ARCH_X86;
#elif defined(__aarch64__)
	return PF_ARCH_ARM64;
#elif defined(__arm__)
	return PF_ARCH_ARM;
#elif defined(__riscv)
	return PF_ARCH_RISCV;
#else
	return PF_ARCH_OTHER;
#endif
}

enum pf_arch pf_arch_named(const char *machine)
{
	if (strcmp(machine, "x86_64") == 0 || (machine[0] == 'i' && machine[1] != '\0' && strcmp(machine + 2, "86") == 0))
		return PF_ARCH_X86;
	if (strcmp(machine, "aarch64") == 0 || strcmp(machine, "arm64") == 0)
		return PF_ARCH_ARM64;
	if (strncmp(machine, "arm", 3) == 0)
		return PF_ARCH_ARM;
	if (strncmp(machine, "riscv", 5) == 0)
		return PF_ARCH_RISCV;
	return PF_ARCH_OTHER;
}

static uint16_t eight_bytes_each(uint64_t bits)
{
	return (uint16_t)(8 * __builtin_popcountll(bits));
}

void pf_layout_init(struct pf_layout *l, const struct pf_attr *attr, enum pf_arch arch)
{
	const uint64_t st = attr->sample_type;
	uint64_t fixed = 0;

	memset(l, 0, sizeof *l);
	l->sample_type = st;
	l->read_format = attr->read_format;
	l->branch_sample_type = attr->branch_sample_type;
	l->regs_user = attr->sample_regs_user;
	l->regs_intr = attr->sample_regs_intr;
	l->arch = (uint8_t)arch;
	l->sample_id_all = attr->sample_id_all;
	l->build_id = attr->build_id;
	l->reads = (st & S(READ)) || attr->inherit_stat;
	l->sides = attr->mmap || attr->mmap2 || attr->mmap_data || attr->comm || attr->task || attr->context_switch ||
		   attr->namespaces || attr->ksymbol || attr->bpf_event || attr->cgroup || attr->text_poke || attr->inherit_stat;
	l->writes = l->sides || st || attr->sample_period; /* sample_freq is at the same place */
	for (const struct pf_place *p = pf_places; p->name; p++) {
		fixed |= st & p->bit;
		if (l->sample_id_at == 0 && p->bit & (S(IDENTIFIER) | S(ID)))
			l->sample_id_at = pf_place_at(p, st);
	}
	l->fixed_size = eight_bytes_each(fixed);
	l->tail = (st & ~fixed) != 0;
	if (!attr->sample_id_all)
		return;
	l->trailer_size = eight_bytes_each(st & PF_TRAILER);
	if (st & S(IDENTIFIER))
		l->other_id_at = 8;
	else if (st & S(ID))
		l->other_id_at = (uint16_t)(8 + eight_bytes_each(st & (S(STREAM_ID) | S(CPU))));
}

static int same_trailer(const struct pf_layout *a, const struct pf_layout *b)
{
	return a->sample_id_all == b->sample_id_all && (!(a->reads || b->reads) || a->read_format == b->read_format) &&
	       (!a->sample_id_all || ((a->sample_type ^ b->sample_type) & PF_TRAILER) == 0);
}

int pf_layout_same(const struct pf_layout *a, const struct pf_layout *b)
{
	const uint64_t parts = PF_BRANCH(HW_INDEX) | PF_BRANCH(COUNTERS);

	return same_trailer(a, b) && a->sample_type == b->sample_type && a->regs_user == b->regs_user &&
	       a->regs_intr == b->regs_intr && a->arch == b->arch &&
	       ((a->branch_sample_type ^ b->branch_sample_type) & parts) == 0;
}

int pf_layouts_add(struct pf_layouts *ls, const struct pf_layout *l)
{
	struct pf_layout *copy;

	if (ls->n == ls->room) {
		uint32_t room = ls->room ? 2 * ls->room : 4;
		struct pf_layout **list = realloc(ls->list, room * sizeof *list);

		if (!list)
			return -ENOMEM;
		ls->list = list;
		ls->room = room;
	}
	copy = malloc(sizeof *copy);
	if (!copy)
		return -ENOMEM;
	*copy = *l;
	copy->index = ls->n;
	if (ls->n == 0) {
		ls->sample_id_at = l->sample_id_at;
		ls->other_id_at = l->other_id_at;
	} else {
		ls->sample_id_at = ls->sample_id_at == l->sample_id_at ? l->sample_id_at : 0;
		ls->other_id_at = ls->other_id_at == l->other_id_at ? l->other_id_at : 0;
		ls->mixed = ls->mixed || !pf_layout_same(ls->list[0], l);
		ls->mixed_trailer = ls->mixed_trailer || !same_trailer(ls->list[0], l);
	}
	ls->list[ls->n] = copy;
	return (int)ls->n++;
}

static struct pf_layout_slot *slot_of(const struct pf_layouts *ls, uint64_t id)
{
	uint32_t i = (uint32_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (ls->nslots - 1);

	while (ls->slot[i].used && ls->slot[i].id != id)
		i = (i + 1) & (ls->nslots - 1);
	return &ls->slot[i];
}

static int grow(struct pf_layouts *ls)
{
	struct pf_layouts bigger = *ls;

	bigger.nslots = ls->nslots ? 2 * ls->nslots : 8;
	bigger.slot = calloc(bigger.nslots, sizeof *bigger.slot);
	if (!bigger.slot)
		return -ENOMEM;
	for (uint32_t i = 0; i < ls->nslots; i++)
		if (ls->slot[i].used)
			*slot_of(&bigger, ls->slot[i].id) = ls->slot[i];
	free(ls->slot);
	*ls = bigger;
	return 0;
}

int pf_layouts_bind(struct pf_layouts *ls, uint64_t id, uint32_t index)
{
	struct pf_layout_slot *s;

	if (ls->nids + 1 > ls->nslots / 2 && grow(ls) < 0)
		return -ENOMEM;
	s = slot_of(ls, id);
	ls->nids += !s->used;
	*s = (struct pf_layout_slot){.id = id, .index = index, .used = 1};
	return 0;
}

void pf_layouts_free(struct pf_layouts *ls)
{
	for (uint32_t i = 0; i < ls->n; i++)
		free(ls->list[i]);
	free(ls->list);
	free(ls->slot);
	memset(ls, 0, sizeof *ls);
}

const struct pf_layout *pf_layouts_by_id(const struct pf_layouts *ls, uint64_t id)
{
	const struct pf_layout_slot *s;

	if (ls->nids == 0)
		return NULL;
	s = slot_of(ls, id);
	return s->used ? ls->list[s->index] : NULL;
}

/* The position of the event's id in records whose body contains it; 0 for others. */
static size_t id_in_body(uint32_t type)
{
	return type == PF_RECORD_LOST ? 8 : type == PF_RECORD_THROTTLE || type == PF_RECORD_UNTHROTTLE ? 16 : 0;
}

/* Types whose records the kernel makes larger for each further event that gets one, without filling them: it adds the size of the
 * trailer to the same header again (all kernels up to 6.18). So their trailer is not at the end, but directly after the body. */
static int may_be_too_large(uint32_t type)
{
	return type == PF_RECORD_KSYMBOL || type == PF_RECORD_BPF_EVENT || type == PF_RECORD_TEXT_POKE;
}

static size_t length_at(const unsigned char *bytes, int swap)
{
	return swap ? __builtin_bswap16(pf_load16(bytes)) : pf_load16(bytes);
}

size_t pf_trailer_at(const struct pf_layout *l, uint32_t type, const unsigned char *bytes, size_t n, int swap)
{
	const size_t last = n - l->trailer_size;
	size_t at = 24;

	if (l->trailer_size == 0 || last <= at || !may_be_too_large(type))
		return last;
	if (type == PF_RECORD_KSYMBOL)
		at += strnlen((const char *)bytes + at, last - at) + 1;
	else if (type == PF_RECORD_TEXT_POKE)
		at += length_at(bytes + 16, swap) + length_at(bytes + 18, swap) - 4;
	at = (at + 7) & ~(size_t)7;
	return at < last ? at : last;
}

/* The layout whose id is in the trailer after the body; NULL if there is none. */
static const struct pf_layout *find_after_body(const struct pf_layouts *ls, uint32_t type, const unsigned char *bytes, size_t n,
					       int swap)
{
	for (size_t i = 0; i < ls->n; i++) {
		const struct pf_layout *l = ls->list[i];

		if (l->other_id_at && l->trailer_size <= n - 8) {
			const unsigned char *id = bytes + pf_trailer_at(l, type, bytes, n, swap) + l->trailer_size - l->other_id_at;

			if (pf_layouts_by_id(ls, swap ? __builtin_bswap64(pf_load64(id)) : pf_load64(id)) == l)
				return l;
		}
	}
	return NULL;
}

static const struct pf_layout *find(const struct pf_layouts *ls, const unsigned char *bytes, size_t n, int swap)
{
	const struct pf_layout *l;
	uint32_t type;
	size_t at;

	if (ls->n == 0 || n < 8)
		return NULL;
	if (ls->n == 1)
		return ls->list[0];
	type = pf_load32(bytes);
	if (swap)
		type = __builtin_bswap32(type);
	if (may_be_too_large(type) && (l = find_after_body(ls, type, bytes, n, swap)))
		return l;
	if (type == PF_RECORD_SAMPLE)
		at = ls->sample_id_at;
	else
		at = ls->other_id_at ? n - ls->other_id_at : 0; /* wraps around, and is then beyond n */
	if (at == 0 && !ls->mixed_trailer)
		at = id_in_body(type);
	if (at == 0)
		return (type == PF_RECORD_SAMPLE ? ls->mixed : ls->mixed_trailer) && type < 64 ? NULL : ls->list[0];
	if (at > n - 8)
		return NULL;
	l = pf_layouts_by_id(ls, swap ? __builtin_bswap64(pf_load64(bytes + at)) : pf_load64(bytes + at));
	return l ? l : ls->list[0];
}

const struct pf_layout *pf_layouts_find(const struct pf_layouts *ls, const unsigned char *bytes, size_t n)
{
	return find(ls, bytes, n, 0);
}

const struct pf_layout *pf_layouts_find_swapped(const struct pf_layouts *ls, const unsigned char *bytes, size_t n)
{
	return find(ls, bytes, n, 1);
}

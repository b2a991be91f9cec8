/* The body of PERF_RECORD_SAMPLE. The fields come in this order, each only if its bit is in sample_type. They are u64 unless
 * another type is given:
 *
 *   identifier to period           sample_order.def
 *   read values                    by read_format, see counter.c
 *   nr, nr x ip                    callchain
 *   u32 size, bytes                raw; 4 + size is a multiple of 8
 *   nr, [hw_idx,] nr x {from, to, flags}, [nr x counters]
 *                                  branch_stack; hw_idx and counters by branch_sample_type. If the CPU gave no branches,
 *                                  the kernel writes nr = 0 alone, without hw_idx
 *   abi, a register for each bit   regs_user; abi = 0 ends it
 *   size, bytes, dyn_size          stack_user; size = 0 ends it
 *   weight | data_src | transaction
 *   abi, registers                 regs_intr
 *   phys_addr | cgroup | data_page_size | code_page_size
 *   size, bytes                    aux
 *
 * More bytes may follow: fields of a kernel newer than this table. */
#include <errno.h>

#include "core/record/walk.h"

#define KNOWN (PF_SAMPLE(WEIGHT_STRUCT) | (PF_SAMPLE(WEIGHT_STRUCT) - 1))
#define WEIGHTS (PF_SAMPLE(WEIGHT) | PF_SAMPLE(WEIGHT_STRUCT))
#define HAS(sym) (st & PF_SAMPLE(sym))

uint64_t pf_swap_bits(uint64_t v, const unsigned char *widths, size_t n)
{
	uint64_t out = 0;

	for (unsigned i = 0, at = 0, w; at < 64; i++, at += w) {
		uint64_t mask;

		w = i < n ? widths[i] : 1;
		mask = (UINT64_C(1) << w) - 1;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		out |= ((v >> (64 - at - w)) & mask) << at;
#else
		out |= ((v >> at) & mask) << (64 - at - w);
#endif
	}
	return out;
}

PF_INLINE int branches(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out, int bare)
{
	static const unsigned char widths[] = {
#define BITS(member, width) width,
#include "core/kernel/defs/branch_entry.def"
#undef BITS
	};
	uint64_t nr;

	if (pf_left(w) < 8)
		return 0;
	nr = pf_next64(w);
	if (l->branch_sample_type & PF_BRANCH(HW_INDEX) && !(nr == 0 && bare)) {
		if (pf_left(w) < 8)
			return 0;
		out->branch_hw_index = pf_next64(w);
		out->has |= PF_HAS_HW_INDEX;
	}
	if (nr > pf_left(w) / sizeof(struct pf_branch))
		return 0;
	pf_take64(w, 3 * nr, &out->branch_stack);
	out->branch_stack.n = (uint16_t)nr;
	if (w->swap)
		for (size_t i = 0, at = out->branch_stack.at + 16u; i < nr; i++, at += sizeof(struct pf_branch)) {
			uint64_t flags = pf_swap_bits(pf_load64(w->bytes + at), widths, sizeof widths);
			memcpy(w->bytes + at, &flags, sizeof flags);
		}
	if (l->branch_sample_type & PF_BRANCH(COUNTERS)) {
		out->has |= PF_HAS_COUNTERS;
		return pf_take64(w, nr, &out->branch_counters);
	}
	return 1;
}

PF_INLINE int registers(struct pf_walk *w, uint64_t mask, uint8_t *abi, struct pf_view *out)
{
	uint64_t v;

	if (pf_left(w) < 8)
		return 0;
	v = pf_next64(w);
	if (v > 2)
		return 0;
	*abi = (uint8_t)v;
	return pf_take64(w, v ? (uint64_t)__builtin_popcountll(mask) : 0, out);
}

PF_INLINE int stack(struct pf_walk *w, struct pf_record *out)
{
	uint64_t size, dyn;

	if (pf_left(w) < 8)
		return 0;
	size = pf_next64(w);
	out->stack_dyn_size = 0;
	if (size % 8 || !pf_take_bytes(w, size, &out->stack_user))
		return 0;
	if (size == 0)
		return 1;
	if (pf_left(w) < 8)
		return 0;
	dyn = pf_next64(w);
	out->stack_dyn_size = (uint16_t)dyn;
	return dyn <= size;
}

PF_INLINE int sized_raw(struct pf_walk *w, struct pf_record *out)
{
	uint32_t size;

	if (pf_left(w) < 4)
		return 0;
	size = pf_next32(w);
	return size % 8 == 4 && pf_take_bytes(w, size, &out->raw);
}

/* The fields that vary in size or are rare. */
PF_INLINE int tail(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out, uint64_t st, int bare)
{
	if (HAS(READ) && !pf_take_read(w, l->read_format, &out->read))
		return 0;
	if (HAS(CALLCHAIN) && (pf_left(w) < 8 || !pf_take64(w, pf_next64(w), &out->callchain)))
		return 0;
	if (HAS(RAW) && !sized_raw(w, out))
		return 0;
	if (HAS(BRANCH_STACK) && !branches(l, w, out, bare))
		return 0;
	if (HAS(REGS_USER) && !registers(w, l->regs_user, &out->regs_user_abi, &out->regs_user))
		return 0;
	if (HAS(STACK_USER) && !stack(w, out))
		return 0;
#define NUMBER(bits, member)                                                                            \
	if (st & (bits)) {                                                                              \
		if (pf_left(w) < 8)                                                                     \
			return 0;                                                                       \
		out->member = pf_next64(w);                                                             \
	}
	NUMBER(WEIGHTS, weight)
	NUMBER(PF_SAMPLE(DATA_SRC), data_src)
	NUMBER(PF_SAMPLE(TRANSACTION), transaction)
	if (HAS(REGS_INTR) && !registers(w, l->regs_intr, &out->regs_intr_abi, &out->regs_intr))
		return 0;
	NUMBER(PF_SAMPLE(PHYS_ADDR), phys_addr)
	NUMBER(PF_SAMPLE(CGROUP), cgroup)
	NUMBER(PF_SAMPLE(DATA_PAGE_SIZE), data_page_size)
	NUMBER(PF_SAMPLE(CODE_PAGE_SIZE), code_page_size)
#undef NUMBER
	if (HAS(AUX) && (pf_left(w) < 8 || !pf_take_bytes(w, pf_next64(w), &out->aux)))
		return 0;
	return 1;
}

PF_INLINE int parse(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	const uint64_t st = l->sample_type;
	const uint64_t has = (st & KNOWN) | pf_has_ids(st) | PF_HAS(SAMPLE);
	int ok;

	if (pf_left(w) < l->fixed_size)
		return -EBADMSG;
	pf_take_fields(w, st, 0, out);
	out->has = has;
	if (!l->tail)
		return 0;

	out->read_format = (uint32_t)l->read_format;
	out->read_hidden = l->read_hidden;
	out->arch = l->arch;
	out->regs_user_mask = l->regs_user;
	out->regs_intr_mask = l->regs_intr;
	ok = tail(l, w, out, st, 0);
	if (w->swap || !HAS(BRANCH_STACK) || !(l->branch_sample_type & PF_BRANCH(HW_INDEX)) || (ok && pf_left(w) == 0))
		return ok ? 0 : -EBADMSG;

	/* nr = 0 may come with or without hw_idx: the valid decoding is the one that ends exactly at the record's end. */
	w->at = 8u + l->fixed_size;
	out->has = has;
	if (tail(l, w, out, st, 1) && (!ok || pf_left(w) == 0))
		return 0;
	w->at = 8u + l->fixed_size;
	out->has = has;
	return tail(l, w, out, st, 0) ? 0 : -EBADMSG;
}

int pf_sample_parse(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	w->swap = 0;
	return parse(l, w, out);
}

int pf_sample_parse_swapped(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	w->swap = 1;
	return parse(l, w, out);
}

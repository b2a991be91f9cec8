/* See records.h. */
#include "records.h"

#include <string.h>

#include "core/event/event.h"
#include "fuzz.h"

static volatile uint64_t sink;

/* --- making records ------------------------------------------------------------------------------------------------- */

static void put(struct maker *m, uint64_t v, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		const unsigned char low = (unsigned char)(v >> (8 * i));
		const size_t first = m->n + i, last = m->n + size - 1 - i;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		m->native[first] = low;
		m->swapped[last] = low;
#else
		m->native[last] = low;
		m->swapped[first] = low;
#endif
	}
	m->n += size;
}

static void put64(struct maker *m, uint64_t v)
{
	put(m, v, 8);
}

static void put_bytes(struct maker *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(m, fuzz_below(255) + 1, 1);
}

static void put_u64s(struct maker *m, size_t n)
{
	while (n-- > 0)
		put64(m, fuzz_word());
}

static void put_padded(struct maker *m, size_t n)
{
	put_bytes(m, n);
	while (m->n % 8)
		put(m, 0, 1);
}

static void put_text(struct maker *m, size_t n)
{
	put_bytes(m, n);
	put(m, 0, 1);
	put_padded(m, 0);
}

static void put_read(struct maker *m, uint64_t format)
{
	const size_t each = 1u + !!(format & PF_FORMAT(ID)) + !!(format & PF_FORMAT(LOST));
	const size_t times = 0u + !!(format & PF_FORMAT(TOTAL_TIME_ENABLED)) + !!(format & PF_FORMAT(TOTAL_TIME_RUNNING));
	size_t n = 1;

	if (format & PF_FORMAT(GROUP)) {
		n = fuzz_below(5);
		put64(m, n);
	}
	put_u64s(m, times + n * each);
}

static void put_registers(struct maker *m, uint64_t mask)
{
	const uint64_t abi = fuzz_below(3);

	put64(m, abi);
	if (abi)
		put_u64s(m, (size_t)__builtin_popcountll(mask));
}

/* Bit fields of the other order are not simply swapped words: use flags that are the same in both. */
static void put_branches(struct maker *m, uint64_t type)
{
	const size_t n = fuzz_below(4);

	put64(m, n);
	if (type & PF_BRANCH(HW_INDEX))
		put64(m, fuzz_word());
	for (size_t i = 0; i < n; i++) {
		put_u64s(m, 2);
		put64(m, 0);
	}
	if (type & PF_BRANCH(COUNTERS))
		put_u64s(m, n);
}

static void put_sample(struct maker *m, const struct pf_attr *a)
{
	const uint64_t st = a->sample_type;
	size_t n;

#define HAS(sym) (st & PF_SAMPLE(sym))
	if (HAS(IDENTIFIER))
		put64(m, fuzz_word());
	if (HAS(IP))
		put64(m, fuzz_word());
	if (HAS(TID)) {
		put(m, fuzz_word(), 4);
		put(m, fuzz_word(), 4);
	}
	n = 0u + !!HAS(TIME) + !!HAS(ADDR) + !!HAS(ID) + !!HAS(STREAM_ID);
	put_u64s(m, n);
	if (HAS(CPU)) {
		put(m, fuzz_word(), 4);
		put(m, 0, 4);
	}
	if (HAS(PERIOD))
		put64(m, fuzz_word());
	if (HAS(READ))
		put_read(m, a->read_format);
	if (HAS(CALLCHAIN)) {
		n = fuzz_below(8);
		put64(m, n);
		put_u64s(m, n);
	}
	if (HAS(RAW)) {
		n = 4 + 8 * fuzz_below(6);
		put(m, n, 4);
		put_bytes(m, n);
	}
	if (HAS(BRANCH_STACK))
		put_branches(m, a->branch_sample_type);
	if (HAS(REGS_USER))
		put_registers(m, a->sample_regs_user);
	if (HAS(STACK_USER)) {
		n = 8 * fuzz_below(5);
		put64(m, n);
		put_bytes(m, n);
		if (n)
			put64(m, fuzz_below((unsigned)n + 1));
	}
	n = 0u + !!(HAS(WEIGHT) || HAS(WEIGHT_STRUCT)) + !!HAS(DATA_SRC) + !!HAS(TRANSACTION);
	put_u64s(m, n);
	if (HAS(REGS_INTR))
		put_registers(m, a->sample_regs_intr);
	n = 0u + !!HAS(PHYS_ADDR) + !!HAS(CGROUP) + !!HAS(DATA_PAGE_SIZE) + !!HAS(CODE_PAGE_SIZE);
	put_u64s(m, n);
	if (HAS(AUX)) {
		n = 8 * fuzz_below(5);
		put64(m, n);
		put_bytes(m, n);
	}
#undef HAS
}

static void put_pair(struct maker *m)
{
	put(m, fuzz_word(), 4);
	put(m, fuzz_word(), 4);
}

static void put_body(struct maker *m, uint32_t type, unsigned misc, const struct pf_attr *a)
{
	size_t n;

	switch (type) {
	case PF_RECORD_MMAP:
		put_pair(m);
		put_u64s(m, 3);
		put_text(m, fuzz_below(30));
		break;
	case PF_RECORD_MMAP2:
		put_pair(m);
		put_u64s(m, 3);
		if (misc & PF_MISC_MMAP_BUILD_ID && (a->build_id || fuzz_below(2))) {
			put(m, a->build_id ? 1 + fuzz_below(20) : fuzz_below(2) ? 16 : 20, 1);
			put(m, 0, 3);
			put_bytes(m, 20);
		} else {
			put(m, fuzz_word() | 1u << 8, 4); /* a device, which is not the size of a build id in any byte order */
			put(m, fuzz_word(), 4);
			put_u64s(m, 2);
		}
		put_pair(m);
		put_text(m, fuzz_below(30));
		break;
	case PF_RECORD_COMM:
		put_pair(m);
		put_text(m, fuzz_below(16));
		break;
	case PF_RECORD_EXIT:
	case PF_RECORD_FORK:
		put_pair(m);
		put_pair(m);
		put64(m, fuzz_word());
		break;
	case PF_RECORD_LOST:
		put_u64s(m, 2);
		break;
	case PF_RECORD_THROTTLE:
	case PF_RECORD_UNTHROTTLE:
	case PF_RECORD_AUX:
		put_u64s(m, 3);
		break;
	case PF_RECORD_READ:
		put_pair(m);
		put_read(m, a->read_format);
		if (m->n < 24) /* an empty group: no event has one */
			put64(m, 0);
		break;
	case PF_RECORD_ITRACE_START:
	case PF_RECORD_SWITCH_CPU_WIDE:
		put_pair(m);
		break;
	case PF_RECORD_LOST_SAMPLES:
	case PF_RECORD_AUX_OUTPUT_HW_ID:
		put64(m, fuzz_word());
		break;
	case PF_RECORD_NAMESPACES:
		put_pair(m);
		n = fuzz_below(9);
		put64(m, n);
		put_u64s(m, 2 * n);
		break;
	case PF_RECORD_KSYMBOL:
		put64(m, fuzz_word());
		put(m, fuzz_word(), 4);
		put(m, fuzz_word(), 2);
		put(m, fuzz_word(), 2);
		put_text(m, fuzz_below(30));
		break;
	case PF_RECORD_BPF_EVENT:
		put(m, fuzz_word(), 2);
		put(m, fuzz_word(), 2);
		put(m, fuzz_word(), 4);
		put_bytes(m, 8);
		break;
	case PF_RECORD_CGROUP:
		put64(m, fuzz_word());
		put_text(m, fuzz_below(30));
		break;
	case PF_RECORD_TEXT_POKE: {
		const size_t old_len = fuzz_below(10), new_len = fuzz_below(10);

		put64(m, fuzz_word());
		put(m, old_len, 2);
		put(m, new_len, 2);
		put_padded(m, old_len + new_len); /* with more padding it would seem to be one that the kernel has made too large */
		break;
	}
	case PF_RECORD_CALLCHAIN_DEFERRED:
		n = fuzz_below(6);
		put64(m, fuzz_word());
		put64(m, n);
		put_u64s(m, n);
		break;
	default:
		put_u64s(m, fuzz_below(5));
	}
}

static void put_trailer(struct maker *m, uint64_t st)
{
	const size_t middle = 0u + !!(st & PF_SAMPLE(TIME)) + !!(st & PF_SAMPLE(ID)) + !!(st & PF_SAMPLE(STREAM_ID));

	if (st & PF_SAMPLE(TID))
		put_pair(m);
	put_u64s(m, middle);
	if (st & PF_SAMPLE(CPU)) {
		put(m, fuzz_word(), 4);
		put(m, 0, 4);
	}
	if (st & PF_SAMPLE(IDENTIFIER))
		put64(m, fuzz_word());
}

void make_record(struct maker *m, const struct pf_attr *a)
{
	const uint32_t type = fuzz_below(3) ? PF_RECORD_SAMPLE : 1 + fuzz_below(PF_RECORD_LAST + 2);
	const unsigned misc = (unsigned)fuzz_word() & 0xffff;
	size_t n;

	m->n = 0;
	put(m, type, 4);
	put(m, misc, 2);
	put(m, 0, 2);
	if (type == PF_RECORD_SAMPLE) {
		put_sample(m, a);
	} else {
		put_body(m, type, misc, a);
		if (a->sample_id_all)
			put_trailer(m, a->sample_type);
	}
	n = m->n;
	m->n = 6;
	put(m, n, 2);
	m->n = n;
}

void make_attr(struct pf_attr *a)
{
	const uint64_t known = (PF_SAMPLE(WEIGHT_STRUCT) << 1) - 1;

	memset(a, 0, sizeof *a);
	a->sample_type = fuzz_random() & known;
	if (fuzz_below(2))
		a->sample_type &= fuzz_random();
	a->read_format = fuzz_random() & 31;
	a->branch_sample_type = fuzz_random() & 0xfffff;
	a->sample_regs_user = fuzz_random() & fuzz_random() & fuzz_random();
	a->sample_regs_intr = fuzz_random() & fuzz_random() & fuzz_random();
	a->sample_id_all = fuzz_below(2) & 1u;
	a->build_id = fuzz_below(2) & 1u;
}

/* --- reading them --------------------------------------------------------------------------------------------------- */

static void read_bytes(const unsigned char *bytes, size_t n, struct pf_view v, size_t each)
{
	CHECK((size_t)v.at + v.n * each <= n);
	for (size_t i = 0; i < v.n * each; i++)
		sink += bytes[v.at + i];
}

static void read_words(const unsigned char *bytes, size_t n, struct pf_view v, size_t each)
{
	const uint64_t *words = pf_view_u64(bytes, v);

	CHECK(v.n == 0 || v.at % 8 == 0);
	CHECK((size_t)v.at + 8 * v.n * each <= n);
	for (size_t i = 0; i < v.n * each; i++)
		sink += words[i];
}

void read_all(const struct pf_record *r, const unsigned char *bytes, size_t n)
{
	static const uint64_t texts = PF_HAS(MMAP) | PF_HAS(MMAP2) | PF_HAS(COMM) | PF_HAS(KSYMBOL) | PF_HAS(CGROUP);
	const uint64_t has = r->has;
	struct pf_reading rd;

	CHECK(r->size == n);
	if (has & PF_SAMPLE(READ)) {
		read_words(bytes, n, r->read, 1);
		CHECK(pf_read_decode(r->read_format, pf_view_u64(bytes, r->read), r->read.n, &rd) == r->read.n);
	}
	if (has & PF_SAMPLE(CALLCHAIN))
		read_words(bytes, n, r->callchain, 1);
	if (has & PF_SAMPLE(RAW))
		read_bytes(bytes, n, r->raw, 1);
	if (has & PF_SAMPLE(AUX))
		read_bytes(bytes, n, r->aux, 1);
	if (has & PF_SAMPLE(STACK_USER)) {
		CHECK(r->stack_dyn_size <= r->stack_user.n);
		read_bytes(bytes, n, r->stack_user, 1);
	}
	if (has & PF_SAMPLE(BRANCH_STACK))
		read_words(bytes, n, r->branch_stack, 3);
	if (has & PF_HAS_COUNTERS) {
		CHECK(r->branch_counters.n == r->branch_stack.n);
		read_words(bytes, n, r->branch_counters, 1);
	}
	if (has & PF_SAMPLE(REGS_USER)) {
		CHECK(r->regs_user.n == (r->regs_user_abi ? __builtin_popcountll(r->regs_user_mask) : 0));
		read_words(bytes, n, r->regs_user, 1);
	}
	if (has & PF_SAMPLE(REGS_INTR)) {
		CHECK(r->regs_intr.n == (r->regs_intr_abi ? __builtin_popcountll(r->regs_intr_mask) : 0));
		read_words(bytes, n, r->regs_intr, 1);
	}
	if (has & texts) {
		read_bytes(bytes, n, r->text, 1);
		CHECK(bytes[r->text.at + r->text.n] == 0);
	}
	if (has & PF_HAS_BUILD_ID)
		read_bytes(bytes, n, r->build_id, 1);
	if (has & PF_HAS(BPF_EVENT))
		read_bytes(bytes, n, r->tag, 1);
	if (has & PF_HAS(TEXT_POKE)) {
		read_bytes(bytes, n, r->old_bytes, 1);
		read_bytes(bytes, n, r->new_bytes, 1);
	}
	if (has & PF_HAS(NAMESPACES))
		read_words(bytes, n, r->namespaces, 2);
	if (has & PF_HAS_OTHER)
		read_bytes(bytes, n, r->body, 1);
}

void same_record(const struct pf_record *a, const struct pf_record *b)
{
	CHECK(a->type == b->type && a->misc == b->misc && a->size == b->size && a->has == b->has);
#define SAME(bits, member) CHECK(!(a->has & (bits)) || memcmp(&a->member, &b->member, sizeof a->member) == 0);
	SAME(PF_SAMPLE(IP), ip)
	SAME(PF_SAMPLE(TID), pid)
	SAME(PF_SAMPLE(TID), tid)
	SAME(PF_SAMPLE(TIME), time)
	SAME(PF_SAMPLE(ADDR), addr)
	SAME(PF_SAMPLE(ID), id)
	SAME(PF_HAS_EVENT_ID, event_id)
	SAME(PF_SAMPLE(STREAM_ID), stream_id)
	SAME(PF_SAMPLE(CPU), cpu)
	SAME(PF_SAMPLE(PERIOD), period)
	SAME(PF_SAMPLE(READ), read)
	SAME(PF_SAMPLE(CALLCHAIN), callchain)
	SAME(PF_SAMPLE(RAW), raw)
	SAME(PF_SAMPLE(BRANCH_STACK), branch_stack)
	SAME(PF_SAMPLE(REGS_USER), regs_user)
	SAME(PF_SAMPLE(STACK_USER), stack_user)
	SAME(PF_SAMPLE(WEIGHT), weight)
	SAME(PF_SAMPLE(DATA_SRC), data_src)
	SAME(PF_SAMPLE(TRANSACTION), transaction)
	SAME(PF_SAMPLE(PHYS_ADDR), phys_addr)
	SAME(PF_SAMPLE(CGROUP), cgroup)
	SAME(PF_SAMPLE(CODE_PAGE_SIZE), code_page_size)
	SAME(PF_SAMPLE(AUX), aux)
	SAME(PF_HAS(MMAP) | PF_HAS(MMAP2), pgoff)
	SAME(PF_HAS(MMAP) | PF_HAS(MMAP2) | PF_HAS(COMM) | PF_HAS(KSYMBOL) | PF_HAS(CGROUP), text)
	SAME(PF_HAS_INODE, ino)
	SAME(PF_HAS(TEXT_POKE), new_bytes)
	SAME(PF_HAS(AUX), aux_flags)
	SAME(PF_HAS(BPF_EVENT) | PF_HAS(KSYMBOL), kind)
#undef SAME
}

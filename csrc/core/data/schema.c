/* The rows of every feature and record, and the walk over bytes by them. */
#include "core/data/schema.h"

#include <string.h>

#include "core/data/format.h"
#include "core/data/swap.h"

#define ROW(k, bytes, n) {.kind = PF_##k, .size = (bytes), .name = (n)},
#define END ROW(END, 0, "")
#define U32(name) ROW(UNSIGNED, 4, #name)
#define U64(name) ROW(UNSIGNED, 8, #name)
#define S16(name) ROW(SIGNED, 2, #name)
#define S32(name) ROW(SIGNED, 4, #name)
#define I64(name) ROW(SIGNED, 8, #name)
#define F64(name) ROW(FLOAT, 8, #name)
#define BOOL(name) ROW(BOOL, 1, #name)
#define STRING(name) ROW(STRING, 4, #name)
#define CHARS(name, n) ROW(CHARS, n, #name)
#define TEXT(name, n) ROW(TEXT, n, #name)
#define BYTES(name) ROW(BYTES, 0, #name)
#define WORDS(name) ROW(WORDS, 0, #name)
#define REST ROW(REST, 0, "")
#define ATTR_SIZE ROW(ATTR_SIZE, 4, "")
#define ATTR(name) ROW(ATTR, PF_ATTR_SIZE_VER0, #name)
#define BUILD_ID(name) ROW(BUILD_ID, 24, #name)
#define BITMAP(name) ROW(BITMAP, 8, #name)
#define CPU_MASK(name) ROW(CPU_MASK, 4, #name)
#define CPU_RANGE(name) ROW(CPU_RANGE, 4, #name)
#define FEATURE(name) ROW(FEATURE, 8, #name)
#define PAD(width, v) {.kind = PF_PAD, .size = (width), .from = (v), .name = ""},
#define MISC(name) ROW(MISC, 0, #name)
#define FLAG ROW(FLAG, 0, "")
#define TABLE ROW(TABLE, 0, "")
#define COUNT(width) ROW(COUNT, width, "")
#define NCPUS ROW(NCPUS, 0, "")
#define SAME_NCPUS ROW(SAME_NCPUS, 0, "")
#define LIST(name, row) ROW(LIST, 0, #name) row END
#define TABLES(name, rows) ROW(TABLES, 0, #name) rows END
#define MAP(name) ROW(MAP, 0, #name) ROW(MAP_KEY, 4, "name of a capability") ROW(MAP_VALUE, 4, "capability") END
#define RECORDS(rows) ROW(RECORDS, 0, "") rows END
#define OPTIONAL ROW(OPTIONAL, 0, "")
#define KEY(width) ROW(SELECTOR, width, "")
/* The rows are variadic for cppcheck, which expands them before it counts the arguments. */
#define BETWEEN(low, high) {.kind = PF_WHEN, .from = (low), .to = (high), .name = ""},
#define WHEN(low, high, ...) BETWEEN(low, high) __VA_ARGS__ END
#define DAMAGED ROW(DAMAGED, 0, "")

const struct pf_feature pf_features[] = {
#define X(sym, bit, name, rows) {name, bit, (const struct pf_row[]){rows END}},
#include "core/data/feature.def"
#undef X
	{0, 0, 0}};

static const struct pf_user_record user_records[] = {
#define X(sym, value, name, rows) [PF_USER_##sym - PF_USER_FIRST] = {name, (const struct pf_row[]){rows END}},
#include "core/data/user_record.def"
#undef X
};

const struct pf_user_record *pf_user_record(uint32_t type)
{
	return type >= PF_USER_FIRST && type <= PF_USER_LAST ? &user_records[type - PF_USER_FIRST] : NULL;
}

const struct pf_row *pf_row_next(const struct pf_row *row)
{
	int depth = 0;

	do
		depth += (row->kind >= PF_LIST) - (row->kind == PF_END);
	while (row++, depth > 0);
	return row;
}

static uint64_t left(const struct pf_reader *r)
{
	return (uint64_t)(r->end - r->at);
}

/* The next n bytes. If there are fewer: NULL, and `bad` is set. */
static const unsigned char *take(struct pf_reader *r, uint64_t n)
{
	const unsigned char *p = r->at;

	if (r->bad || n > left(r)) {
		r->bad = 1;
		return NULL;
	}
	r->at += n;
	return p;
}

static void put_native(const struct pf_reader *r, const unsigned char *at, const void *bytes, size_t n)
{
	if (r->native)
		memcpy(r->native + (at - r->begin), bytes, n);
}

/* A number of width bytes; 0 if it is missing. */
static uint64_t number(struct pf_reader *r, unsigned width)
{
	const unsigned char *p = take(r, width);
	union {
		unsigned char bytes[8];
		uint8_t u8;
		uint16_t u16;
		uint32_t u32;
		uint64_t u64;
	} v = {.u64 = 0};

	if (!p)
		return 0;
	for (unsigned i = 0; i < width; i++)
		v.bytes[i] = p[r->swapped ? width - 1 - i : i];
	put_native(r, p, v.bytes, width);
	return width == 8 ? v.u64 : width == 4 ? v.u32 : width == 2 ? v.u16 : v.u8;
}

static void emit(struct pf_reader *r, const struct pf_row *row, enum pf_part part, const void *p, uint64_t n)
{
	if (r->emit && (!r->bad || part >= PF_PART_OPEN))
		r->emit(r, row, part, p, n);
}

/* Text in n bytes, without the zeros at its end. */
static void text(struct pf_reader *r, const struct pf_row *row, uint64_t n)
{
	const char *p = (const char *)take(r, n);

	emit(r, row, PF_PART_BYTES, p, p ? strnlen(p, (size_t)n) : 0);
}

static void attr(struct pf_reader *r, const struct pf_row *row)
{
	uint32_t size = r->attr_size;
	const unsigned char *p = r->at;
	struct pf_attr a;

	if (size == 0 && left(r) >= PF_ATTR_SIZE_VER0) {
		memcpy(&size, p + offsetof(struct pf_attr, size), sizeof size);
		size = r->swapped ? __builtin_bswap32(size) : size;
		size = size ? size : PF_ATTR_SIZE_VER0;
	}
	if (size < PF_ATTR_SIZE_VER0 || !take(r, size)) {
		r->bad = 1;
		return;
	}
	pf_attr_from(&a, p, size, r->swapped);
	put_native(r, p, &a, size < sizeof a ? size : sizeof a);
	emit(r, row, PF_PART_BYTES, &a, sizeof a);
}

static void build_id(struct pf_reader *r, const struct pf_row *row)
{
	const unsigned size_is_set = 1u << 15;
	const unsigned char *p = take(r, row->size);

	if (p)
		emit(r, row, PF_PART_BYTES, p, r->misc & size_is_set && p[20] < 20 ? p[20] : 20);
}

static void element(struct pf_reader *r, const struct pf_row *row, uint64_t n)
{
	r->index++;
	emit(r, row, PF_PART_NUMBER, NULL, n);
}

/* The next n words of a mask. */
static void mask(struct pf_reader *r, const struct pf_row *row, uint64_t n, unsigned width)
{
	for (uint64_t first = 0; n > 0 && !r->bad; n--, first += 8 * width) {
		const uint64_t word = number(r, width);

		for (unsigned bit = 0; bit < 8 * width; bit++)
			if (word >> bit & 1)
				element(r, row, first + bit);
	}
}

static void cpu_mask(struct pf_reader *r, const struct pf_row *row)
{
	const uint64_t n = number(r, 2), width = number(r, 2);

	if (width == 8)
		take(r, 4);
	else if (width != 4)
		r->bad = 1;
	mask(r, row, n, (unsigned)width);
}

static void bitmap(struct pf_reader *r, const struct pf_row *row)
{
	const uint64_t bits = number(r, 8), words = bits / 64 + (bits % 64 != 0);

	if (words > left(r) / 8)
		r->bad = 1;
	mask(r, row, words, 8);
}

/* An array of numbers. */
static void numbers(struct pf_reader *r, const struct pf_row *row)
{
	const uint64_t outer = r->index;

	emit(r, row, PF_PART_OPEN, NULL, 0);
	r->index = 0;
	if (row->kind == PF_BITMAP) {
		bitmap(r, row);
	} else if (row->kind == PF_CPU_MASK) {
		cpu_mask(r, row);
	} else if (row->kind == PF_CPU_RANGE) {
		const uint64_t first = number(r, 2), last = number(r, 2);

		for (uint64_t cpu = first; cpu <= last && !r->bad; cpu++)
			element(r, row, cpu);
	} else {
		while (!r->bad && left(r) >= 8)
			element(r, row, number(r, 8));
	}
	r->index = outer;
	emit(r, row, PF_PART_CLOSE, NULL, 0);
}

/* The fields of a table that is an element of the array row. */
static void table(struct pf_reader *r, const struct pf_row *row)
{
	const uint64_t index = r->index;

	emit(r, row, PF_PART_OPEN, NULL, 0);
	r->index = 0;
	pf_read(r, row + 1);
	r->index = index;
	emit(r, row, PF_PART_CLOSE, NULL, 0);
}

static void list(struct pf_reader *r, const struct pf_row *row, uint64_t n)
{
	const uint64_t outer = r->index;
	uint64_t least = 0;

	for (const struct pf_row *part = row + 1; part->kind != PF_END; part = pf_row_next(part))
		least += part->size;
	if (least == 0 || n > left(r) / least)
		r->bad = 1;
	emit(r, row, PF_PART_OPEN, NULL, 0);
	for (r->index = 1; r->index <= n && !r->bad; r->index++)
		if (row->kind == PF_TABLES)
			table(r, row);
		else
			pf_read(r, row + 1);
	r->index = outer;
	emit(r, row, PF_PART_CLOSE, NULL, 0);
}

static void records(struct pf_reader *r, const struct pf_row *row)
{
	const unsigned char *const end = r->end;
	const size_t head = sizeof(struct pf_header), least = 28; /* the least size of the body: the pid and the build id */

	emit(r, row, PF_PART_OPEN, NULL, 0);
	while (r->at < end && !r->bad) {
		uint64_t size;

		number(r, 4);
		r->misc = (uint16_t)number(r, 2);
		size = number(r, 2);
		if (size < head + least || size - head > left(r)) {
			r->bad = 1;
		} else {
			r->end = r->at + size - head;
			r->index++;
			table(r, row);
			r->at = r->end;
			r->end = end;
		}
	}
	r->index = 0;
	emit(r, row, PF_PART_CLOSE, NULL, 0);
}

void pf_read(struct pf_reader *r, const struct pf_row *row)
{
	uint64_t count = 0, key = 0, n;
	const unsigned char *p;

	for (; row->kind != PF_END; row = pf_row_next(row))
		switch (row->kind) {
		case PF_UNSIGNED:
		case PF_FLOAT:
		case PF_BOOL:
		case PF_FEATURE:
			n = number(r, row->size);
			emit(r, row, PF_PART_NUMBER, NULL, n);
			break;
		case PF_SIGNED:
			n = number(r, row->size) << (64 - 8 * row->size);
			emit(r, row, PF_PART_NUMBER, NULL, (uint64_t)((int64_t)n >> (64 - 8 * row->size)));
			break;
		case PF_MISC:
			emit(r, row, PF_PART_NUMBER, NULL, r->misc);
			break;
		case PF_FLAG:
			emit(r, row, PF_PART_NUMBER, NULL, 1);
			break;
		case PF_TABLE: /* the caller's, and so never closed */
			emit(r, row, PF_PART_OPEN, NULL, 0);
			break;
		case PF_STRING:
		case PF_MAP_KEY:
		case PF_MAP_VALUE:
			text(r, row, number(r, 4));
			break;
		case PF_CHARS:
			text(r, row, row->size);
			break;
		case PF_TEXT:
			if (row->size == 0)
				text(r, row, left(r));
			else if (left(r) > 0)
				text(r, row, left(r) < row->size ? left(r) : row->size);
			break;
		case PF_BYTES:
			n = left(r);
			p = take(r, n);
			emit(r, row, PF_PART_BYTES, p, n);
			break;
		case PF_BUILD_ID:
			build_id(r, row);
			break;
		case PF_ATTR_SIZE:
			r->attr_size = (uint32_t)number(r, 4);
			r->bad |= r->attr_size < PF_ATTR_SIZE_VER0;
			break;
		case PF_ATTR:
			attr(r, row);
			break;
		case PF_REST:
			while (!r->bad && left(r) >= 8)
				number(r, 8);
			break;
		case PF_WORDS:
		case PF_BITMAP:
		case PF_CPU_MASK:
		case PF_CPU_RANGE:
			numbers(r, row);
			break;
		case PF_PAD:
			number(r, row->size);
			break;
		case PF_COUNT:
			count = number(r, row->size);
			break;
		case PF_NCPUS: /* the row itself has no count: if the file's number of CPUs is missing or too large, read to the end */
			if (r->ncpus == 0 || r->ncpus > left(r) / 8)
				r->ncpus = left(r) / 8;
			count = r->ncpus;
			break;
		case PF_SAME_NCPUS:
			count = r->ncpus;
			break;
		case PF_LIST:
		case PF_TABLES:
		case PF_MAP:
			list(r, row, count);
			break;
		case PF_RECORDS:
			records(r, row);
			break;
		case PF_OPTIONAL:
			if (r->at == r->end)
				return;
			break;
		case PF_SELECTOR:
			key = number(r, row->size);
			break;
		case PF_WHEN:
			if (!r->bad && key >= row->from && key <= row->to)
				pf_read(r, row + 1);
			break;
		case PF_DAMAGED:
			r->bad = 1;
			break;
		case PF_END:
			break;
		}
}

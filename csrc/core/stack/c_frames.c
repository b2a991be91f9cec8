/* See c_frames.h. The table .eh_frame_hdr lists the first address of each function in order, with the place of the function's entry in
 * .eh_frame. The entry (FDE), and the part common to several functions (CIE), have programs of DW_CFA operations, which say for each
 * instruction of the function where the caller's registers are. */
#include "core/stack/c_frames.h"

#include <errno.h>
#include <string.h>

enum {
	CHUNK = 64,     /* bytes that are read at once */
	RULES = 33,     /* registers, and the return address of machines that have no register for it */
	REMEMBERED = 4, /* nested DW_CFA_remember_state */
	MOST_OPERATIONS = 1024,
	MOST_ENTRY = 1 << 16, /* bytes */
};
enum { ADDRESS_BITS = 48 /* arm64 signs return addresses in the other bits */ };

/* The encodings of addresses that linkers use. */
enum { UNSIGNED_4 = 0x03, SIGNED_4_FROM_HERE = 0x1b, SIGNED_4_FROM_TABLE = 0x3b, ENCODED_SIZE = 0x0f };

enum kind { SAME, IN_MEMORY, SUM, OTHER_REGISTER, UNKNOWN };

struct rules {
	unsigned base; /* the canonical frame address is the value of this register plus the distance */
	int32_t distance;
	uint8_t here; /* they may hold for this instruction alone */
	uint64_t changed; /* bits of the registers that have a kind and a value; the others are the SAME in the caller */
	uint8_t kind[RULES];
	int32_t value[RULES]; /* a distance from the canonical frame address, or the number of a register */
};

struct cursor {
	const struct pf_memory *m;
	uint64_t at, end, chunk_at;
	unsigned chunk;
	int failed;
	uint8_t bytes[CHUNK];
};

/* The entry of a function. */
struct entry {
	uint64_t from, end;
	unsigned code_unit, address; /* address: the number of the return address's rule */
	int32_t data_unit;
	struct cursor common, own; /* the programs */
	uint64_t row, row_end;     /* the instructions for which the rules hold that the program made */
};

/* --- bytes ---------------------------------------------------------------------------------------------------------- */

static int fill(struct cursor *c)
{
	if (c->failed || c->at >= c->end)
		return -1;
	c->chunk_at = c->at;
	c->chunk = c->end - c->at < CHUNK ? (unsigned)(c->end - c->at) : CHUNK;
	return c->m->read(c->m, c->bytes, c->at, c->chunk);
}

static inline unsigned byte(struct cursor *c)
{
	if (c->at - c->chunk_at >= c->chunk && fill(c) < 0) {
		c->chunk = 0;
		c->failed = 1;
		return 0;
	}
	return c->bytes[c->at++ - c->chunk_at];
}

static uint64_t number(struct cursor *c, unsigned size)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < size; i++)
		v |= (uint64_t)byte(c) << 8 * i;
	return v;
}

/* A LEB128 number. sign: it may be negative. */
static inline uint64_t leb(struct cursor *c, int sign)
{
	uint64_t v = 0;
	unsigned shift = 0, b;

	do {
		b = byte(c);
		v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80 && shift < 63);
	return sign && b & 0x40 ? v | ~UINT64_C(0) << shift : v;
}

static int32_t distance(struct cursor *c, int sign, int32_t unit)
{
	return (int32_t)((uint32_t)leb(c, sign) * (uint32_t)unit);
}

static void skip(struct cursor *c, uint64_t n)
{
	c->failed |= n > c->end - c->at;
	c->at += n;
}

/* --- entries -------------------------------------------------------------------------------------------------------- */

static int open_entry(struct cursor *c, const struct pf_memory *m, uint64_t at)
{
	uint64_t size;

	c->chunk_at = 0;
	c->chunk = 0;
	c->failed = 0;
	c->m = m;
	c->at = at;
	c->end = at + 4;
	size = number(c, 4);
	c->end = c->at + size;
	return c->failed || size < 4 || size > MOST_ENTRY ? -ENOENT : 0;
}

/* Find the last entry whose function begins at an address or before it. Returns its place; 0 if there is none. */
static uint64_t find(const struct pf_code *code, const struct pf_memory *m, uint64_t address)
{
	struct {
		uint8_t version, frames, count, entries;
		int32_t frames_at;
		uint32_t n;
	} head;
	int32_t pair[2], found = 0;
	uint64_t table = 0;
	uint32_t low = 0;

	for (unsigned i = 0; i < code->n; i++)
		if (address - code->objects[i].from < code->objects[i].end - code->objects[i].from)
			table = code->objects[i].table;
	if (!table || m->read(m, &head, table, sizeof head) < 0 || head.version != 1 || head.frames != SIGNED_4_FROM_HERE ||
	    head.count != UNSIGNED_4 || head.entries != SIGNED_4_FROM_TABLE)
		return 0;
	for (uint32_t high = head.n; low < high;) {
		const uint32_t middle = low + (high - low) / 2;

		if (m->read(m, pair, table + sizeof head + (uint64_t)middle * sizeof pair, sizeof pair) < 0)
			return 0;
		if (table + (uint64_t)(int64_t)pair[0] > address) {
			high = middle;
			continue;
		}
		low = middle + 1;
		found = pair[1];
	}
	return low ? table + (uint64_t)(int64_t)found : 0;
}

/* Read the part that is common to several functions. encoding: of the functions' addresses */
static int read_common(struct entry *e, const struct pf_memory *m, uint64_t at, unsigned *encoding, int *has_size)
{
	struct cursor *c = &e->common;
	char letters[8] = "";
	uint64_t size, end;
	unsigned version;

	if (open_entry(c, m, at) < 0 || number(c, 4) != 0)
		return -ENOENT;
	version = byte(c);
	for (unsigned i = 0; i < sizeof letters && (letters[i] = (char)byte(c)); i++)
		;
	if ((version != 1 && version != 3) || letters[sizeof letters - 1] || (letters[0] && letters[0] != 'z'))
		return -ENOENT;
	e->code_unit = (unsigned)leb(c, 0);
	e->data_unit = (int32_t)leb(c, 1);
	e->address = version == 1 ? byte(c) : (unsigned)leb(c, 0);
	*encoding = 0;
	*has_size = letters[0] == 'z';
	if (*has_size) {
		size = leb(c, 0);
		end = c->at + size;
		for (const char *l = letters + 1; *l; l++) {
			if (*l == 'R')
				*encoding = byte(c);
			else if (*l == 'L')
				byte(c);
			else if (*l == 'P')
				skip(c, (byte(c) & 7) == 3 ? 4 : 8);
		}
		c->failed |= end < c->at;
		skip(c, end - c->at);
	}
	return c->failed || e->address >= RULES ? -ENOENT : 0;
}

static int read_entry(struct entry *e, const struct pf_memory *m, uint64_t at)
{
	struct cursor *c = &e->own;
	unsigned encoding, size;
	uint64_t here;
	int has_size;

	if (open_entry(c, m, at) < 0)
		return -ENOENT;
	here = c->at;
	if (read_common(e, m, here - number(c, 4), &encoding, &has_size) < 0)
		return -ENOENT;
	size = (encoding & 7) == 3 ? 4 : 8;
	here = c->at;
	e->from = number(c, size);
	if (size == 4)
		e->from = (uint64_t)(int64_t)(int32_t)(uint32_t)e->from;
	if ((encoding & ~(unsigned)ENCODED_SIZE) == 0x10)
		e->from += here;
	e->end = e->from + number(c, size);
	if (has_size)
		skip(c, leb(c, 0));
	return c->failed ? -ENOENT : 0;
}

/* --- programs ------------------------------------------------------------------------------------------------------- */

static enum kind kind_of(const struct rules *r, unsigned i)
{
	return r->changed >> i & 1 ? r->kind[i] : SAME;
}

static void set(struct rules *r, uint64_t number, enum kind kind, int32_t value)
{
	if (number >= RULES)
		return; /* a floating-point register */
	r->changed |= UINT64_C(1) << number;
	r->kind[number] = (uint8_t)kind;
	r->value[number] = value;
}

/* The frame of a stub of dynamic linking (PLT) on x86-64 is found by an expression: the stub has 16 bytes, and from byte n on, it has
 * pushed a word. Other expressions are hardly ever used. */
static void set_stub(struct rules *r, struct cursor *c, uint64_t address)
{
	static const uint8_t known[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x30 /* n */, 0x2a, 0x33, 0x24, 0x22};
	const uint64_t size = leb(c, 0), end = c->at + size;
	int same = size == sizeof known;
	unsigned n = 0;

	for (unsigned i = 0; i < sizeof known && same; i++) {
		n = byte(c) - known[i];
		same = n == 0 || (i == 6 && n < 16);
		r->distance = i == 6 ? (address & 15) >= n ? 16 : 8 : r->distance;
	}
	r->base = same ? PF_X86_RSP : RULES;
	skip(c, end - c->at);
}

/* Execute a program up to an instruction. first: the rules at the function's beginning; NULL while the common program makes them */
static int execute(struct entry *e, struct cursor *c, struct rules *r, const struct rules *first, uint64_t address)
{
	struct rules kept[REMEMBERED];
	uint64_t at = e->from, n, other;
	unsigned depth = 0;

	e->row = at;
	e->row_end = e->end;
	for (unsigned i = 0; c->at < c->end && !c->failed; i++) {
		const unsigned op = byte(c), low = op & 0x3f;
		uint64_t advance = 0;

		if (i == MOST_OPERATIONS)
			return -ENOENT;
		switch (op & 0xc0 ? op & 0xc0 : op) {
		case 0x00: /* DW_CFA_nop */
		case 0x2d: /* DW_CFA_AARCH64_negate_ra_state: the return address is signed from here on */
			break;
		case 0x40: advance = low; break; /* DW_CFA_advance_loc, 1, 2, 4 */
		case 0x02: advance = number(c, 1); break;
		case 0x03: advance = number(c, 2); break;
		case 0x04: advance = number(c, 4); break;
		case 0x80: set(r, low, IN_MEMORY, distance(c, 0, e->data_unit)); break; /* offset, _extended, _sf */
		case 0x05: n = leb(c, 0); set(r, n, IN_MEMORY, distance(c, 0, e->data_unit)); break;
		case 0x11: n = leb(c, 0); set(r, n, IN_MEMORY, distance(c, 1, e->data_unit)); break;
		case 0x14: n = leb(c, 0); set(r, n, SUM, distance(c, 0, e->data_unit)); break; /* val_offset, _sf */
		case 0x15: n = leb(c, 0); set(r, n, SUM, distance(c, 1, e->data_unit)); break;
		case 0x07: set(r, leb(c, 0), UNKNOWN, 0); break; /* undefined */
		case 0x08: set(r, leb(c, 0), SAME, 0); break; /* same_value */
		case 0x09: /* register */
			n = leb(c, 0);
			other = leb(c, 0);
			c->failed |= other >= RULES;
			set(r, n, OTHER_REGISTER, (int32_t)other);
			break;
		case 0x10: /* expression, val_expression: only a few functions in assembler have them */
		case 0x16: set(r, leb(c, 0), UNKNOWN, 0); skip(c, leb(c, 0)); break;
		case 0xc0: /* restore, _extended */
		case 0x06:
			n = op & 0xc0 ? low : leb(c, 0);
			if (n < RULES && first)
				set(r, n, kind_of(first, (unsigned)n), first->value[n]);
			break;
		case 0x0a: /* remember_state */
			if (depth == REMEMBERED)
				return -ENOENT;
			kept[depth++] = *r;
			break;
		case 0x0b: /* restore_state */
			if (depth == 0)
				return -ENOENT;
			*r = kept[--depth];
			break;
		case 0x0c: r->base = (unsigned)leb(c, 0); r->distance = distance(c, 0, 1); break; /* def_cfa, _sf */
		case 0x12: r->base = (unsigned)leb(c, 0); r->distance = distance(c, 1, e->data_unit); break;
		case 0x0d: r->base = (unsigned)leb(c, 0); break; /* def_cfa_register */
		case 0x0e: r->distance = distance(c, 0, 1); break; /* def_cfa_offset, _sf */
		case 0x13: r->distance = distance(c, 1, e->data_unit); break;
		case 0x0f: set_stub(r, c, address); r->here = 1; break; /* def_cfa_expression */
		case 0x2e: leb(c, 0); break; /* GNU_args_size */
		default: return -ENOENT;
		}
		if (!advance)
			continue;
		at += advance * e->code_unit;
		if (at > address) {
			e->row_end = at;
			return 0;
		}
		e->row = at;
	}
	return c->failed ? -ENOENT : 0;
}

static struct pf_c_rules *place_of(struct pf_c_seen *seen, uint64_t ip)
{
	return &seen->at[(ip >> 6 ^ ip >> 14) % PF_C_SEEN];
}

/* Take the rules that were kept. Returns 0 if there are none. */
static int take_seen(const struct pf_memory *m, const struct pf_c_frame *f, uint64_t ip, struct rules *r, struct entry *e)
{
	const struct pf_c_rules *kept = f->seen ? place_of(f->seen, ip) : NULL;
	uint64_t code;

	if (!kept || ip - kept->from >= kept->n || m->read(m, &code, kept->function, sizeof code) < 0 || code != kept->code)
		return 0;
	r->base = kept->base;
	r->distance = kept->distance;
	e->from = kept->function;
	e->end = kept->function + kept->size;
	e->address = kept->address;
	for (unsigned i = 0; i < kept->saved_n; i++)
		set(r, kept->saved[i], IN_MEMORY, -(int32_t)(kept->below[i] * PF_C_UNIT));
	return 1;
}

/* Keep rules, if the registers that they name are saved in memory, near the canonical frame address. */
static void keep(const struct pf_memory *m, const struct pf_c_frame *f, uint64_t ip, const struct rules *r, const struct entry *e)
{
	struct pf_c_rules rules = {.function = e->from, .from = r->here ? ip : e->row, .n = r->here ? 1 : (uint32_t)(e->row_end - e->row),
				   .size = (uint32_t)(e->end - e->from), .distance = r->distance, .base = (uint8_t)r->base, .address = (uint8_t)e->address};

	if (!f->seen)
		return;
	for (unsigned i = 0; i < RULES; i++) {
		const int32_t below = kind_of(r, i) == IN_MEMORY ? -(r->value[i] / PF_C_UNIT) : 0;

		if (kind_of(r, i) == SAME)
			continue;
		if (kind_of(r, i) != IN_MEMORY || rules.saved_n == PF_C_SAVED || below != (uint8_t)below || -below * PF_C_UNIT != r->value[i])
			return;
		rules.saved[rules.saved_n] = (uint8_t)i;
		rules.below[rules.saved_n++] = (uint8_t)below;
	}
	if (e->end - e->from <= UINT32_MAX && m->read(m, &rules.code, e->from, sizeof rules.code) == 0)
		*place_of(f->seen, ip) = rules;
}

static int find_rules(const struct pf_code *code, const struct pf_memory *m, const struct pf_c_frame *f, uint64_t ip, struct rules *r,
		      struct entry *e)
{
	const uint64_t at = find(code, m, ip);
	struct rules first;

	if (!at || read_entry(e, m, at) < 0 || ip - e->from >= e->end - e->from || execute(e, &e->common, r, NULL, UINT64_MAX) < 0)
		return -ENOENT;
	first = *r;
	if (execute(e, &e->own, r, &first, ip) < 0 || r->base >= f->r.n)
		return -ENOENT;
	keep(m, f, ip, r, e);
	return 0;
}

static int rules_of(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f, struct rules *r, unsigned *address)
{
	const uint64_t ip = f->r.ip - (unsigned)f->called;
	struct entry e;

	r->base = RULES;
	r->distance = r->here = 0;
	r->changed = 0;
	if (!take_seen(m, f, ip, r, &e) && find_rules(code, m, f, ip, r, &e) < 0)
		return -ENOENT;
	f->above = f->r.general[r->base] + (uint64_t)(int64_t)r->distance;
	f->from = e.from;
	f->end = e.end;
	*address = e.address;
	return f->above < f->r.sp ? -ENOENT : 0;
}

int pf_c_frame_look(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f)
{
	struct rules r;
	unsigned address;

	return rules_of(code, m, f, &r, &address);
}

static int caller_value(const struct pf_c_frame *f, const struct pf_memory *m, const struct rules *r, unsigned i, uint64_t *v)
{
	const enum kind kind = kind_of(r, i);
	const unsigned from = kind == OTHER_REGISTER ? (unsigned)r->value[i] : i;

	*v = from < f->r.n ? f->r.general[from] : 0;
	if (kind == UNKNOWN)
		*v = 0;
	if (kind == SUM)
		*v = f->above + (uint64_t)(int64_t)r->value[i];
	return kind == IN_MEMORY ? m->read(m, v, f->above + (uint64_t)(int64_t)r->value[i], sizeof *v) : 0;
}

void pf_c_frame_return(struct pf_c_frame *f, uint64_t ip, uint64_t sp)
{
	f->r.ip = ip & ((UINT64_C(1) << ADDRESS_BITS) - 1);
	f->r.sp = f->r.general[f->r.n == PF_ARM64_REGISTERS ? PF_ARM64_SP : PF_X86_RSP] = sp;
	f->above = f->from = f->end = 0;
	f->called = 1;
}

int pf_c_frame_leave(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f)
{
	uint64_t values[RULES], ip;
	struct rules r;
	unsigned address;
	const int status = rules_of(code, m, f, &r, &address);

	if (status < 0)
		return status;
	if (caller_value(f, m, &r, address, &ip) < 0)
		return -EFAULT;
	r.changed &= (UINT64_C(1) << f->r.n) - 1;
	for (uint64_t left = r.changed; left; left &= left - 1) {
		const unsigned i = (unsigned)__builtin_ctzll(left);

		if (caller_value(f, m, &r, i, &values[i]) < 0)
			return -EFAULT;
	}
	for (uint64_t left = r.changed; left; left &= left - 1)
		f->r.general[__builtin_ctzll(left)] = values[__builtin_ctzll(left)];
	pf_c_frame_return(f, ip, f->above);
	return f->r.ip ? 0 : -ENOENT;
}

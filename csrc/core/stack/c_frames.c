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

static void set(struct rules *r, struct cursor *c, uint64_t number, enum kind kind, int32_t value)
{
	if (number >= RULES)
		return; /* a floating-point register */
	c->failed |= kind == OTHER_REGISTER && (uint32_t)value >= RULES;
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
static int execute(const struct entry *e, struct cursor *c, struct rules *r, const struct rules *first, uint64_t address)
{
	struct rules kept[REMEMBERED];
	uint64_t at = e->from, n;
	unsigned depth = 0;

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
		case 0x80: set(r, c, low, IN_MEMORY, distance(c, 0, e->data_unit)); break; /* offset, _extended, _sf */
		case 0x05: n = leb(c, 0); set(r, c, n, IN_MEMORY, distance(c, 0, e->data_unit)); break;
		case 0x11: n = leb(c, 0); set(r, c, n, IN_MEMORY, distance(c, 1, e->data_unit)); break;
		case 0x14: n = leb(c, 0); set(r, c, n, SUM, distance(c, 0, e->data_unit)); break; /* val_offset, _sf */
		case 0x15: n = leb(c, 0); set(r, c, n, SUM, distance(c, 1, e->data_unit)); break;
		case 0x07: set(r, c, leb(c, 0), UNKNOWN, 0); break; /* undefined */
		case 0x08: set(r, c, leb(c, 0), SAME, 0); break; /* same_value */
		case 0x09: n = leb(c, 0); set(r, c, n, OTHER_REGISTER, (int32_t)leb(c, 0)); break; /* register */
		case 0x10: /* expression, val_expression: only a few functions in assembler have them */
		case 0x16: set(r, c, leb(c, 0), UNKNOWN, 0); skip(c, leb(c, 0)); break;
		case 0xc0: /* restore, _extended */
		case 0x06:
			n = op & 0xc0 ? low : leb(c, 0);
			if (n < RULES && first)
				set(r, c, n, first->kind[n], first->value[n]);
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
		case 0x0f: set_stub(r, c, address); break; /* def_cfa_expression */
		case 0x2e: leb(c, 0); break; /* GNU_args_size */
		default: return -ENOENT;
		}
		at += advance * e->code_unit;
		if (at > address)
			return 0;
	}
	return c->failed ? -ENOENT : 0;
}

static int rules_of(const struct pf_code *code, const struct pf_memory *m, struct pf_c_frame *f, struct rules *r, unsigned *address)
{
	const uint64_t ip = f->r.ip - (unsigned)f->called;
	const uint64_t at = find(code, m, ip);
	struct rules first;
	struct entry e;

	memset(r, 0, sizeof *r);
	r->base = RULES;
	if (!at || read_entry(&e, m, at) < 0 || ip - e.from >= e.end - e.from || execute(&e, &e.common, r, NULL, UINT64_MAX) < 0)
		return -ENOENT;
	first = *r;
	if (execute(&e, &e.own, r, &first, ip) < 0 || r->base >= f->r.n)
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
	const unsigned from = r->kind[i] == OTHER_REGISTER ? (unsigned)r->value[i] : i;

	*v = from < f->r.n ? f->r.general[from] : 0;
	if (r->kind[i] == UNKNOWN)
		*v = 0;
	if (r->kind[i] == SUM)
		*v = f->above + (uint64_t)(int64_t)r->value[i];
	return r->kind[i] == IN_MEMORY ? m->read(m, v, f->above + (uint64_t)(int64_t)r->value[i], sizeof *v) : 0;
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
	struct pf_c_frame caller = *f;
	struct rules r;
	unsigned address;
	uint64_t ip;
	const int status = rules_of(code, m, f, &r, &address);

	if (status < 0)
		return status;
	for (unsigned i = 0; i < f->r.n; i++)
		if (caller_value(f, m, &r, i, &caller.r.general[i]) < 0)
			return -EFAULT;
	if (caller_value(f, m, &r, address, &ip) < 0)
		return -EFAULT;
	pf_c_frame_return(&caller, ip, f->above);
	*f = caller;
	return f->r.ip ? 0 : -ENOENT;
}

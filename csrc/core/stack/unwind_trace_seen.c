/* See unwind_trace_seen.h. */
#include "core/stack/unwind_trace_seen.h"

#include <stddef.h>

#include "core/base/pages.h"

enum {
	RESULTS = 512,
	WAYS = 4, /* the places that a result may have */
	KEPT = 1 << 13,
	READS_MOST = 64, BYTES_MOST = 1 << 14,
	GAP = 32, /* reads that are no more bytes apart share a note */
};

/* The lower bits of a note are an address, or the number of a trace. The upper bits are the number of bytes, or the kind of structure. */
enum { ADDRESS_BITS = 48, KINDS = 0xfff0 };

struct pf_trace_reads {
	uint64_t at[READS_MOST];
	uint32_t n, bytes;
	int lost; /* not all reads are noted */
};

struct pf_trace_seen {
	struct result {
		uint64_t trace, hash; /* hashes: of the trace's own fields; of all that was read */
		struct pf_trace_position from, at;
		struct pf_snapshot s;
		int collects, marked;
		unsigned constants; /* that were searched */
		uint32_t n;     /* its notes; 0: there is no result */
		uint64_t first; /* the number of its first note, among all that have been kept */
	} results[RESULTS];
	struct pf_trace_reads notes;
	uint64_t kept[KEPT], kept_n; /* notes of the results: the last ones, and the number of all so far */
	unsigned replaced;
};

struct pf_trace_seen *pf_trace_seen_new(void)
{
	return pf_pages_get(sizeof(struct pf_trace_seen));
}

void pf_trace_seen_free(struct pf_trace_seen *seen)
{
	pf_pages_put(seen, sizeof *seen);
}

/* --- notes -------------------------------------------------------------------------------------------------------------- */

static uint64_t note_of(uint64_t at, uint64_t size)
{
	return at | size << ADDRESS_BITS;
}

static uint64_t address_of(uint64_t note)
{
	return note & ((UINT64_C(1) << ADDRESS_BITS) - 1);
}

/* Extend a note of bytes by a read of bytes near them. Returns 0 if they are not near, or the note would be too long. */
static int join(struct pf_trace_reads *reads, uint64_t *note, uint64_t at, uint64_t n)
{
	const uint64_t start = address_of(*note), size = *note >> ADDRESS_BITS, end = start + size;
	const uint64_t from = at < start ? at : start, to = at + n > end ? at + n : end;

	if (size >= KINDS || at > end + GAP || at + n + GAP < start || to - from > BYTES_MOST)
		return 0;
	reads->bytes += (uint32_t)(to - from - size);
	*note = note_of(from, to - from);
	return 1;
}

void pf_luajit_note(const struct pf_luajit_view *v, enum pf_trace_read_kind kind, uint64_t at, size_t n)
{
	struct pf_trace_reads *reads = v->memo->reads;
	const uint64_t note = note_of(at, kind == PF_READ_BYTES ? n : (uint64_t)KINDS + kind);

	for (uint32_t i = 0; i < reads->n; i++)
		if (kind == PF_READ_BYTES ? join(reads, &reads->at[i], at, n) : reads->at[i] == note)
			return;
	if (reads->n == READS_MOST || n > BYTES_MOST || at >> ADDRESS_BITS) {
		reads->lost = 1;
		return;
	}
	reads->at[reads->n++] = note;
	reads->bytes += (uint32_t)n;
}

/* --- hashes ------------------------------------------------------------------------------------------------------------- */

enum { LANES = 4, WORDS = 32 };

struct hash {
	uint64_t lanes[LANES];
};

static uint64_t mix(uint64_t h, uint64_t word)
{
	enum { ROTATE = 29, BITS = 64 };

	h ^= word;
	return (h << ROTATE | h >> (BITS - ROTATE)) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The lanes are variables, so that they stay in registers. */
static void add_words(struct hash *h, const uint64_t *words, size_t n)
{
	uint64_t a = h->lanes[0], b = h->lanes[1], c = h->lanes[2], d = h->lanes[3];

	for (size_t i = 0; i < n; i += LANES) {
		a = mix(a, words[i]);
		b = mix(b, words[i + 1]);
		c = mix(c, words[i + 2]);
		d = mix(d, words[i + 3]);
	}
	*h = (struct hash){{a, b, c, d}};
}

static uint64_t sum(const struct hash *h)
{
	uint64_t x = 0;

	for (size_t k = 0; k < LANES; k++)
		x = mix(x, h->lanes[k]);
	return x ^ x >> 32;
}

static void add_trace(struct hash *h, const struct pf_trace *t)
{
	const uint64_t words[] = {t->code,
				  t->ir,
				  t->snapshots,
				  t->map,
				  t->start,
				  (uint64_t)t->code_size << 32 | t->ir_low,
				  (uint64_t)t->map_n << 32 | t->loop,
				  (uint64_t)t->start_ins << 32 | t->snapshots_n,
				  (uint64_t)t->adjust << 32 | t->number,
				  t->link,
				  0,
				  0};

	add_words(h, words, sizeof words / sizeof *words);
}

static void add_function(struct hash *h, const struct pf_luajit_function *f)
{
	const uint64_t words[] = {
		f->code, f->id,
		f->id ? f->object : (uint64_t)f->n << 32 | f->first,
		f->id ? 0 : f->lineinfo,
		f->id ? 0 : (uint64_t)f->lines << 32 | f->name_size,
		f->id ? 0 : f->name, 0, 0,
	};

	add_words(h, words, sizeof words / sizeof *words);
}

static int add_bytes(const struct pf_luajit_view *v, struct hash *h, uint64_t at, size_t n)
{
	uint64_t words[WORDS];

	for (size_t part; n > 0; at += part, n -= part) {
		part = n < sizeof words ? n : sizeof words;
		if (part % (LANES * sizeof *words)) /* the last words are fewer */
			memset(words + part / (LANES * sizeof *words) * LANES, 0, LANES * sizeof *words);
		if (!pf_luajit_read(v, words, at, part))
			return 0;
		add_words(h, words, (part + LANES * sizeof *words - 1) / (LANES * sizeof *words) * LANES);
	}
	return 1;
}

static void add_structure(const struct pf_luajit_view *v, struct hash *h, unsigned kind, uint64_t at, uint64_t base)
{
	struct pf_luajit_function f;
	struct pf_trace t;
	int there;

	if (kind == PF_READ_TRACE) {
		if (pf_trace_read_numbered(v, (uint32_t)at, &t))
			add_trace(h, &t);
		return;
	}
	if (kind == PF_READ_FRAME)
		there = pf_luajit_function_at(v, base, &f);
	else
		there = kind == PF_READ_CODE ? pf_luajit_function_of_code(v, at, &f) : pf_luajit_object(v, at, &f);
	if (there)
		add_function(h, &f);
}

/* The hash of what a result was found from, read again. Returns 0 if it cannot be read. */
static int hash_of(const struct pf_luajit_view *v, const struct result *r, uint64_t base, uint64_t *hash)
{
	const struct pf_trace_seen *seen = v->u->walks;
	struct hash h = {{0}};

	for (uint32_t i = 0; i < r->n; i++) {
		const uint64_t note = seen->kept[(r->first + i) % KEPT], at = address_of(note), size = note >> ADDRESS_BITS;

		if (size >= KINDS)
			add_structure(v, &h, (unsigned)(size - KINDS), at, base);
		else if (!add_bytes(v, &h, at, (size_t)size))
			return 0;
		h.lanes[0] = mix(h.lanes[0], i); /* a structure that is not there adds nothing else */
	}
	*hash = sum(&h);
	return 1;
}

/* --- results ------------------------------------------------------------------------------------------------------------ */

static uint64_t hash_of_trace(const struct pf_trace *t)
{
	struct hash h = {{0}};

	add_trace(&h, t);
	return sum(&h);
}

/* The first of the places for the results of this code. */
static struct result *results_of(const struct pf_luajit_view *v, uint64_t trace, const struct pf_trace_position *from)
{
	const uint64_t set = mix(mix(trace, from->k), from->called ? from->offset : 0) >> 32;

	return &v->u->walks->results[set % (RESULTS / WAYS) * WAYS];
}

static int collects(const struct pf_luajit_view *v)
{
	return v->vmstate == PF_LUAJIT_COLLECTOR;
}

static int is_free(const struct pf_trace_seen *seen, const struct result *r)
{
	return !r->n || seen->kept_n - r->first > KEPT;
}

static int is_for(const struct pf_luajit_view *v, const struct result *r, uint64_t trace, const struct pf_trace_position *from)
{
	return !is_free(v->u->walks, r) && r->trace == trace && r->from.k == from->k && r->from.called == from->called && r->collects == collects(v) &&
	       (r->from.offset == from->offset || (!from->called && !r->marked));
}

int pf_trace_recall(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, struct pf_trace_position *at, struct pf_snapshot *s)
{
	const struct result *r;
	uint64_t trace, hash;

	if (!v->u->walks)
		return 0;
	trace = hash_of_trace(t);
	r = results_of(v, trace, at);
	for (unsigned i = 0; i < WAYS; i++, r++) {
		if (!is_for(v, r, trace, at) || !hash_of(v, r, base, &hash) || hash != r->hash)
			continue;
		*at = r->at;
		*s = r->s;
		v->memo->constants = r->constants;
		return 1;
	}
	return 0;
}

void pf_trace_begin_notes(const struct pf_luajit_view *v)
{
	struct pf_trace_reads *notes;

	if (!v->u->walks)
		return;
	notes = &v->u->walks->notes;
	notes->n = notes->bytes = 0;
	notes->lost = 0;
	memset(&v->memo->last, 0, sizeof v->memo->last); /* it was read without a note */
	v->memo->marked = 0;
	v->memo->reads = notes;
}

void pf_trace_keep(const struct pf_luajit_view *v, const struct pf_trace *t, uint64_t base, const struct pf_trace_position *from,
		   const struct pf_trace_position *at, const struct pf_snapshot *s)
{
	const struct pf_trace_reads *notes = v->memo->reads;
	struct pf_trace_seen *seen = v->u->walks;
	struct result *r;
	uint64_t trace;
	unsigned i;

	v->memo->reads = NULL;
	if (!notes || notes->lost || notes->bytes > BYTES_MOST || v->memo->refused)
		return;
	trace = hash_of_trace(t);
	r = results_of(v, trace, from);
	for (i = 0; i < WAYS && !is_free(seen, &r[i]) && !is_for(v, &r[i], trace, from); i++)
		;
	r += i < WAYS ? i : seen->replaced++ % WAYS;
	*r = (struct result){.trace = trace, .from = *from, .at = *at, .s = *s, .collects = collects(v), .marked = v->memo->marked};
	r->constants = v->memo->constants;
	r->first = seen->kept_n;
	for (i = 0; i < notes->n; i++)
		seen->kept[seen->kept_n++ % KEPT] = notes->at[i];
	r->n = notes->n;
	if (!hash_of(v, r, base, &r->hash))
		r->n = 0;
}

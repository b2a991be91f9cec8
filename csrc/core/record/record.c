/* Bodies of the records that are not samples (body.def). Each ends with the trailer that sample_id_all adds (layout.c). The
 * trailer is removed first, so that a body's text or array ends where it should. */
#include "core/record/record.h"

#include <errno.h>

#include "core/record/walk.h"

_Static_assert(PF_HAS_BODY + PF_RECORD_LAST < PF_HAS_EVENT_ID_BIT, "no bit of `has` is left for another body: move PF_HAS_EVENT_ID_BIT");

enum { MD5_SIZE = 16, SHA1_SIZE = 20, BUILD_ID_MAX = 20 };

PF_INLINE void trailer(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	const uint64_t st = l->sample_type & PF_TRAILER, had = out->has, identifier = PF_SAMPLE(IDENTIFIER);

	pf_take_fields(w, st & ~identifier, had, out);
	pf_take_fields(w, st & identifier, had, out); /* the first in a sample, the last here */
	out->has |= (st & ~identifier) | pf_has_ids(st);
}

PF_INLINE int text(struct pf_walk *w, struct pf_record *out)
{
	const size_t room = pf_left(w);
	const void *zero = room ? memchr(w->bytes + w->at, 0, room) : NULL;

	if (!zero)
		return -EBADMSG;
	out->text.at = (uint16_t)w->at;
	out->text.n = (uint16_t)((const unsigned char *)zero - w->bytes - (ptrdiff_t)w->at);
	return 0;
}

/* The bit in misc does not suffice: the kernel does not clear it. Once it has written the record for an event with attr.build_id, of any
 * process, it writes the record for the next events with the bit too, but with the file's inode. So the bit counts only for an event
 * with that attr. Tools that add build ids to a finished file do not set the attr. Their records are recognized by the first word: it is
 * the size of a common build id, which no device has as its major number. */
PF_INLINE int has_build_id(const struct pf_layout *l, const struct pf_walk *w, const struct pf_record *out)
{
	const unsigned char *const size = w->bytes + w->at; /* of a build id: one byte, then three zeros */

	if (!(out->misc & PF_MISC_MMAP_BUILD_ID) || size[1] || size[2] || size[3])
		return 0;
	return l->build_id ? size[0] > 0 && size[0] <= BUILD_ID_MAX : size[0] == MD5_SIZE || size[0] == SHA1_SIZE;
}

PF_INLINE void file(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	if (has_build_id(l, w, out)) {
		out->build_id = (struct pf_view){.at = (uint16_t)(w->at + 4), .n = w->bytes[w->at]};
		out->has |= PF_HAS_BUILD_ID;
		w->at += 24;
	} else {
		out->maj = pf_next32(w);
		out->min = pf_next32(w);
		out->ino = pf_next64(w);
		out->ino_generation = pf_next64(w);
		out->has |= PF_HAS_INODE;
	}
}

PF_INLINE int reading(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	out->read_format = (uint32_t)l->read_format;
	out->read_hidden = l->read_hidden;
	out->has |= PF_SAMPLE(READ);
	return pf_take_read(w, l->read_format, &out->read) ? 0 : -EBADMSG;
}

PF_INLINE int pairs(struct pf_walk *w, struct pf_view *out)
{
	const uint64_t nr = pf_next64(w);

	if (nr > pf_left(w) / 16)
		return -EBADMSG;
	pf_take64(w, 2 * nr, out);
	out->n = (uint16_t)nr;
	return 0;
}

PF_INLINE int poke(struct pf_walk *w, struct pf_record *out)
{
	const uint16_t old_len = pf_next16(w), new_len = pf_next16(w);

	return pf_take_bytes(w, old_len, &out->old_bytes) && pf_take_bytes(w, new_len, &out->new_bytes) ? 0 : -EBADMSG;
}

/* The smallest sizes of the parts. */
enum {
	U64 = 8, U32 = 4, U16 = 2, TID = 4, ADDR = 8, TIME = 8, ID = 8, STREAM_ID = 8, ID32 = 4,
	TEXT = 1, INODE = 24, READ = 8, PAIRS = 8, CHAIN = 8, TAG = 8, POKE = 4
};

/* The smallest size of a body; 0 for a type that this module does not know. */
static const uint8_t least[PF_RECORD_LAST + 1] = {
#define F(kind, member) + kind
#define BODY(type, parts) [PF_RECORD_##type] = 0 parts,
#include "core/record/body.def"
};

#define TAKE_U64(member) out->member = pf_next64(w);
#define TAKE_U32(member) out->member = pf_next32(w);
#define TAKE_U16(member) out->member = pf_next16(w);
#define TAKE_TID(member) TAKE_U32(member) out->has |= PF_SAMPLE(TID);
#define TAKE_ADDR(member) TAKE_U64(member) out->has |= PF_SAMPLE(ADDR);
#define TAKE_TIME(member) TAKE_U64(member) out->has |= PF_SAMPLE(TIME);
#define TAKE_ID(member) TAKE_U64(member) out->has |= PF_SAMPLE(ID);
#define TAKE_STREAM_ID(member) TAKE_U64(member) out->has |= PF_SAMPLE(STREAM_ID);
#define TAKE_ID32(member) TAKE_U32(member) out->has |= PF_SAMPLE(ID);
#define TAKE_TEXT(member) r = text(w, out);
#define TAKE_INODE(member) file(l, w, out);
#define TAKE_READ(member) r = reading(l, w, out);
#define TAKE_PAIRS(member) r = pairs(w, &out->member);
#define TAKE_CHAIN(member) out->has |= PF_SAMPLE(CALLCHAIN); r = pf_take64(w, pf_next64(w), &out->member) ? 0 : -EBADMSG;
#define TAKE_TAG(member) pf_take_bytes(w, TAG, &out->member);
#define TAKE_POKE(member) r = poke(w, out);

PF_INLINE int body(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	int r = 0;

	if (pf_left(w) < least[out->type])
		return -EBADMSG;
	out->has = PF_BIT(PF_HAS_BODY + out->type);
	switch (out->type) {
#define F(kind, member) if (r == 0) { TAKE_##kind(member) }
#define BODY(type, parts) case PF_RECORD_##type: parts return r;
#include "core/record/body.def"
	default:
		return PF_RECORD_UNKNOWN;
	}
}

static int known(uint32_t type)
{
	return type <= PF_RECORD_LAST && (least[type] || type == PF_RECORD_SWITCH);
}

PF_INLINE int parse(const struct pf_layout *l, unsigned char *bytes, size_t n, struct pf_record *out, int swap)
{
	struct pf_walk w = {.bytes = bytes, .end = n, .swap = swap};
	int r;

	if ((uintptr_t)bytes % _Alignof(uint64_t))
		return -EINVAL;
	if (n < sizeof(struct pf_header) || n >= PF_RECORD_MAX_SIZE)
		return -EBADMSG;
	out->type = pf_next32(&w);
	out->misc = pf_next16(&w);
	out->size = pf_next16(&w);
	if (out->size != n)
		return -EBADMSG;
	if (out->type == PF_RECORD_SAMPLE && n % 8 == 0 && l)
		return swap ? pf_sample_parse_swapped(l, &w, out) : pf_sample_parse(l, &w, out);

	out->has = 0;
	if (pf_record_is_user(out->type)) {
		pf_take_bytes(&w, pf_left(&w), &out->body);
		out->has = PF_HAS_OTHER;
		return PF_RECORD_UNKNOWN;
	}
	if (!l || n % 8 || pf_left(&w) < l->trailer_size)
		return -EBADMSG;
	w.end = pf_trailer_at(l, out->type, bytes, n, swap);
	if (known(out->type)) {
		r = body(l, &w, out);
	} else {
		pf_take_bytes(&w, pf_left(&w), &out->body);
		out->has = PF_HAS_OTHER;
		r = PF_RECORD_UNKNOWN;
	}
	if (r < 0)
		return r;
	w.at = w.end;
	w.end += l->trailer_size;
	if (l->trailer_size)
		trailer(l, &w, out);
	return r;
}

int pf_record_parse(const struct pf_layout *l, const unsigned char *bytes, size_t n, struct pf_record *out)
{
	union {
		const unsigned char *in;
		unsigned char *same;
	} b = {.in = bytes}; /* the native walk writes nothing */

	return parse(l, b.same, n, out, 0);
}

int pf_record_parse_swapped(const struct pf_layout *l, unsigned char *bytes, size_t n, struct pf_record *out)
{
	return parse(l, bytes, n, out, 1);
}

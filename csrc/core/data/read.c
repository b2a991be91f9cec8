/* For each record, its header is read and checked, then all of it is read into the window, and then it is swapped into this
 * machine's byte order. A compressed record is unpacked into a second window, whose records come before the next one of the file.
 * Every number of the file is checked against the bytes that are there before it is used. */
#include "core/data/read.h"

#include <errno.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/data/swap.h"
#include "core/record/record.h"

/* Like pf_data_bad, but the next record cannot be found: the reading ends. */
static int lost(struct pf_data *d, uint64_t where, const char *why)
{
	d->stopped = 1;
	return pf_data_bad(d, where, why);
}

ssize_t pf_data_payload(struct pf_data *d, void *out, size_t n)
{
	ssize_t got;

	if (n > d->payload)
		n = (size_t)d->payload;
	if (n > d->src.cap)
		n = d->src.cap;
	got = pf_source_need(&d->src, n);
	if (got <= 0)
		return n > 0 && got == 0 ? lost(d, d->src.offset, "the data that follows a record is cut off") : got;
	memcpy(out, pf_source_bytes(&d->src), (size_t)got);
	pf_source_skip(&d->src, (size_t)got);
	d->payload -= (uint64_t)got;
	return got;
}

static int skip_payload(struct pf_data *d)
{
	uint64_t from = d->src.offset, to = from + d->payload;
	int r = pf_source_seek(&d->src, to);

	d->payload = 0;
	if (r == -ENODATA || to > d->end || to > d->src.size)
		return lost(d, from, "the data that follows a record is cut off");
	if (r < 0)
		d->stopped = 1;
	return r;
}

/* Notes the number of bytes that follow this record. It is in native order. */
static int set_payload(struct pf_data *d, const unsigned char *record, const struct pf_header *h)
{
	uint64_t size = 0;
	uint32_t size32;

	if (h->type == PF_USER_AUXTRACE && h->size >= 16) {
		memcpy(&size, record + 8, sizeof size);
	} else if (h->type == PF_USER_HEADER_TRACING_DATA && h->size >= 12) {
		memcpy(&size32, record + 8, sizeof size32);
		size = size32;
	}
	if (size > UINT64_MAX - d->src.offset || d->src.offset + size > d->end)
		return lost(d, d->src.offset, "the data that follows a record is longer than the file");
	d->payload = size;
	return 0;
}

/* Reads the next record of s, whose bytes end at offset end, into the window. Returns its size, 0 at the end, or -errno. */
static int frame(struct pf_data *d, struct pf_source *s, uint64_t end, struct pf_header *h)
{
	uint64_t left = end - s->offset;
	ssize_t n;

	if (left == 0)
		return 0;
	n = pf_source_need(s, left < sizeof *h ? (size_t)left : sizeof *h);
	if (n < 0) {
		d->stopped = 1;
		return (int)n;
	}
	if (n == 0 && (d->pipe || d->unfinished) && s == &d->src)
		return 0;
	if ((size_t)n < sizeof *h)
		return lost(d, s->offset, "the data ends within a record");
	memcpy(h, pf_source_bytes(s), sizeof *h);
	if (d->swapped)
		pf_swap_header(h);
	if (h->size < sizeof *h)
		return lost(d, s->offset, "a record's size is smaller than its header");
	if (h->size > left)
		return lost(d, s->offset, "the data ends within a record");
	n = pf_source_need(s, h->size);
	if (n < 0) {
		d->stopped = 1;
		return (int)n;
	}
	if (n < h->size)
		return lost(d, s->offset, "the data ends within a record");
	return h->size;
}

/* Unpacks more of the compressed record into the window of plain. Returns 0 or -errno. */
static int unpack(struct pf_data *d)
{
	struct pf_source *p = &d->plain;
	size_t n = d->packed, room;
	int r;

	memmove(p->buf, p->buf + p->at, p->end - p->at);
	p->end -= p->at;
	p->at = 0;
	room = p->cap - p->end;
	r = d->inflate->run(d->inflate, d->src.buf + d->packed_at, &n, p->buf + p->end, &room);
	if (r == 0 && n == 0 && room == 0 && d->packed > 0)
		r = -EBADMSG;
	p->end += room;
	d->more = p->end == p->cap;
	d->packed_at += n;
	d->packed -= n;
	if (r < 0) {
		d->stopped = 1;
		d->why = "a compressed record cannot be unpacked";
		d->where = d->packed_offset;
	}
	return r;
}

static void skipped(struct pf_data *d, uint32_t type)
{
	d->skipped++;
	d->skipped_type = type;
}

/* Begins to unpack the compressed record at the front of src. Its bytes stay in the window until they are unpacked. */
static int begin_packed(struct pf_data *d, const struct pf_header *h)
{
	const unsigned char *bytes = pf_source_bytes(&d->src);
	uint64_t size = h->size - sizeof *h;
	size_t head = sizeof *h;

	if (!d->inflate && !d->no_inflate)
		return PF_DATA_NEEDS_INFLATE;
	d->packed_offset = d->src.offset;
	if (h->type == PF_USER_COMPRESSED2) {
		head += sizeof size;
		if (h->size < head) {
			pf_source_skip(&d->src, h->size);
			return pf_data_bad(d, d->packed_offset, "a compressed record is too short");
		}
		memcpy(&size, bytes + sizeof *h, sizeof size);
		if (d->swapped)
			size = __builtin_bswap64(size);
		if (size > h->size - head) {
			pf_source_skip(&d->src, h->size);
			return pf_data_bad(d, d->packed_offset, "the compressed data exceeds its record");
		}
	}
	d->packed_at = d->src.at + head;
	pf_source_skip(&d->src, h->size);
	if (d->inflate)
		d->packed = (size_t)size;
	else
		skipped(d, h->type);
	return 0;
}

/* Whether the unpacked bytes begin with a whole record. */
static int plain_ready(const struct pf_data *d)
{
	const struct pf_source *p = &d->plain;
	struct pf_header h;

	if (p->end - p->at < sizeof h)
		return 0;
	memcpy(&h, pf_source_bytes(p), sizeof h);
	if (d->swapped)
		pf_swap_header(&h);
	return h.size < sizeof h || p->end - p->at >= h.size;
}

/* Reads the next record into the window of *from, and returns what frame returns, or PF_DATA_NEEDS_INFLATE. */
static int next_framed(struct pf_data *d, struct pf_source **from, struct pf_header *h)
{
	for (;;) {
		int r;

		if (plain_ready(d)) {
			*from = &d->plain;
			return frame(d, &d->plain, UINT64_MAX, h);
		}
		if (d->packed > 0 || d->more) {
			r = unpack(d);
			if (r < 0)
				return r;
			continue;
		}
		*from = &d->src;
		r = frame(d, &d->src, d->end, h);
		if (r == 0 && d->plain.end > d->plain.at)
			return lost(d, d->packed_offset, "the data ends within a compressed record");
		if (r <= 0 || (h->type != PF_USER_COMPRESSED && h->type != PF_USER_COMPRESSED2))
			return r;
		r = begin_packed(d, h);
		if (r != 0)
			return r;
	}
}

/* Finds the record's layout, and swaps its bytes into this machine's order. */
static int prepare_record(struct pf_data *d, struct pf_data_record *r, const struct pf_header *h)
{
	struct pf_record parsed;
	int err;

	if (pf_record_is_user(h->type)) {
		r->layout = NULL;
		if (!d->swapped)
			return 0;
		memcpy(r->bytes, h, sizeof *h);
		return pf_swap_user(r->bytes, r->size);
	}
	if (!d->swapped) {
		r->layout = pf_layouts_find(&d->events.layouts, r->bytes, r->size);
		return 0;
	}
	r->layout = pf_layouts_find_swapped(&d->events.layouts, r->bytes, r->size);
	err = pf_record_parse_swapped(r->layout, r->bytes, r->size, &parsed);
	return err < 0 ? err : 0;
}

static int known(uint32_t type)
{
	return type >= PF_USER_FIRST ? type <= PF_USER_LAST : type >= 1 && type <= PF_RECORD_LAST;
}

int pf_data_next(struct pf_data *d, struct pf_data_record *r)
{
	if (d->stopped)
		return 0;
	if (d->payload > 0) {
		int err = skip_payload(d);

		if (err < 0)
			return err;
	}
	for (;;) {
		struct pf_source *s;
		struct pf_header h = {0};
		int size = next_framed(d, &s, &h);

		if (size <= 0 || size == PF_DATA_NEEDS_INFLATE) {
			d->stopped |= size == 0;
			return size;
		}
		r->bytes = pf_source_bytes(s);
		r->type = h.type;
		r->size = (uint32_t)size;
		r->offset = s == &d->src ? s->offset : d->packed_offset;
		pf_source_skip(s, (size_t)size);
		if (!known(h.type) || (s == &d->plain && (h.type == PF_USER_COMPRESSED || h.type == PF_USER_COMPRESSED2))) {
			skipped(d, h.type);
			continue;
		}
		if ((uintptr_t)r->bytes % 8 != 0)
			r->bytes = memcpy(d->memory + d->window * 2, r->bytes, r->size);
		if (prepare_record(d, r, &h) < 0)
			return pf_data_bad(d, r->offset, "a record's fields exceed its size");
		if (h.type == PF_USER_HEADER_ATTR) {
			d->where = r->offset;
			size = pf_data_events_record(&d->events, r->bytes, r->size, &d->why);
			if (size < 0)
				return size;
		}
		if (s == &d->src && pf_record_is_user(h.type)) {
			size = set_payload(d, r->bytes, &h);
			if (size < 0)
				return size;
		}
		if (h.type == PF_RECORD_LOST && r->size >= 24)
			d->lost += pf_load64(r->bytes + 16);
		else if (h.type == PF_RECORD_LOST_SAMPLES && r->size >= 16)
			d->lost_samples += pf_load64(r->bytes + 8);
		return 1;
	}
}

/* Bodies of the records that are not samples. Each ends with the trailer that sample_id_all adds (layout.c). The trailer is taken
 * off first, so that a body's text or array ends where it should:
 *
 *   mmap                u32 pid tid | addr len pgoff | filename
 *   mmap2               u32 pid tid | addr len pgoff | 24 bytes | u32 prot flags | filename; the 24 bytes are
 *                       u32 maj min, ino, ino_generation, or with MISC_MMAP_BUILD_ID u8 size, 3 x 0, u8[20]
 *   lost                id lost
 *   comm                u32 pid tid | comm
 *   exit fork           u32 pid ppid tid ptid | time
 *   throttle unthrottle time id stream_id
 *   read                u32 pid tid | values by read_format
 *   aux                 offset size flags
 *   itrace_start        u32 pid tid
 *   lost_samples        lost
 *   switch              nothing
 *   switch_cpu_wide     u32 next_prev_pid next_prev_tid
 *   namespaces          u32 pid tid | nr | nr x {dev, ino}
 *   ksymbol             addr | u32 len | u16 type flags | name
 *   bpf_event           u16 type flags | u32 id | u8 tag[8]
 *   cgroup              id | path
 *   text_poke           addr | u16 old_len new_len | old bytes, new bytes
 *   aux_output_hw_id    hw_id
 *   callchain_deferred  cookie | nr | nr x ip
 *
 * Text ends with a zero byte and is padded to a multiple of 8. */
#include "core/record/record.h"

#include <errno.h>

#include "core/record/walk.h"

_Static_assert(PF_HAS_BODY + PF_RECORD_LAST < PF_HAS_EVENT_ID_BIT, "a bit for each body");

enum { MISC_MMAP_BUILD_ID = 1 << 14, BUILD_ID_MAX = 20 };

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

PF_INLINE void pid_tid(struct pf_walk *w, struct pf_record *out)
{
	out->pid = pf_next32(w);
	out->tid = pf_next32(w);
	out->has |= PF_SAMPLE(TID);
}

PF_INLINE void address(struct pf_walk *w, struct pf_record *out)
{
	out->addr = pf_next64(w);
	out->has |= PF_SAMPLE(ADDR);
}

PF_INLINE int mmap2(struct pf_walk *w, struct pf_record *out)
{
	if (out->misc & MISC_MMAP_BUILD_ID) {
		const unsigned char size = w->bytes[w->at];

		if (size > BUILD_ID_MAX)
			return -EBADMSG;
		out->build_id = (struct pf_view){.at = (uint16_t)(w->at + 4), .n = size};
		out->has |= PF_HAS_BUILD_ID;
		w->at += 24;
	} else {
		out->maj = pf_next32(w);
		out->min = pf_next32(w);
		out->ino = pf_next64(w);
		out->ino_generation = pf_next64(w);
		out->has |= PF_HAS_INODE;
	}
	out->prot = pf_next32(w);
	out->flags = pf_next32(w);
	return text(w, out);
}

PF_INLINE int namespaces(struct pf_walk *w, struct pf_record *out)
{
	uint64_t nr;

	pid_tid(w, out);
	nr = pf_next64(w);
	if (nr > pf_left(w) / 16)
		return -EBADMSG;
	pf_take64(w, 2 * nr, &out->namespaces);
	out->namespaces.n = (uint16_t)nr;
	return 0;
}

/* The smallest size of a body; 0 for a type that this module does not know. */
static const uint8_t least[PF_RECORD_LAST + 1] = {
	[PF_RECORD_MMAP] = 32 + 1,      [PF_RECORD_LOST] = 16,       [PF_RECORD_COMM] = 8 + 1,
	[PF_RECORD_EXIT] = 24,          [PF_RECORD_THROTTLE] = 24,   [PF_RECORD_UNTHROTTLE] = 24,
	[PF_RECORD_FORK] = 24,          [PF_RECORD_READ] = 16,       [PF_RECORD_MMAP2] = 64 + 1,
	[PF_RECORD_AUX] = 24,           [PF_RECORD_ITRACE_START] = 8, [PF_RECORD_LOST_SAMPLES] = 8,
	[PF_RECORD_SWITCH_CPU_WIDE] = 8, [PF_RECORD_NAMESPACES] = 16, [PF_RECORD_KSYMBOL] = 16 + 1,
	[PF_RECORD_BPF_EVENT] = 16,     [PF_RECORD_CGROUP] = 8 + 1,  [PF_RECORD_TEXT_POKE] = 12,
	[PF_RECORD_AUX_OUTPUT_HW_ID] = 8, [PF_RECORD_CALLCHAIN_DEFERRED] = 16,
};

PF_INLINE int body(const struct pf_layout *l, struct pf_walk *w, struct pf_record *out)
{
	if (pf_left(w) < least[out->type])
		return -EBADMSG;
	out->has = PF_BIT(PF_HAS_BODY + out->type);
	switch (out->type) {
	case PF_RECORD_MMAP:
	case PF_RECORD_MMAP2:
		pid_tid(w, out);
		address(w, out);
		out->len = pf_next64(w);
		out->pgoff = pf_next64(w);
		return out->type == PF_RECORD_MMAP ? text(w, out) : mmap2(w, out);
	case PF_RECORD_LOST:
		out->id = pf_next64(w);
		out->lost = pf_next64(w);
		out->has |= PF_SAMPLE(ID);
		return 0;
	case PF_RECORD_COMM:
		pid_tid(w, out);
		return text(w, out);
	case PF_RECORD_EXIT:
	case PF_RECORD_FORK:
		out->pid = pf_next32(w);
		out->ppid = pf_next32(w);
		out->tid = pf_next32(w);
		out->ptid = pf_next32(w);
		out->time = pf_next64(w);
		out->has |= PF_SAMPLE(TID) | PF_SAMPLE(TIME);
		return 0;
	case PF_RECORD_THROTTLE:
	case PF_RECORD_UNTHROTTLE:
		out->time = pf_next64(w);
		out->id = pf_next64(w);
		out->stream_id = pf_next64(w);
		out->has |= PF_SAMPLE(TIME) | PF_SAMPLE(ID) | PF_SAMPLE(STREAM_ID);
		return 0;
	case PF_RECORD_READ:
		pid_tid(w, out);
		out->read_format = (uint32_t)l->read_format;
		out->read_hidden = l->read_hidden;
		out->has |= PF_SAMPLE(READ);
		return pf_take_read(w, l->read_format, &out->read) ? 0 : -EBADMSG;
	case PF_RECORD_AUX:
		out->aux_offset = pf_next64(w);
		out->aux_size = pf_next64(w);
		out->aux_flags = pf_next64(w);
		return 0;
	case PF_RECORD_ITRACE_START:
		pid_tid(w, out);
		return 0;
	case PF_RECORD_LOST_SAMPLES:
		out->lost = pf_next64(w);
		return 0;
	case PF_RECORD_SWITCH:
		return 0;
	case PF_RECORD_SWITCH_CPU_WIDE:
		out->ppid = pf_next32(w);
		out->ptid = pf_next32(w);
		return 0;
	case PF_RECORD_NAMESPACES:
		return namespaces(w, out);
	case PF_RECORD_KSYMBOL:
		address(w, out);
		out->len = pf_next32(w);
		out->kind = pf_next16(w);
		out->flags = pf_next16(w);
		return text(w, out);
	case PF_RECORD_BPF_EVENT:
		out->kind = pf_next16(w);
		out->flags = pf_next16(w);
		out->id = pf_next32(w);
		out->has |= PF_SAMPLE(ID);
		pf_take_bytes(w, 8, &out->tag);
		return 0;
	case PF_RECORD_CGROUP:
		out->id = pf_next64(w);
		out->has |= PF_SAMPLE(ID);
		return text(w, out);
	case PF_RECORD_TEXT_POKE: {
		uint16_t old_len, new_len;

		address(w, out);
		old_len = pf_next16(w);
		new_len = pf_next16(w);
		return pf_take_bytes(w, old_len, &out->old_bytes) && pf_take_bytes(w, new_len, &out->new_bytes)
			       ? 0
			       : -EBADMSG;
	}
	case PF_RECORD_AUX_OUTPUT_HW_ID:
		out->hw_id = pf_next64(w);
		return 0;
	case PF_RECORD_CALLCHAIN_DEFERRED:
		out->cookie = pf_next64(w);
		out->has |= PF_SAMPLE(CALLCHAIN);
		return pf_take64(w, pf_next64(w), &out->callchain) ? 0 : -EBADMSG;
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
	w.end -= l->trailer_size;
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
	w.end = n;
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

/* Reads the objects that name functions, and makes the keys of objects and of stacks. */
#ifndef PF_KEYS_H
#define PF_KEYS_H

#include "bpf/outside/pieces.h"

/* Read at most WINDOW bytes. The whole aligned window that has the first byte is read, and the next window if the bytes reach
 * into it: the objects of functions often lie beside each other, and a read takes as long as copying some hundred bytes. No
 * window crosses the end of a page, so a window can be read if any of its bytes can. Returns the place of the bytes, which is
 * valid until the next window is read; or 0 if they cannot be read. */
static __always_inline __u64 read_window(__u64 address, __u64 size)
{
	struct scratch *s = scratch();
	const __u32 i = address / WINDOW & (WINDOWS - 1);
	const __u64 from = address & ~(WINDOW - 1ULL), at = WINDOWS_AT + i * 2 * WINDOW;

	if (!s || size > WINDOW)
		return 0;
	if (s->windows[i].sample != s->sample || s->windows[i].from != from) {
		s->windows[i].sample = 0;
		if (bpf_probe_read_user(s->bytes + at, WINDOW, (void *)from))
			return 0;
		s->windows[i].from = from;
		s->windows[i].size = WINDOW;
		s->windows[i].sample = s->sample;
	}
	if (address - from + size > s->windows[i].size) {
		if (bpf_probe_read_user(s->bytes + at + WINDOW, WINDOW, (void *)(from + WINDOW)))
			return 0;
		s->windows[i].size = 2 * WINDOW;
	}
	return at + (address - from);
}

/* The same, as a function that the verifier checks once. */
__noinline __u64 window(__u64 address, __u64 size)
{
	return read_window(address, size);
}

/* A word from a window; 0 if it cannot be read. */
static __always_inline __u64 word_near(struct scratch *s, __u64 address)
{
	const __u64 at = window(address, 8);

	return at ? word_of(s, at, 0) : 0;
}

/* Copy a piece of at most MOST_COPIED bytes, from a window. */
__noinline __u64 put_near(__u32 kind, __u64 address, __u64 size)
{
	struct scratch *s = scratch();
	const __u64 from = read_window(address, size);
	const __u64 *words;
	__u64 at, *to;

	if (!s)
		return 0;
	at = new_piece(s, kind, size);
	if (!from || at >= WINDOWS_AT || size > MOST_COPIED)
		return 0;
	words = field_of(s, from, 0);
	to = field_of(s, at, sizeof(struct pf_piece));
	if (!words || !to)
		return 0;
	for (__u32 i = 0; i < MOST_COPIED / 8 && i < (size + 7) / 8; i++)
		to[i] = words[i];
	return add_piece(s, kind, address, size, at);
}

/* --- keys ----------------------------------------------------------------------------------------------------------------- */

static __always_inline __u64 mixed(__u64 key, __u64 v)
{
	key = (key ^ v) * 0x9e3779b97f4a7c15ULL;
	return key ^ key >> 29;
}

/* Add to the key of the objects. */
static __always_inline void mix(struct scratch *s, __u64 v)
{
	s->key = mixed(s->key, v);
}

/* Add to the key of the stack alone. */
static __always_inline void mix_path(struct scratch *s, __u64 v)
{
	s->path = mixed(s->path, v);
}

/* Returns a key with bytes added; at: their offset in the scratch. In a function of its own, the verifier checks the loop only once. */
__noinline __u64 mixed_bytes(__u64 key, __u64 at, __u64 size)
{
	const struct scratch *s = scratch();
	const __u64 *words;

	asm volatile("" : "+r"(at)); /* else the compiler checks one register and adds another, as in field_of */
	if (!s || at > sizeof *s - MIXED_LINES - sizeof *words)
		return key;
	words = (const void *)((const __u8 *)s + at);
	for (__u32 n = 0; n < MIXED_LINES / 8 && n < size / 8; n++)
		key = mixed(key, words[n]);
	if (size & 7)
		key = mixed(key, *(const __u64 *)((const __u8 *)words + (size & (MIXED_LINES - 8))) & ~0ULL >> (64 - 8 * (size & 7)));
	return key;
}

/* Add bytes of a window to the key of the objects. */
static __always_inline void mix_bytes(struct scratch *s, __u64 at, __u64 size)
{
	s->key = mixed_bytes(s->key, __builtin_offsetof(struct scratch, bytes) + at, size);
}

/* Add the lines of a function's instructions to the key: the function that lay in this memory before may differ in them alone. */
static __always_inline void mix_lines(struct scratch *s, __u64 address, __u64 size)
{
	__u64 at;

	if (size <= WINDOW) {
		at = window(address, size);
		if (at)
			mix_bytes(s, at, size);
		else
			s->unkeyed = 1;
		return;
	}
	asm volatile("" : "+r"(size)); /* else the compiler leaves out the mask, which the verifier needs */
	if (size > MIXED_LINES || bpf_probe_read_user(s->lines, size & (2 * MIXED_LINES - 1), (void *)address))
		s->unkeyed = 1;
	else
		s->key = mixed_bytes(s->key, __builtin_offsetof(struct scratch, lines), size);
}

static __always_inline int is_seen(const struct scratch *s, __u32 i, __u64 address)
{
	return s->seen[i].address == address && s->seen[i].epoch == s->epoch;
}

/* Whether this address was seen before in this epoch; it is noted. *slot: its index in `seen`. */
static __always_inline int find_seen(struct scratch *s, __u64 address, __u32 *slot)
{
	__u32 i = address * 0x9e3779b97f4a7c15ULL >> (64 - SEEN_BITS);

	*slot = i;
	if (is_seen(s, i, address))
		return 1;
	*slot = i ^ 1;
	if (is_seen(s, i ^ 1, address))
		return 1;
	if (s->seen[i].epoch == s->epoch) /* it is in use */
		i ^= 1;
	*slot = i;
	s->seen[i].address = address;
	s->seen[i].epoch = s->epoch;
	s->seen[i].at = 0;
	return 0;
}

static __always_inline int was_seen(struct scratch *s, __u64 address)
{
	__u32 slot;

	return find_seen(s, address, &slot);
}

/* Note the place of a function's prototype, unless another address has taken the slot meanwhile. */
static __always_inline void set_seen_at(struct scratch *s, __u32 slot, __u64 address, __u64 at)
{
	slot &= SEEN - 1;
	if (s->seen[slot].address == address)
		s->seen[slot].at = at;
}

/* From now on, objects are copied. */
static __always_inline void put_objects(struct scratch *s)
{
	s->epoch += !s->putting;
	s->putting = 1;
}

/* The bytes of a chunk's name that are copied, with the string's head; at: its place. */
static __always_inline __u64 size_of_name(struct scratch *s, __u64 at)
{
	const __u64 size = layout.string_kind != NONE && byte_of(s, at, layout.string_kind) == layout.string_is_short
				   ? byte_of(s, at, layout.string_short_size)
				   : number_of(s, at, layout.string_size);

	return layout.string_text + (size < PF_SNAPSHOT_NAME ? size + 1 : PF_SNAPSHOT_NAME);
}

/* Add a chunk's name to the key. Most names are short. */
static __always_inline void mix_name(struct scratch *s, __u64 name)
{
	__u64 at = window(name, layout.string_text + SHORT_NAME), size;

	size = at ? size_of_name(s, at) : 0;
	if (size > layout.string_text + SHORT_NAME)
		at = window(name, size);
	if (at)
		mix_bytes(s, at + layout.string_text, size - layout.string_text);
	else
		s->unkeyed = 1;
}

static __always_inline void put_name(struct scratch *s, __u64 name)
{
	const __u64 at = window(name, layout.string_text + SHORT_NAME);

	if (at)
		put_near(PF_PIECE_NAME, name, size_of_name(s, at));
	else
		s->unkeyed = 1;
}

#endif

/* Copies a thread of LuaJIT: its stack, and the functions on it. */
#ifndef PF_SNAPSHOT_LUAJIT_THREAD_H
#define PF_SNAPSHOT_LUAJIT_THREAD_H

#include "bpf/outside/pieces.h"

enum { VM_C = 0xfffffffe /* LuaJIT's state while a C function runs */ };

/* Copy the line of the instruction before a pc, if it is in this prototype; whole: those of the stretch around it, which is added to the
 * key. */
static __always_inline void put_luajit_lines(struct scratch *s, __u64 prototype, __u64 pc, int whole)
{
	const __u64 code = word_of(s, prototype - sizeof(struct pf_piece), 0) + layout.prototype_end; /* the address of the code */
	const __u64 lineinfo = word_of(s, prototype, layout.prototype_lineinfo);
	const __u32 n = number_of(s, prototype, layout.prototype_n), lines = number_of(s, prototype, layout.prototype_lines);
	const __u32 shift = lines < 1 << 8 ? 0 : lines < 1 << 16 ? 1 : 2;
	__u64 index = (pc - code) / 4, end;

	if (!prototype || pc <= code || pc & 3 || index > n || index < 2 || !lineinfo)
		return;
	index -= 2; /* the header has no entry */
	end = index + 1;
	if (whole) {
		index &= ~(NEAR_LINES - 1ULL);
		mix(s, index);
		end = index + 2 * NEAR_LINES;
		index = index > NEAR_LINES ? index - NEAR_LINES : 0;
	}
	if (end > n - 1)
		end = n - 1;
	put(PF_PIECE_PROTOTYPE, lineinfo + (index << shift), (end - index) << shift & 1023);
}

static __always_inline void mix_luajit_lines(struct scratch *s, __u64 prototype)
{
	const __u32 lines = number_of(s, prototype, layout.prototype_lines), n = number_of(s, prototype, layout.prototype_n);
	const __u64 lineinfo = word_of(s, prototype, layout.prototype_lineinfo);

	if (lineinfo && n)
		mix_lines(lineinfo, (n - 1ULL) << (lines < 1 << 8 ? 0 : lines < 1 << 16 ? 1 : 2));
}

/* Copy a function and its prototype, and add them to the key. Returns the place of the prototype; 0 if it has none. */
__noinline __u64 put_luajit_function(__u64 object)
{
	struct scratch *s = scratch();
	__u64 at, code, name;
	__u32 slot;

	if (!s)
		return 0;
	if (find_seen(s, object, &slot))
		return s->seen[slot & (SEEN - 1)].at;
	at = put(PF_PIECE_FUNCTION, object, layout.function_size);
	if (!at)
		return 0;
	code = word_of(s, at, layout.function_code);
	mix(s, object);
	mix(s, code);
	if (byte_of(s, at, layout.function_id)) {
		mix(s, word_of(s, at, layout.function_size - 8)); /* the address of a C function */
		put(PF_PIECE_FUNCTION, code, 4);
		return 0;
	}
	at = put(PF_PIECE_PROTOTYPE, code - layout.prototype_end, layout.prototype_size);
	if (!at)
		return 0;
	set_seen_at(s, slot, object, at);
	name = word_of(s, at, layout.prototype_source);
	mix(s, (__u64)number_of(s, at, layout.prototype_n) << 32 | number_of(s, at, layout.prototype_first));
	mix(s, number_of(s, at, layout.prototype_lines));
	mix(s, word_of(s, at, layout.prototype_lineinfo));
	mix(s, name);
	mix_luajit_lines(s, at);
	put_luajit_lines(s, at, s->s.general[PC_REGISTER], 1);
	put_luajit_lines(s, at, s->pc, 1);
	if (!was_seen(s, name))
		put_name(name);
	return at;
}

/* The slot above a called function has the link of its frame: the address of an instruction in the caller, or a distance. Both have
 * upper bits of 0. */
static __always_inline int is_frame(__u64 value, __u64 link)
{
	return value >> TAG_SHIFT == layout.tag_function && link && !(link >> TAG_SHIFT);
}

static __always_inline __u64 object_of(__u64 value)
{
	return value & ((1ULL << TAG_SHIFT) - 1);
}

/* Copy the line from which the function in the slot at an address was called. If Lua has called it, the link is the address after the
 * call, which has the distance to the caller's function as an operand. If it has a continuation, the link is that distance, and the slot
 * below has the address. */
__noinline int put_link(__u64 address, __u64 link)
{
	struct scratch *s = scratch();
	__u64 at, caller = address - (link & ~7ULL), pc = link;

	if (!s)
		return 0;
	if ((link & 7) == LINK_CONTINUATION)
		pc = word_at(address - 8);
	else if (link & LINK_MASK)
		return 0;
	if (was_seen(s, pc))
		return 0;
	if (pc == link) {
		at = put(PF_PIECE_FUNCTION, link - 4, 4);
		caller = at ? address - 8ULL * (2 + (number_of(s, at, 0) >> 8 & 255)) : 0;
	}
	caller = word_at(caller);
	if (caller >> TAG_SHIFT == layout.tag_function)
		put_luajit_lines(s, put_luajit_function(object_of(caller)), pc, 0);
	return 0;
}

/* Go on to the next frame, or over some slots that have none. */
static long each_frame(__u32 unused, void *links)
{
	struct scratch *s = scratch();
	__u64 value = 0, link = 0, i;
	const __u64 *slots;

	if (!s || s->slot + 1 >= s->n)
		return 1;
	i = s->slot;
	slots = field_of(s, s->from + i * 8, 0);
	for (int k = 0; slots && k < SLOTS_AT_ONCE && !is_frame(value, link); k++, i++) {
		value = slots[k];
		link = slots[k + 1];
	}
	s->slot = i--;
	if (!is_frame(value, link) || i + 1 >= s->n)
		return !slots;
	if (links) {
		put_link(s->address + i * 8, link);
		return 0;
	}
	put_luajit_function(object_of(value));
	mix(s, link);
	if ((link & 7) == LINK_CONTINUATION) {
		mix(s, word_of(s, s->from + i * 8 - 16, 0));
		mix(s, word_of(s, s->from + i * 8 - 16, 8));
	}
	mix_path(s, object_of(value));
	mix_path(s, i << TAG_SHIFT | link);
	return 0;
}

/* The links of a stack whose functions were copied. */
static long each_stack(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 links = 1;

	if (!s || i >= s->stacks_n)
		return 1;
	s->from = s->stacks[i & (PF_SNAPSHOT_THREADS - 1)];
	s->address = word_of(s, s->from - sizeof(struct pf_piece), 0);
	s->n = number_of(s, s->from - sizeof(struct pf_piece), 8) / 8;
	s->slot = 0;
	bpf_loop(s->n, each_frame, &links, 0);
	return 0;
}

/* Of the outer part of a deep stack, only the slots that the unwinder reads are copied: the function and the link of each frame, and
 * the two slots below, where a continuation has its pc. */
static long each_far_slot(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 value, link;

	if (!s || i >= s->n)
		return 1;
	i &= C_STACK_WORDS - 1;
	value = s->stack[i];
	link = s->stack[i + 1];
	if (!is_frame(value, link))
		return 0;
	put(PF_PIECE_CHANGES, s->address + i * 8ULL - 16, 32);
	put_luajit_function(object_of(value));
	put_link(s->address + i * 8ULL, link);
	s->calls++;
	return 0;
}

static long each_far_part(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 size;

	if (!s || !s->far || s->calls > CALLS)
		return 1;
	size = s->far < PF_SNAPSHOT_PIECE ? s->far : PF_SNAPSHOT_PIECE;
	s->far -= size;
	s->address = s->low + s->far;
	s->n = size / 8;
	if (bpf_probe_read_user(s->stack, (size & (2 * PF_SNAPSHOT_PIECE - 1)) + 8, (void *)s->address))
		return 1;
	bpf_loop(s->n, each_far_slot, NULL, 0);
	return 0;
}

/* While a thread runs, its innermost base may be in a register. */
static long each_base(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 v;

	if (!s)
		return 1;
	v = s->s.general[i & 31];
	if (v > s->top && v < s->high)
		s->top = v;
	return 0;
}

/* Copy slots of a Lua stack, and the functions in them. */
static __noinline void put_slots(__u64 address, __u64 size)
{
	struct scratch *s = scratch();
	__u64 at = put(PF_PIECE_CHANGES, address, size);

	if (!s || !at)
		return;
	s->from = at;
	s->address = address;
	s->n = size / 8;
	s->stacks[s->stacks_n++ & (PF_SNAPSHOT_THREADS - 1)] = at;
	s->slot = 0;
	bpf_loop(s->n, each_frame, NULL, 0);
}

/* Has Lua called a C function? Then the thread has its base, and nothing else decides where the thread is. */
static __always_inline int is_at_c(struct scratch *s)
{
	const __u64 at = s->base - s->low - 16;
	__u64 value, link;
	__u32 slot;

	if (s->vmstate != VM_C || at >= s->n * 8)
		return 0;
	value = word_of(s, s->from + at, 0);
	link = word_of(s, s->from + at, 8);
	return is_frame(value, link) && find_seen(s, object_of(value), &slot) && !s->seen[slot & (SEEN - 1)].at;
}

/* Compiled code runs, or has called C. Its place is the instruction pointer, or the return address below its room on the C stack. That and
 * the trace decide where the thread is; the trace's constants have the functions that were compiled into it. */
__noinline int is_at_trace(__u64 trace, __u64 cframe)
{
	enum { FIRST = 0x8000, CONSTANTS = 64, ROOM = 16, MOST_ROOM = 400 };
	struct scratch *s = scratch();
	__u64 code, ir, n, pc, adjust;
	__u32 size;

	if (!s || !trace || !cframe)
		return 0;
	code = word_of(s, trace, layout.trace_code);
	size = number_of(s, trace, layout.trace_code_size);
	adjust = number_of(s, trace, layout.trace_adjust) & 0xffff;
	pc = s->s.ip;
	if (pc - code >= size) {
		pc = word_at(cframe - 8 - ROOM - adjust) - 1;
		if (adjust & 7 || adjust > MOST_ROOM || cframe - s->s.sp < 8 + ROOM + adjust || pc - code >= size)
			return 0;
		mix_path(s, 1);
	}
	ir = word_of(s, trace, layout.trace_ir);
	n = FIRST - number_of(s, trace, layout.trace_ir_low);
	if (n > CONSTANTS)
		n = CONSTANTS;
	if (bpf_probe_read_user(s->stack, n * 8, (void *)(ir + (FIRST - n) * 8)))
		return 0;
	for (__u32 i = 0; i < CONSTANTS && i < n; i++)
		mix_path(s, s->stack[i]);
	mix_path(s, pc);
	mix_path(s, code);
	mix_path(s, ir);
	mix_path(s, (__u64)size << 32 | number_of(s, trace, layout.trace_number));
	mix_path(s, word_of(s, trace, layout.trace_snapshots));
	mix_path(s, word_of(s, trace, layout.trace_map));
	mix_path(s, word_of(s, trace, layout.trace_start));
	return 1;
}

/* Copy a thread and its stack. base: the base that compiled code has stored, or 0; the higher of the two is the innermost one. */
static __noinline void put_luajit_thread(__u64 thread, __u64 base)
{
	struct scratch *s = scratch();
	__u64 at, size;
	__u32 i;

	if (!s)
		return;
	at = s->threads_n < PF_SNAPSHOT_THREADS ? put(PF_PIECE_CHANGES, thread, layout.thread_size) : 0;
	if (!at) {
		s->s.flags |= PF_SNAPSHOT_CUT;
		return;
	}
	s->low = word_of(s, at, layout.thread_stack);
	size = number_of(s, at, layout.thread_slots) * 8ULL;
	s->high = s->low + (size < LUA_STACK ? size : 0);
	s->top = word_of(s, at, layout.thread_base);
	i = add_thread(s, thread, s->low, s->high);
	if (i == 0) /* the others do not run */
		bpf_loop(32, each_base, NULL, 0);
	if (base > s->top && base < s->high)
		s->top = base;
	mix_path(s, word_of(s, at, layout.thread_base) - s->low);
	s->base = word_of(s, at, layout.thread_base);
	size = s->top - s->low + ABOVE_BASE;
	if (s->top < s->low || size > s->high - s->low)
		size = s->high - s->low;
	if (size <= PF_SNAPSHOT_PIECE) {
		put_slots(s->low, size);
		if (i == 0 && !s->certain)
			s->certain = is_at_c(s);
		return;
	}
	s->unkeyed = 1;
	put(PF_PIECE_CHANGES, s->low, 32);
	s->far = size - PF_SNAPSHOT_PIECE;
	s->calls = 0;
	put_slots(s->low + s->far, PF_SNAPSHOT_PIECE);
	bpf_loop(LUA_STACK / PF_SNAPSHOT_PIECE, each_far_part, NULL, 0);
	if (s->far)
		s->s.flags |= PF_SNAPSHOT_FULL;
}

#endif

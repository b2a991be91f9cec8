/* Copies a thread of LuaJIT: its stack, and the functions on it. */
#ifndef PF_SNAPSHOT_LUAJIT_THREAD_H
#define PF_SNAPSHOT_LUAJIT_THREAD_H

#include "bpf/outside/keys.h"

/* LuaJIT's states while a C function runs, while the collector runs, and while compiled code is left. */
enum { VM_C = 0xfffffffe, VM_COLLECTOR = 0xfffffffd, VM_EXIT = 0xfffffffc };

/* The index of the line of the instruction before a pc; NO_LINE if it is not in the prototype at a place, whose code is at an address. */
static __always_inline __u64 line_of(struct scratch *s, __u64 prototype, __u64 code, __u64 pc)
{
	const __u64 index = (pc - code) / 4;

	if (pc <= code || pc & 3 || index > number_of(s, prototype, layout.prototype_n) || index < 2 ||
	    !word_of(s, prototype, layout.prototype_lineinfo))
		return NO_LINE;
	return index - 2; /* the header has no entry */
}

static __always_inline __u32 line_shift(struct scratch *s, __u64 prototype)
{
	const __u32 lines = number_of(s, prototype, layout.prototype_lines);

	return lines < 1 << 8 ? 0 : lines < 1 << 16 ? 1 : 2;
}

/* Copy the line of the instruction before a pc, if it is in this prototype; whole: those of the stretch around it. */
static __always_inline void put_luajit_lines(struct scratch *s, __u64 prototype, __u64 pc, int whole)
{
	const __u64 code = word_of(s, prototype - sizeof(struct pf_piece), 0) + layout.prototype_end; /* the address of the code */
	const __u32 n = number_of(s, prototype, layout.prototype_n), shift = line_shift(s, prototype);
	__u64 index = prototype ? line_of(s, prototype, code, pc) : NO_LINE, end;

	if (index == NO_LINE)
		return;
	end = index + 1;
	if (whole) {
		index &= ~(NEAR_LINES - 1ULL);
		end = index + 2 * NEAR_LINES;
		index = index > NEAR_LINES ? index - NEAR_LINES : 0;
	}
	if (end > n - 1)
		end = n - 1;
	put(PF_PIECE_PROTOTYPE, word_of(s, prototype, layout.prototype_lineinfo) + (index << shift), (end - index) << shift & 1023);
}

/* The stretch of lines that put_luajit_lines copies. */
static __always_inline void mix_stretch(struct scratch *s, __u64 prototype, __u64 code, __u64 pc)
{
	const __u64 index = line_of(s, prototype, code, pc);

	if (index != NO_LINE)
		mix(s, index & ~(NEAR_LINES - 1ULL));
}

/* Add a function and its prototype to the key. Returns whether it is a Lua function. */
__noinline int mix_luajit_function(__u64 object)
{
	struct scratch *s = scratch();
	__u64 at, code, name, lineinfo, n;
	__u32 slot;

	if (!s)
		return 0;
	if (find_seen(s, object, &slot))
		return s->seen[slot & (SEEN - 1)].at != 0;
	mix(s, object);
	at = window(object, layout.function_size);
	code = at ? word_of(s, at, layout.function_code) : 0;
	mix(s, code);
	if (at && byte_of(s, at, layout.function_id)) {
		mix(s, word_of(s, at, layout.function_size - 8)); /* the address of a C function */
		return 0;
	}
	at = at ? window(code - layout.prototype_end, layout.prototype_size) : 0;
	if (!at) {
		s->unkeyed = 1;
		return 0;
	}
	set_seen_at(s, slot, object, 1);
	name = word_of(s, at, layout.prototype_source);
	lineinfo = word_of(s, at, layout.prototype_lineinfo);
	n = number_of(s, at, layout.prototype_n);
	mix(s, n << 32 | number_of(s, at, layout.prototype_first));
	mix(s, number_of(s, at, layout.prototype_lines));
	mix(s, lineinfo);
	mix(s, name);
	mix_stretch(s, at, code, s->s.general[PC_REGISTER]);
	mix_stretch(s, at, code, s->pc);
	if (lineinfo && n)
		mix_lines(s, lineinfo, (n - 1) << line_shift(s, at));
	if (!was_seen(s, name))
		mix_name(s, name);
	return 1;
}

/* Copy a function and its prototype. Returns the place of the prototype; 0 if it has none. */
__noinline __u64 put_luajit_function(__u64 object)
{
	struct scratch *s = scratch();
	__u64 at, code, name;
	__u32 slot;

	if (!s)
		return 0;
	if (find_seen(s, object, &slot))
		return s->seen[slot & (SEEN - 1)].at;
	at = put_near(PF_PIECE_FUNCTION, object, layout.function_size);
	if (!at)
		return 0;
	code = word_of(s, at, layout.function_code);
	if (byte_of(s, at, layout.function_id)) {
		put(PF_PIECE_FUNCTION, code, 4);
		return 0;
	}
	at = put_near(PF_PIECE_PROTOTYPE, code - layout.prototype_end, layout.prototype_size);
	if (!at)
		return 0;
	set_seen_at(s, slot, object, at);
	put_luajit_lines(s, at, s->s.general[PC_REGISTER], 1);
	put_luajit_lines(s, at, s->pc, 1);
	name = word_of(s, at, layout.prototype_source);
	if (!was_seen(s, name))
		put_name(s, name);
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
	__u32 slot;

	if (!s)
		return 0;
	if ((link & 7) == LINK_CONTINUATION)
		pc = word_at(address - 8);
	else if (link & LINK_MASK)
		return 0;
	if (find_seen(s, pc, &slot))
		return 0;
	if (pc == link) {
		at = put(PF_PIECE_FUNCTION, link - 4, 4);
		caller = at ? address - 8ULL * (2 + (number_of(s, at, 0) >> 8 & 255)) : 0;
	}
	caller = word_at(caller);
	if (caller >> TAG_SHIFT == layout.tag_function)
		put_luajit_lines(s, put_luajit_function(object_of(caller)), pc, 0);
	else
		s->seen[slot & (SEEN - 1)].epoch = 0; /* it cannot be read here; a later frame may have the same pc */
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
		put_luajit_function(object_of(value));
		put_link(s->address + i * 8, link);
		return 0;
	}
	if (s->putting)
		put_luajit_function(object_of(value));
	else
		mix_luajit_function(object_of(value));
	mix(s, link);
	if ((link & 7) == LINK_CONTINUATION) {
		mix(s, word_of(s, s->from + i * 8 - 16, 0));
		mix(s, word_of(s, s->from + i * 8 - 16, 8));
	}
	mix_path(s, object_of(value));
	mix_path(s, i << TAG_SHIFT | link);
	return 0;
}

/* The functions and links of a stack. */
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

/* While a thread runs, its innermost base may be in a register. The verifier must not check the rest of the program once for
 * each register. So this is a function of its own, and it keeps the highest base so far in memory, which the verifier does not track. */
__noinline int find_base(void)
{
	struct scratch *s = scratch();

	for (__u32 i = 0; s && i < REGISTERS; i++) {
		const __u64 v = s->s.general[i];

		if (v > s->top && v < s->high)
			s->top = v;
		asm volatile("" : : : "memory");
	}
	return 0;
}

static __always_inline int is_readable(__u64 address)
{
	__u64 word;

	return !bpf_probe_read_user(&word, sizeof word, (void *)address);
}

static long each_page_below(__u32 i, void *from)
{
	struct scratch *s = scratch();
	const __u64 below = *(__u64 *)from - 8;

	if (!s || below < s->address || !is_readable(below))
		return 1;
	*(__u64 *)from = below & ~(PAGE - 1ULL);
	return 0;
}

/* Copy the pages of a Lua stack that can be read, from the one that has the innermost frame to the next one below that cannot: this
 * program cannot wait for a page that is not in memory, and a forked child has few pages of its own at first. The stack then ends at
 * that page, and counts as cut. The process is not asked for the page later, when other functions may be on it. */
static __noinline __u64 put_readable(__u64 end)
{
	struct scratch *s = scratch();
	__u64 from;

	if (!s || s->s.flags & PF_SNAPSHOT_FULL || s->top - s->address >= end - s->address)
		return 0;
	from = ((s->top - 8) | (PAGE - 1)) + 1; /* the page that has the link of the frame */
	if (from >= end || !is_readable(from))
		end = from < end ? from : end;
	from = end;
	bpf_loop(PF_SNAPSHOT_PIECE / PAGE + 2, each_page_below, &from, 0);
	if (from < s->address)
		from = s->address;
	s->address = from;
	return from < end ? put(PF_PIECE_CHANGES, from, end - from) : 0;
}

/* Copy slots of a Lua stack, and the functions in them. */
static __noinline void put_slots(__u64 address, __u64 size)
{
	struct scratch *s = scratch();
	__u64 at;

	if (!s)
		return;
	s->address = address;
	at = put(PF_PIECE_CHANGES, address, size);
	if (!at) {
		s->unkeyed = 1;
		at = put_readable(address + size);
	}
	if (!at)
		return;
	s->from = at;
	s->n = number_of(s, at - sizeof(struct pf_piece), 8) / 8;
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
	s->path = mixed_bytes(s->path, __builtin_offsetof(struct scratch, stack), n * 8);
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
		find_base();
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
	put_objects(s);
	put(PF_PIECE_CHANGES, s->low, 32);
	s->far = size - PF_SNAPSHOT_PIECE;
	s->calls = 0;
	put_slots(s->low + s->far, PF_SNAPSHOT_PIECE);
	bpf_loop(LUA_STACK / PF_SNAPSHOT_PIECE, each_far_part, NULL, 0);
	if (s->far)
		s->s.flags |= PF_SNAPSHOT_FULL;
}

#endif

/* Copies the threads of PUC Lua whose addresses are in registers or on the C stack, and their calls. */
#ifndef PF_SNAPSHOT_PUC_H
#define PF_SNAPSHOT_PUC_H

#include "bpf/outside/keys.h"

static __always_inline int is_puc_thread(struct scratch *s, __u64 word)
{
	const __u64 at = may_be_object(word) ? window(word, layout.thread_global + 8) : 0;

	return at && word_of(s, at, layout.thread_global) == s->s.global && byte_of(s, at, layout.object_type) == layout.type_thread;
}

static __always_inline void note_puc_thread(struct scratch *s, __u64 word)
{
	if (!has_thread(word))
		add_thread(s, word, 0, 0);
}

static long each_register(__u32 i, void *unused)
{
	struct scratch *s = scratch();

	if (!s)
		return 1;
	if (is_puc_thread(s, s->s.general[i & 31]))
		note_puc_thread(s, s->s.general[i & 31]);
	return 0;
}

/* Is this word an address in the collector's code? (arm64 signs the upper bits of return addresses.) */
static __always_inline int is_collector(const struct scratch *s, __u64 word)
{
	word &= (1ULL << 48) - 1;
	for (__u32 i = 0; i < PF_SNAPSHOT_COLLECTORS; i++)
		if (word - s->process.collectors[i].from < s->process.collectors[i].size)
			return 1;
	return 0;
}

static long each_word(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 word;

	if (!s || i >= s->c_n)
		return 1;
	if (s->s.sp + i * 8ULL >= s->end)
		return 1;
	word = c_word(s, i);
	if (i < COLLECTOR_WORDS && is_collector(s, word))
		s->collects = 1;
	/* The memory of a state is within 1 TiB of its global state, or of the C stacks if another thread than the first has allocated it. */
	if (word & 7 || ((word ^ s->s.global) >> 40 && (word ^ s->s.sp) >> 40) || word == s->word || word - s->s.sp < s->c_size)
		return 0;
	s->word = word;
	if (was_seen(s, word) || !is_puc_thread(s, word))
		return 0;
	note_puc_thread(s, word);
	if (word == s->main)
		s->end = word_near(s, word + layout.error);
	return 0;
}

/* The global state of a thread; 0 if this is not a thread. A global state has the main thread's address, and lies just behind the main
 * thread. So a state need not be known: it may live for one request, or be one of hundreds. */
static __always_inline __u64 puc_global_of(struct scratch *s, __u64 word)
{
	const __u64 at = window(word, layout.thread_global + 8), global = at ? word_of(s, at, layout.thread_global) : 0;
	__u64 main;

	if (!may_be_object(global) || byte_of(s, at, layout.object_type) != layout.type_thread)
		return 0;
	main = word_near(s, global + layout.main);
	return global - main < PAGE && word_near(s, main + layout.thread_global) == global ? global : 0;
}

/* Returns 1 if this is a thread with a protected call on this C stack: its state is the one that runs. */
static __always_inline long look_for_state(struct scratch *s, __u64 word)
{
	__u64 global, error;

	if (!may_be_object(word) || word - s->s.sp < s->c_size || was_seen(s, word))
		return 0;
	global = puc_global_of(s, word);
	if (!global)
		return 0;
	error = word_near(s, word + layout.error);
	if (error - s->s.sp < s->c_size) {
		s->s.global = global;
		return 1;
	}
	if (!s->unprotected)
		s->unprotected = global;
	return 0;
}

static long each_register_of_any(__u32 i, void *unused)
{
	struct scratch *s = scratch();

	return s ? look_for_state(s, s->s.general[i & 31]) : 1;
}

static long each_word_of_any(__u32 i, void *unused)
{
	struct scratch *s = scratch();

	return s && i < s->c_n ? look_for_state(s, c_word(s, i)) : 1;
}

/* The end of the part of the C stack that is copied: above the main thread's frames, if its lua_longjmp is known. */
static __always_inline __u64 end_of_c_stack(const struct scratch *s)
{
	return s->end > s->s.sp && s->end != ~0ULL ? s->end + ABOVE : ~0ULL;
}

/* Find the state that has a thread in a register or in a word of the C stack, and all its threads there. */
static __always_inline void find_puc_threads(struct scratch *s)
{
	s->unprotected = 0;
	bpf_loop(REGISTERS, each_register_of_any, NULL, 0);
	if (!s->s.global) {
		read_c_stack(s->s.sp, ~0ULL);
		bpf_loop(s->c_n, each_word_of_any, NULL, 0);
	}
	if (!s->s.global)
		s->s.global = s->unprotected;
	if (!s->s.global)
		return;
	s->word = 0;
	s->epoch++;
	bpf_loop(REGISTERS, each_register, NULL, 0);
	s->main = word_near(s, s->s.global + layout.main);
	s->end = has_thread(s->main) ? word_near(s, s->main + layout.error) : ~0ULL;
	if (!s->c_n)
		read_c_stack(s->s.sp, end_of_c_stack(s));
	bpf_loop(s->c_n, each_word, NULL, 0);
}

/* The number of the instruction before a pc, if it is in this prototype; else -1. */
static __always_inline __s64 puc_index(struct scratch *s, __u64 prototype, __u64 pc)
{
	const __u32 a = number_of(s, prototype, layout.proto_counts[0]), b = number_of(s, prototype, layout.proto_counts[1]);
	const __u64 index = (pc - word_of(s, prototype, layout.proto_code)) / 4, n = a < b ? a : b;

	if (pc < word_of(s, prototype, layout.proto_code) || index > n)
		return -1;
	return index ? index - 1 : 0;
}

/* Copy the line of an instruction; whole: those of the stretch around it. */
static __always_inline void put_puc_lines(struct scratch *s, __u64 prototype, __u64 index, int whole)
{
	const __u32 a = number_of(s, prototype, layout.proto_counts[0]), b = number_of(s, prototype, layout.proto_counts[1]);
	const __u64 n = a < b ? a : b;
	__u64 before = layout.proto_lines == NONE ? STEPS : 0, end = index + 1;

	if (whole) {
		index &= ~(NEAR_LINES - 1ULL);
		end = index + 2 * NEAR_LINES;
		before += NEAR_LINES;
	}
	if (end > n)
		end = n;
	index = index > before ? index - before : 0;
	if (index >= end)
		return;
	if (layout.proto_lines != NONE) {
		put(PF_PIECE_PROTOTYPE, word_of(s, prototype, layout.proto_lines) + index * 4, (end - index) * 4 & 1023);
		return;
	}
	put(PF_PIECE_PROTOTYPE, word_of(s, prototype, layout.proto_steps) + index, end - index & 1023);
	index = number_of(s, prototype, layout.proto_n_known) * 8ULL;
	if (index && index <= KNOWN && !was_seen(s, word_of(s, prototype, layout.proto_known)))
		put(PF_PIECE_PROTOTYPE, word_of(s, prototype, layout.proto_known), index);
}

/* Add a prototype to the key. at: the prototype's place in a window. */
__noinline int mix_puc_prototype(__u64 object, __u64 at)
{
	struct scratch *s = scratch();
	__u64 name, lines, n, known, n_known;
	__u32 a, b;

	if (!s || was_seen(s, object))
		return 0;
	if (!at) {
		s->unkeyed = 1;
		return 0;
	}
	name = word_of(s, at, layout.proto_source);
	a = number_of(s, at, layout.proto_counts[0]);
	b = number_of(s, at, layout.proto_counts[1]);
	n = a < b ? a : b;
	lines = word_of(s, at, layout.proto_lines == NONE ? layout.proto_steps : layout.proto_lines);
	known = layout.proto_lines == NONE ? word_of(s, at, layout.proto_known) : 0;
	n_known = layout.proto_lines == NONE ? number_of(s, at, layout.proto_n_known) : 0;
	mix(s, word_of(s, at, layout.proto_code));
	mix(s, (__u64)a << 32 | b);
	mix(s, number_of(s, at, layout.proto_first));
	mix(s, lines);
	mix(s, name);
	if (lines && n)
		mix_lines(s, lines, layout.proto_lines == NONE ? n : n * 4);
	if (n_known)
		mix_lines(s, known, n_known * 8);
	if (name && !was_seen(s, name))
		mix_name(s, name);
	return 0;
}

/* Copy a prototype. Returns its place. */
static __always_inline __u64 put_puc_prototype(struct scratch *s, __u64 object)
{
	__u64 at, name;
	__u32 slot;

	if (find_seen(s, object, &slot))
		return s->seen[slot & (SEEN - 1)].at;
	at = put_near(PF_PIECE_PROTOTYPE, object, layout.prototype_size);
	if (!at)
		return 0;
	set_seen_at(s, slot, object, at);
	name = word_of(s, at, layout.proto_source);
	if (name && !was_seen(s, name))
		put_name(s, name);
	return at;
}

/* Note a function, its prototype and an instruction, for each_line. */
static __always_inline void note_call(struct scratch *s, __u64 object, __u64 prototype, __u64 index)
{
	if (s->calls >= CALLS) {
		s->unkeyed = 1;
		return;
	}
	s->stack[s->calls & (C_STACK_WORDS - 1)] = object;
	s->stack[s->calls + CALLS & (C_STACK_WORDS - 1)] = prototype;
	s->stack[s->calls + 2 * CALLS & (C_STACK_WORDS - 1)] = index;
	s->calls++;
}

/* Copy the function of a call, and the call's line. */
static long each_line(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 object, prototype, index, at;

	if (!s || i >= s->calls)
		return 1;
	object = c_word(s, i);
	prototype = c_word(s, i + CALLS);
	index = c_word(s, i + 2 * CALLS);
	if (!was_seen(s, object))
		put_near(PF_PIECE_FUNCTION, object, layout.function_size);
	at = prototype ? put_puc_prototype(s, prototype) : 0;
	if (at && index != (__u64)NO_LINE)
		put_puc_lines(s, at, index & 0xffffffff, index >> 32 != 0);
	return 0;
}

static long each_call(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 at, func, object, pc, prototype;
	int first, is_new;
	__s64 index;
	__u32 tag;

	if (!s || !s->ci || s->ci == s->base)
		return 1;
	at = put_near(PF_PIECE_CHANGES, s->ci, layout.call_size);
	if (!at) {
		s->certain = 0; /* a stack that is whole may have the same functions as the part so far */
		return 1;
	}
	first = i == 0 && s->current == s->running;
	func = word_of(s, at, layout.call_func);
	pc = i == 0 && s->live ? s->live : word_of(s, at, layout.call_pc);
	if (s->lua_stack && func < s->lua_stack)
		func += s->lua_stack;
	if (i == 0)
		s->func = func;
	if (i == 1 && func >= s->func) /* the innermost call has not begun yet, and has the function of an earlier one */
		s->certain = 0;
	s->ci = layout.call_previous == NONE ? s->ci - layout.call_size : word_of(s, at, layout.call_previous);
	at = put_near(PF_PIECE_CHANGES, func, layout.value_tag + 1);
	if (!at) {
		s->certain = 0; /* as above */
		return 0;
	}
	object = word_of(s, at, 0);
	tag = byte_of(s, at, layout.value_tag);
	mix_path(s, object ^ (__u64)tag << 56);
	if (first) /* if the collector may run, only the frames of the C stack show whether it does */
		s->certain = !s->collects && !s->process.young && func < s->values_end;
	if (tag != layout.tag_lua && tag != layout.tag_c)
		return 0;
	is_new = !was_seen(s, object);
	at = window(object, layout.function_size);
	prototype = at ? word_of(s, at, layout.closure_proto) : 0; /* or the address of a C function */
	if (is_new) {
		mix(s, object);
		mix(s, prototype);
		s->unkeyed |= !at;
	}
	if (!at || byte_of(s, at, layout.closure_kind) != layout.kind_lua) {
		if (is_new)
			note_call(s, object, 0, NO_LINE);
		return 0;
	}
	if (first)
		s->certain = 0; /* it is a Lua function */
	at = window(prototype, layout.prototype_size);
	index = at ? puc_index(s, at, pc) : -1;
	mix_path(s, index);
	if (i == 0 && at && index < 0) { /* a call that has just begun still has the pc of another one, perhaps of its caller */
		pc = word_of(s, at, layout.proto_code);
		index = 0;
	}
	if (is_new)
		mix_puc_prototype(prototype, at);
	if (index < 0 || was_seen(s, pc)) {
		if (is_new)
			note_call(s, object, prototype, NO_LINE);
		return 0;
	}
	if (i == 0)
		index = (index & ~(NEAR_LINES - 1ULL)) | 1ULL << 32;
	mix(s, object);
	mix(s, index);
	note_call(s, object, prototype, index);
	return 0;
}

static long each_outer_longjmp(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 outer;

	if (!s)
		return 1;
	put_above(s->longjmp + layout.error_previous, 8);
	outer = word_at(s->longjmp + layout.error_previous);
	if (outer <= s->longjmp || outer - s->s.sp >= s->c_size)
		return 1;
	s->longjmp = outer;
	return 0;
}

/* Find the thread that uses the C stack above the one before: it has the lowest lua_longjmp there, and a word below that has its
 * address. A thread that the host has called without lua_pcall has no lua_longjmp. */
static long each_word_above(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 word, error, address;

	if (!s || i >= s->c_n)
		return 1;
	word = c_word(s, i);
	address = s->c_address + i * 8ULL;
	if (address >= s->found_error)
		return 1;
	if ((word ^ s->s.global) >> 40 || word == s->word)
		return 0;
	s->word = word;
	if (!is_puc_thread(s, word))
		return 0;
	error = word_near(s, word + layout.error);
	if (error == 0)
		note_puc_thread(s, word);
	else if (error <= s->longjmp || error >= s->found_error)
		return 0;
	s->end = address + 8;
	if (error) {
		s->found = word;
		s->found_error = error;
	}
	return 0;
}

static __noinline void find_above(__u64 size)
{
	struct scratch *s = scratch();

	if (!s)
		return;
	s->word = 0;
	read_c_stack(s->longjmp, s->longjmp + size);
	bpf_loop(s->c_n, each_word_above, NULL, 0);
}

/* Find the thread that has resumed the one before. The main thread ends the search. */
static long each_puc_resumer(__u32 i, void *unused)
{
	struct scratch *s = scratch();

	if (!s || !s->thread || s->thread == s->main)
		return 1;
	s->longjmp = word_near(s, s->thread + layout.error);
	if (s->longjmp < s->s.sp || s->longjmp - s->s.sp >= s->c_size)
		return 1;
	bpf_loop(MOST_FRAMES, each_outer_longjmp, NULL, 0);
	s->found = s->end = 0;
	s->found_error = ~0ULL;
	find_above(NEAR);
	if (!s->found || s->found_error > s->longjmp + NEAR)
		find_above(FAR);
	if (s->found)
		note_puc_thread(s, s->found);
	if (s->end > s->c_copied)
		put_c_stack(s->end);
	s->thread = s->found;
	return 0;
}

/* Find the running thread: it has the lowest lua_longjmp. */
static long each_running(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 error;

	if (!s || i >= s->threads_n)
		return 1;
	error = word_near(s, s->threads[i & (PF_SNAPSHOT_THREADS - 1)].at + layout.error);
	if (error <= s->s.sp || error - s->s.sp >= s->distance)
		return 0;
	s->distance = error - s->s.sp;
	s->thread = s->threads[i & (PF_SNAPSHOT_THREADS - 1)].at;
	return 0;
}

/* Copy a thread and its calls. */
static long each_thread(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 at;

	if (!s || i >= s->threads_n)
		return 1;
	i &= PF_SNAPSHOT_THREADS - 1;
	s->current = s->threads[i].at;
	mix_path(s, word_near(s, s->current + layout.error) - s->s.sp);
	at = put_near(PF_PIECE_CHANGES, s->current, layout.thread_size);
	if (!at) {
		s->s.flags |= PF_SNAPSHOT_CUT;
		return 0;
	}
	s->ci = word_of(s, at, layout.ci);
	s->base = s->threads[i].at + layout.base;
	if (layout.call_previous == NONE)
		s->base = word_of(s, at, layout.base);
	s->lua_stack = layout.thread_stack_relative ? word_of(s, at, layout.thread_stack_relative) : 0;
	s->live = layout.thread_pc == NONE ? 0 : word_of(s, at, layout.thread_pc);
	s->values_end = word_of(s, at, layout.thread_top);
	if (s->values_end < s->lua_stack)
		s->values_end += s->lua_stack;
	bpf_loop(CALLS, each_call, NULL, 0);
	return 0;
}

static __always_inline void put_puc(struct scratch *s)
{
	__u64 main;

	s->end = ~0ULL;
	s->collects = is_collector(s, s->s.ip);
#if defined __TARGET_ARCH_arm64
	s->collects |= is_collector(s, s->s.general[30]); /* the return address of a function that calls no other */
#endif
	find_puc_threads(s);
	put_c_stack(end_of_c_stack(s));
	s->c_copied = s->s.stack_end;
	/* No thread was found, since a C function may use more of the C stack than is read: then it is that of the only known state. If
	 * the process runs another program by now, it has no such state. */
	if (!s->s.global && s->process.n == 1) {
		main = word_near(s, s->process.global[0] + layout.main);
		if (puc_global_of(s, main) == s->process.global[0]) {
			s->s.global = s->process.global[0];
			note_puc_thread(s, main);
		}
	}
	if (s->s.global)
		put_near(PF_PIECE_CHANGES, s->s.global + layout.main, 8);
	s->thread = 0;
	s->distance = s->c_size;
	bpf_loop(PF_SNAPSHOT_THREADS, each_running, NULL, 0);
	s->running = s->thread;
	mix_path(s, s->s.global);
	if (layout.resumers)
		bpf_loop(PF_SNAPSHOT_THREADS, each_puc_resumer, NULL, 0);
	s->epoch++;
	s->calls = 0;
	bpf_loop(PF_SNAPSHOT_THREADS, each_thread, NULL, 0);
}

#endif

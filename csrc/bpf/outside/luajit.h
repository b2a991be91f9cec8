/* Finds the running thread of LuaJIT and those that have resumed it, and copies them. */
#ifndef PF_SNAPSHOT_LUAJIT_H
#define PF_SNAPSHOT_LUAJIT_H

#include "bpf/outside/luajit_thread.h"

static __always_inline __u64 main_below(const struct scratch *s)
{
	return s->process.main_below ? s->process.main_below : layout.main_below;
}

/* Find the state that runs here: its frame on the C stack is the nearest one to the stack pointer. */
static long each_luajit_state(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 global, thread, cframe = 0, distance;

	if (!s || i >= s->process.n)
		return 1;
	global = s->process.global[i & (PF_SNAPSHOT_STATES - 1)];
	thread = word_at(global + layout.global_running);
	if (thread && word_at(thread + layout.thread_global) == global)
		cframe = word_at(thread + layout.thread_cframe) & ~3ULL;
	distance = cframe + ABOVE - s->s.sp;
	if (!cframe || distance >= s->distance) {
		if (word_at(global - main_below(s) + layout.thread_cframe))
			s->elsewhere = global;
		return 0;
	}
	s->distance = distance;
	s->s.global = global;
	s->thread = thread;
	s->cframe = cframe;
	return 0;
}

/* Find the innermost frame of the interpreter on the C stack, even if its state is not known: the frame has the address of its thread,
 * the thread has that of the frame, and the main thread lies beside the global state. */
static long each_frame_of_any(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 thread, global, main, address;

	if (!s || i >= s->c_n)
		return 1;
	address = s->c_address + i * 8ULL;
	thread = c_word(s, i + layout.cframe_thread / 8);
	if (!may_be_object(thread) || (word_at(thread + layout.thread_cframe) & ~3ULL) != address)
		return 0;
	global = word_at(thread + layout.thread_global);
	main = global - main_below(s);
	if (byte_at(thread + layout.object_type) != layout.type_thread || word_at(main + layout.thread_global) != global ||
	    byte_at(main + layout.object_type) != layout.type_thread)
		return 0;
	s->s.global = global;
	s->thread = thread;
	s->cframe = address;
	return 1;
}

/* Find a frame of the interpreter on the C stack that belongs to a thread which has resumed another one. It has the address of the
 * thread, and that of the previous frame, which lies above it. */
static long each_cframe(__u32 i, void *thread)
{
	struct scratch *s = scratch();
	__u64 word, previous, address;

	if (!s || i + READ / 8 >= s->c_n)
		return 1;
	word = c_word(s, i + layout.cframe_thread / 8);
	if (!may_be_object(word) || word == s->thread)
		return 0;
	address = s->c_address + i * 8ULL;
	previous = c_word(s, i + layout.cframe_previous / 8) & ~3ULL;
	if (previous && (previous <= address || previous - address >= s->c_size))
		return 0;
	if (word_at(word + layout.thread_global) != s->s.global || byte_at(word + layout.object_type) != layout.type_thread ||
	    (word_at(word + layout.thread_cframe) & ~3ULL) != address)
		return 0;
	*(__u64 *)thread = word;
	s->cframe = address;
	return 1;
}

/* Copy the frames of a thread on the C stack: it has one for each call of Lua by C. */
static long each_outer_cframe(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 previous;

	if (!s)
		return 1;
	put_above(s->cframe, FRAME);
	mix_path(s, c_word_at(s, s->cframe + layout.cframe_pc));
	mix_path(s, (__u32)(c_word_at(s, s->cframe + (layout.cframe_results & ~7)) >> 8 * (layout.cframe_results & 4)));
	previous = c_word_at(s, s->cframe + layout.cframe_previous) & ~3ULL;
	if (previous <= s->cframe || previous - s->s.sp >= s->c_size)
		return 1;
	s->cframe = previous;
	return 0;
}

/* Copy the thread that has resumed the one before. cframe 0: the one before was not found on the C stack; the one that is found here
 * may be the running one. */
static long each_resumer(__u32 i, void *unused)
{
	struct scratch *s = scratch();
	__u64 from, thread = 0;

	if (!s)
		return 1;
	from = s->s.sp;
	if (s->cframe) {
		bpf_loop(MOST_FRAMES, each_outer_cframe, NULL, 0);
		if (s->thread + main_below(s) == s->s.global || !layout.resumers)
			return 1;
		from = s->cframe + 8;
	}
	read_c_stack(from, from + NEAR);
	bpf_loop(s->c_n, each_cframe, &thread, 0);
	if (!thread) {
		read_c_stack(from, from + FAR);
		bpf_loop(s->c_n, each_cframe, &thread, 0);
	}
	if (!thread)
		return 1;
	put_c_stack(s->cframe + READ);
	s->thread = thread;
	put_luajit_thread(thread, 0);
	return 0;
}

static __always_inline void put_luajit(struct scratch *s)
{
	__u64 base, cframe, trace, main, at;
	int near;

	s->distance = s->c_size + ABOVE;
	s->elsewhere = 0;
	bpf_loop(PF_SNAPSHOT_STATES, each_luajit_state, NULL, 0);
	/* There may be more states than are known, above all in a new program. Or a C function has called another thread of a known one,
	 * whose global state still names the thread that ran before. */
	if (!s->s.global && (s->elsewhere || s->process.young || s->process.n == PF_SNAPSHOT_STATES)) {
		read_c_stack(s->s.sp, ~0ULL);
		bpf_loop(s->c_n, each_frame_of_any, NULL, 0);
		s->searched = 1;
		if (!s->s.global && s->process.n == 1)
			s->s.global = s->elsewhere;
	}
	if (!s->s.global)
		return;
	near = s->cframe > s->s.sp && s->cframe - s->s.sp < s->c_size;
	cframe = near ? s->cframe : 0;
	read_c_stack(s->s.sp, near ? cframe + ABOVE : ~0ULL);
	put_c_stack(near ? cframe + ABOVE : ~0ULL);
	s->c_copied = s->s.stack_end;
	if (near && cframe + FRAME > s->c_copied)
		put_above(cframe - BELOW, BELOW + FRAME);
	s->pc = near ? c_word_at(s, cframe + layout.cframe_pc) : 0;
	main = put(PF_PIECE_CHANGES, s->s.global - main_below(s), main_below(s) + layout.global_size);
	base = main && layout.traces ? word_of(s, main, main_below(s) + layout.trace_base) : 0;
	s->vmstate = main ? number_of(s, main, main_below(s) + layout.global_vmstate) : 0;
	if (base || (layout.traces && (s->vmstate == VM_EXIT || s->vmstate == VM_COLLECTOR))) {
		at = put(PF_PIECE_CHANGES, s->s.global + layout.compiler_from, layout.compiler_size);
		if (layout.trace_exit)
			put(PF_PIECE_CHANGES, s->s.global + layout.trace_exit, 8);
		if (at && s->vmstate < number_of(s, at, layout.traces_n - layout.compiler_from)) {
			trace = word_at(word_of(s, at, layout.traces - layout.compiler_from) + s->vmstate * 8ULL);
			trace = put(PF_PIECE_TRACE, trace, layout.trace_size);
			s->certain = s->vmstate && base && is_at_trace(trace, cframe);
		}
		s->urgent = 1;
	}
	s->vmstate = base ? 0 : s->vmstate;
	mix_path(s, s->s.global);
	mix_path(s, base);
	if (s->thread)
		put_luajit_thread(s->thread, base);
	s->cframe = cframe;
	bpf_loop(PF_SNAPSHOT_THREADS, each_resumer, NULL, 0);
}

#endif

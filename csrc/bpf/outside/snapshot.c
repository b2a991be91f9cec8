/* BPF programs that run at each sample of a thread, and copy what the unwinder needs of it into a ring: see core/outside/snapshot.h.
 * They need Linux 5.17 (bpf_loop). They read the memory of the profiled program, which may hold anything. */
#include "bpf/outside/luajit.h"
#include "bpf/outside/processes.h"
#include "bpf/outside/puc.h"

char _license[] SEC("license") = "GPL";

/* sched:sched_switch; the thread that leaves the CPU still runs. */
struct sched_switch {
	__u64 common;
	char previous_comm[16];
	__s32 previous, previous_priority;
	__s64 previous_state;
	char next_comm[16];
	__s32 next, next_priority;
};

enum { ENDED = 0x30 }; /* EXIT_DEAD and EXIT_ZOMBIE: the thread never runs again */

/* The threads that have left their CPU. Each stays in the map until its return is in the ring. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct pf_switched_out);
} switches SEC(".maps");

volatile __u32 active = 0;

/* It is not inlined, since all functions that call each other have 512 bytes of stack together. */
static __noinline void put_registers(struct pf_snapshot_head *s, struct task_struct *task)
{
#if defined __TARGET_ARCH_arm64
	struct user_pt_regs r = {};

	bpf_probe_read_kernel(&r, sizeof r, (void *)bpf_task_pt_regs(task));
	s->ip = r.pc;
	s->sp = r.sp;
	for (int i = 0; i < 31; i++)
		s->general[i] = r.regs[i];
	s->general[31] = r.sp;
#else
	struct pt_regs r = {};

	bpf_probe_read_kernel(&r, sizeof r, (void *)bpf_task_pt_regs(task));
	s->ip = r.rip;
	s->sp = r.rsp;
	s->general[0] = r.rax;
	s->general[1] = r.rdx;
	s->general[2] = r.rcx;
	s->general[3] = r.rbx;
	s->general[4] = r.rsi;
	s->general[5] = r.rdi;
	s->general[6] = r.rbp;
	s->general[7] = r.rsp;
	s->general[8] = r.r8;
	s->general[9] = r.r9;
	s->general[10] = r.r10;
	s->general[11] = r.r11;
	s->general[12] = r.r12;
	s->general[13] = r.r13;
	s->general[14] = r.r14;
	s->general[15] = r.r15;
#endif
}

static long end_of(struct task_struct *task, struct vm_area_struct *mapping, void *end)
{
	*(__u64 *)end = mapping->vm_end;
	return 0;
}

/* Bytes from the stack pointer to the end of the C stack. The first thread's stack begins at a known place, and the kernel leaves 128 MB
 * below that free for it. Other stacks end where their mapping does; while interrupts are off, the search for it costs a second interrupt. */
static __always_inline __u64 size_of_c_stack(struct task_struct *task, __u64 sp)
{
	const __u64 first = task->mm->start_stack;
	__u64 end = 0;

	if (first - sp < FIRST_STACK)
		return first - sp;
	bpf_find_vma(task, sp, end_of, &end, 0); /* fails while the process changes its mappings */
	return end ? end - sp : C_STACK;
}

/* Native frames are found by the whole C stack, and by the addresses of the kernel's functions. */
static __always_inline void put_native(struct scratch *s, void *ctx)
{
	struct pf_piece *p;
	long size;

	if (!s->s.stack_end) {
		read_c_stack(s->s.sp, ~0ULL);
		put_c_stack(~0ULL);
	}
	if (s->s.used > PF_SNAPSHOT_ROOM)
		return;
	p = (void *)(s->bytes + s->s.used);
	size = bpf_get_stack(ctx, p + 1, PF_SNAPSHOT_KERNEL * sizeof(__u64), 0);
	if (size <= 0) /* it is not in the kernel */
		return;
	p->address = 0;
	p->size = size;
	p->kind = PF_PIECE_KERNEL;
	s->s.used += sizeof *p + size;
}

/* The position of a process's label, as struct pf_label_place of core/stack/label.h. */
struct label_place {
	__u64 index, items, names;
	__u32 none, size, number, mark;
};

/* The label of the main thread. */
static __noinline void put_label(struct scratch *s)
{
	struct label_place p = {};
	__u64 items, names;
	__u32 index = 0, number = 0;

	bpf_probe_read_user(&p, sizeof p, (void *)s->process.label);
	if (!p.index)
		return;
	if (bpf_probe_read_user(&index, sizeof index, (void *)p.index) || index == p.none)
		return;
	items = word_at(p.items);
	names = word_at(p.names);
	if (bpf_probe_read_user(&number, sizeof number, (void *)(items + (__u64)index * p.size + p.number)))
		return;
	s->s.label = word_at(names + (__u64)number * sizeof(__u64));
}

/* If the collector knows the stack, the sample is only counted. */
static __always_inline int is_counted(struct scratch *s, __u64 weight)
{
	struct pf_counted *c;
	__u64 key;

	if (!s->certain || s->searched || s->unkeyed || s->s.flags || layout.native)
		return 0;
	mix_path(s, s->key);
	mix_path(s, s->s.pid);
	mix_path(s, s->s.program);
	mix_path(s, s->s.label);
	mix_path(s, s->generation);
	s->s.stack = key = s->path | 1;
	c = bpf_map_lookup_elem(&stacks, &key);
	if (!c)
		return 0;
	__sync_fetch_and_add(&c->samples, 1);
	__sync_fetch_and_add(&c->weight, weight);
	return 1;
}

/* Unless the collector keeps the objects with this key, copy them. */
static __always_inline void find_objects(struct scratch *s, int puc)
{
	__u64 key = s->unkeyed ? 0 : mixed(s->key, s->generation) | 1;

	if (!s->key && !s->putting)
		return;
	if (!key || !bpf_map_lookup_elem(&known, &key)) {
		s->urgent = 1;
		put_objects(s);
		if (puc)
			bpf_loop(CALLS, each_line, NULL, 0);
		else
			bpf_loop(PF_SNAPSHOT_THREADS, each_stack, NULL, 0);
	}
	s->s.objects = s->unkeyed ? 0 : key;
}

/* Append the objects to the other pieces. */
static __always_inline void append_objects(struct scratch *s)
{
	const __u64 used = s->s.used;
	__u64 size = s->objects - MOST_BYTES;

	asm volatile("" : "+r"(size)); /* as in put_from */
	s->s.changing = used;
	if (size == 0)
		return;
	if (used > MOST_BYTES - MOST_OBJECTS || size > MOST_OBJECTS ||
	    bpf_probe_read_kernel(s->bytes + used, size, s->bytes + MOST_BYTES)) {
		s->s.flags |= PF_SNAPSHOT_FULL;
		s->s.objects = 0;
		return;
	}
	s->s.used = used + size;
}

/* The reader looks into the ring from time to time. To wake it costs an interrupt, which takes longer than the rest of a sample, and on
 * the sampled CPU it may preempt the thread. So it is only woken if it needs the memory of the process as it is now, or if the ring
 * fills. */
static __always_inline __u64 wakeup(const struct scratch *s)
{
	if (s->urgent || s->s.flags & PF_SNAPSHOT_UNKNOWN || layout.native || bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > RING / 4)
		return BPF_RB_FORCE_WAKEUP;
	return BPF_RB_NO_WAKEUP;
}

static __always_inline void drop(__u64 weight)
{
	count(PF_SNAPSHOT_DROPPED, 1);
	count(PF_SNAPSHOT_DROPPED_WEIGHT, weight);
}

/* Mark the beginning or the end of a sample. This is a full barrier: if the collector has stored a new generation, and then sees that no
 * sample is being taken, each later sample reads that generation. */
static __always_inline void mark_run(void)
{
	const __u32 runs = PF_SNAPSHOT_RUNS;
	__u64 *v = bpf_map_lookup_elem(&counts, &runs);

	if (v)
		asm volatile("" : : "r"(__sync_fetch_and_add(v, 1)));
}

static __always_inline __u64 generation(void)
{
	const __u32 zero = 0;
	const __u64 *v = bpf_map_lookup_elem(&generations, &zero);

	return v ? *v : 0;
}

/* Write the return of a thread into the ring. Returns 0 if there is no room: leave() tries again when the thread next
 * leaves its CPU. */
static __always_inline int write_return(__u32 thread, const struct pf_switched_out *left)
{
	struct pf_switched_in in = {.thread = thread, .off = left->off};

	/* The reader is not woken: it would preempt the thread that has just returned, and that switch would be the
	 * next sample, and so on without end. */
	if (bpf_ringbuf_output(&ring, &in, sizeof in, BPF_RB_NO_WAKEUP))
		return 0;
	bpf_map_delete_elem(&switches, &thread);
	return 1;
}

/* Some kernels hide the switches of certain threads from tracers. So this program may have missed the running thread's return to
 * its CPU. Then the time off the CPU is the time since the thread left, less the CPU time that it has used since. */
static __always_inline void note_missed_return(struct pf_switched_out *left, __u64 now, __u64 ran)
{
	const __u64 passed = now - left->time;

	if (left->off || left->ended || passed <= ran - left->ran)
		return;
	left->off = passed - (ran - left->ran);
	count(PF_SNAPSHOT_OFF, left->off);
}

/* Note that a thread leaves its CPU. Returns 0 if there is no room for that or for its last return, or if the map still has an
 * ended thread with the same number, which only the collector may remove. */
static __always_inline int leave(__u32 thread, __u64 now, __u64 ran)
{
	const struct pf_switched_out out = {.time = now, .ran = ran};
	struct pf_switched_out *left = bpf_map_lookup_elem(&switches, &thread);

	if (left) {
		note_missed_return(left, now, ran);
		if (left->ended || (left->off && !write_return(thread, left)))
			return 0;
	}
	return !bpf_map_update_elem(&switches, &thread, &out, BPF_ANY);
}

/* Note how long the thread that the CPU switches to was off its CPU. If the map still has an ended thread with the same number,
 * its entry stays as it is. */
static __always_inline void return_to(__u32 thread)
{
	struct pf_switched_out *left = bpf_map_lookup_elem(&switches, &thread);

	if (!left || left->off || left->ended)
		return;
	left->off = bpf_ktime_get_ns() - left->time;
	count(PF_SNAPSHOT_OFF, left->off);
	write_return(thread, left);
}

/* A thread has ended, and will not leave its CPU again. If the ring has no room for its last return, the collector takes it from the map. */
static __always_inline void end(__u32 thread)
{
	const struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pf_switched_out *left = bpf_map_lookup_elem(&switches, &thread);

	if (!left || left->ended)
		return;
	note_missed_return(left, bpf_ktime_get_ns(), task->se.sum_exec_runtime);
	if (write_return(thread, left))
		return;
	left->ended = 1;
	count(PF_SNAPSHOT_ENDED, 1);
}

/* Take a sample of the running thread. ours: only if its process, or an ancestor of that, is known. */
static __always_inline void take(void *ctx, __u64 weight, __u64 address, int puc, int ours, int is_switch)
{
	const __u64 began = bpf_ktime_get_ns();
	struct task_struct *task = (void *)bpf_get_current_task_btf(), *of = task->group_leader;
	__u32 pid = pid_of(task->group_leader), thread = task->pid, ancestor = 0;
	struct pf_snapshot_process *p = known_process(pid, task->group_leader);
	struct scratch *s = scratch();
	__u64 size, flags = 0;

	if (!p) {
		if (ours && s && is_foreign(s, pid, of))
			return;
		p = known_ancestor(&of, &ancestor);
		flags = PF_SNAPSHOT_UNKNOWN;
	}
	if (ours && !p) {
		if (s)
			note_foreign(s, pid, task->group_leader);
		return;
	}
	count(PF_SNAPSHOT_SAMPLES, 1);
	/* The program of a probe may be interrupted by another one on this CPU, which has the same scratch. */
	if (!s || __sync_fetch_and_add(&s->users, 1) != 0) {
		if (s)
			__sync_fetch_and_add(&s->users, -1);
		drop(weight);
		return;
	}
	mark_run();
	__builtin_memset(&s->s, 0, sizeof s->s);
	s->epoch++;
	s->sample++;
	s->s.flags = flags;
	s->s.time = began;
	s->s.weight = weight;
	s->s.address = address;
	s->s.pid = pid;
	s->s.cpu = bpf_get_smp_processor_id();
	s->s.thread = thread;
	s->s.ancestor = ancestor;
	s->s.program = program_of(task->group_leader);
	put_registers(&s->s, task);
	s->c_size = size_of_c_stack(task, s->s.sp);
	if (is_switch) {
		s->s.flags |= PF_SNAPSHOT_SWITCH;
		s->s.number = pid_of(task);
	}
	s->from = s->n = s->c_n = s->c_copied = s->word = s->thread = s->cframe = 0;
	s->objects = MOST_BYTES;
	s->key = s->unkeyed = s->putting = s->threads_n = s->stacks_n = s->path = s->certain = s->searched = 0;
	s->generation = generation();
	s->urgent = !p;
	set_process(s, p, task->group_leader, of);
	if (s->process.label && task == task->group_leader)
		put_label(s);
	if (p && puc)
		put_puc(s);
	else if (s->process.n || s->process.young)
		put_luajit(s);
	if (is_counted(s, weight))
		goto end;
	find_objects(s, puc);
	if (layout.native)
		put_native(s, ctx);
	put_from(PF_PIECE_THREADS, 0, s->threads_n * sizeof s->threads[0], __builtin_offsetof(struct scratch, threads));
	append_objects(s);
	size = s->s.used;
	if (size > MOST_BYTES)
		size = MOST_BYTES;
	if (is_switch && !leave(thread, began, task->se.sum_exec_runtime)) {
		drop(weight);
	} else if (bpf_ringbuf_output(&ring, s, sizeof s->s + size, wakeup(s))) {
		drop(weight);
		if (is_switch)
			bpf_map_delete_elem(&switches, &thread);
	}
end:
	count(PF_SNAPSHOT_NS, bpf_ktime_get_ns() - began);
	mark_run();
	__sync_fetch_and_add(&s->users, -1);
}

/* The programs for an interpreter: one for clocks, software and hardware events; one for switches of threads, one for tracepoints, one
 * for probes. These three run for every task of the machine, and do nothing unless `active` is set. */
#define PROGRAMS(name, puc)                                   \
	SEC("perf_event")                                     \
	int name(struct bpf_perf_event_data *ctx)             \
	{                                                     \
		take(ctx, ctx->sample_period, ctx->addr, puc, 0, 0); \
		return 0;                                     \
	}                                                     \
	SEC("tracepoint")                                     \
	int name##_switch(struct sched_switch *ctx)           \
	{                                                     \
		if (active) {                                 \
			if (ctx->previous_state & ENDED)      \
				end(ctx->previous);           \
			else                                  \
				take(ctx, 0, 0, puc, 1, 1);   \
			return_to(ctx->next);                 \
		}                                             \
		return 1;                                     \
	}                                                     \
	SEC("tracepoint")                                     \
	int name##_tracepoint(void *ctx)                      \
	{                                                     \
		if (active)                                   \
			take(ctx, 1, 0, puc, 1, 0);           \
		return 1;                                     \
	}                                                     \
	SEC("kprobe")                                         \
	int name##_probe(void *ctx)                           \
	{                                                     \
		if (active)                                   \
			take(ctx, 1, 0, puc, 1, 0);           \
		return 1;                                     \
	}

PROGRAMS(luajit, 0)
PROGRAMS(puc, 1)

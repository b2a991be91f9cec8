/* The process of a task: its number, its program, and what the collector knows of it or of its ancestors. See snapshot.c. */
#ifndef PF_SNAPSHOT_PROCESSES_H
#define PF_SNAPSHOT_PROCESSES_H

#include "bpf/outside/pieces.h"

/* The fields of the kernel's structures that are used; the loader finds their places. */
struct ns_common {
	unsigned int inum;
} __attribute__((preserve_access_index));

struct pid_namespace {
	struct ns_common ns;
} __attribute__((preserve_access_index));

struct upid {
	int nr;
	struct pid_namespace *ns;
} __attribute__((preserve_access_index));

struct pid {
	unsigned int level;
	struct upid numbers[1];
} __attribute__((preserve_access_index));

struct file;

struct mm_struct {
	unsigned long start_stack;
	struct file *exe_file;
} __attribute__((preserve_access_index));

struct sched_entity {
	__u64 sum_exec_runtime;
} __attribute__((preserve_access_index));

struct task_struct {
	struct sched_entity se;
	struct task_struct *real_parent, *group_leader;
	struct pid *thread_pid;
	struct mm_struct *mm;
	int pid;
	__u64 self_exec_id, start_time;
} __attribute__((preserve_access_index));

struct vm_area_struct {
	unsigned long vm_end;
} __attribute__((preserve_access_index));

enum { FIRST_NAMESPACE = 0xeffffffc /* the kernel's PROC_PID_INIT_INO */, MOST_NAMESPACES = 32 /* the kernel nests as many */ };

/* The number of a task in the collector's pid namespace; 0 if it has none. */
static __always_inline __u32 pid_of(struct task_struct *task)
{
	const struct upid *numbers;
	struct pid *pid;
	__u32 level;

	if (layout.namespace_inode == FIRST_NAMESPACE)
		return task->pid;
	pid = task->thread_pid;
	level = pid->level;
	numbers = pid->numbers;
	for (__u32 i = 0; i < MOST_NAMESPACES && i <= level; i++) {
		struct pid_namespace *in;
		__u32 inode = 0;
		int n = 0;

		bpf_probe_read_kernel(&in, sizeof in, &numbers[i].ns);
		bpf_probe_read_kernel(&inode, sizeof inode, &in->ns.inum);
		bpf_probe_read_kernel(&n, sizeof n, &numbers[i].nr);
		if (inode == layout.namespace_inode)
			return n;
	}
	return 0;
}

/* A process has one start time, and each program that it executes another number. */
enum { EXECS = 8 /* bits */, ANCESTORS = 8 };

static __always_inline __u64 program_of(struct task_struct *leader)
{
	return leader->start_time << EXECS | (leader->self_exec_id & ((1 << EXECS) - 1));
}

/* A known process; NULL if there is none, or if it has ended and another one has its number now. */
static __always_inline struct pf_snapshot_process *known_process(__u32 pid, struct task_struct *leader)
{
	struct pf_snapshot_process *p = bpf_map_lookup_elem(&processes, &pid);

	return p && p->program && (p->program ^ program_of(leader)) >> EXECS ? NULL : p;
}

/* The nearest known ancestor of an unknown process; NULL if none of the last ANCESTORS is known. The process is new, and its
 * parent is unknown too if it has had no sample. *of: first the process, then the ancestor; *pid: the number of the ancestor. */
static __always_inline struct pf_snapshot_process *known_ancestor(struct task_struct **of, __u32 *pid)
{
	struct pf_snapshot_process *p = NULL;

	for (int i = 0; i < ANCESTORS && !p && (*of)->pid > 1; i++) {
		*of = (*of)->real_parent->group_leader;
		*pid = pid_of(*of);
		p = known_process(*pid, *of);
	}
	return p;
}

/* A program that runs for every task must return fast if the task is foreign: if neither its process nor an ancestor is known. A
 * foreign process stays foreign, since only descendants of known processes become known later. */
static __always_inline int is_foreign(const struct scratch *s, __u32 pid, struct task_struct *leader)
{
	return s->foreign == program_of(leader) && s->foreign_pid == pid;
}

static __always_inline void note_foreign(struct scratch *s, __u32 pid, struct task_struct *leader)
{
	s->foreign = program_of(leader);
	s->foreign_pid = pid;
}

/* Does the process run the program of this ancestor? The kernel opens the program's file anew each time it is executed, and a forked
 * process shares the open file with its parent. */
static __always_inline int has_program_of(struct task_struct *leader, struct task_struct *of)
{
	return leader->mm->exe_file == of->mm->exe_file;
}

/* Look for the known states of the process, or of its ancestor `of` if it is not known itself. A known process may run another
 * program by now. */
static __always_inline void set_process(struct scratch *s, struct pf_snapshot_process *p, struct task_struct *leader,
					 struct task_struct *of)
{
	s->process.n = s->process.young = 0;
	s->process.label = s->process.main_below = 0;
	__builtin_memset(s->process.collectors, 0, sizeof s->process.collectors);
	if (!p)
		return;
	/* It had no sample yet. If it has executed another program since the search, the C stack is at another place now, unless
	 * Linux does not choose addresses at random. A first thread that has ended knows no place. */
	if (!p->program) {
		struct mm_struct *mm = of->mm;

		if (!mm || (p->first_stack.from <= mm->start_stack && mm->start_stack < p->first_stack.to))
			p->program = program_of(of);
		else
			s->s.flags |= PF_SNAPSHOT_EXECUTED;
	}
	if (p->program != program_of(of) || !has_program_of(leader, of)) {
		s->process.young = 1;
		s->s.ancestor = 0; /* it has other mappings */
	} else {
		s->process = *p;
	}
	s->urgent = s->process.young;
}

#endif

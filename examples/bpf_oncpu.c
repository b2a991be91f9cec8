/* Counts the task that each CPU's clock interrupts. For bpf_oncpu.lua, which compiles it. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

struct task {
	__u32 pid; /* 0: the CPU is idle */
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH); /* so no CPU waits for another */
	__uint(max_entries, 4096);
	__type(key, struct task);
	__type(value, __u64);
} samples SEC(".maps");

SEC("perf_event")
int tick(struct bpf_perf_event_data *ctx)
{
	struct task task = {};
	__u64 one = 1, *n;

	task.pid = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(task.comm, sizeof task.comm);
	n = bpf_map_lookup_elem(&samples, &task);
	if (n)
		*n += 1;
	else
		bpf_map_update_elem(&samples, &task, &one, BPF_NOEXIST);
	return 0; /* nothing is written to a ring */
}

char LICENSE[] SEC("license") = "GPL";

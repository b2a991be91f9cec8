/* Counts system calls by process and number. For bpf_syscalls.lua, which compiles it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct sys_enter { /* /sys/kernel/tracing/events/raw_syscalls/sys_enter/format */
	__u64 common;
	long id;
	unsigned long args[6];
};

struct key {
	__u32 pid;
	__u32 call;
	char comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct key);
	__type(value, __u64);
} calls SEC(".maps");

/* Set from Lua before loading: 0 means every process. A program on a tracepoint runs for every task of the machine, whichever
 * process its event was opened for. If it returned 0, no event would count the call. */
const volatile __u32 target;

SEC("tracepoint/raw_syscalls/sys_enter")
int count(struct sys_enter *ctx)
{
	struct key key = {};
	__u64 one = 1, *n;

	key.pid = bpf_get_current_pid_tgid() >> 32;
	if (target && key.pid != target)
		return 1;
	key.call = (__u32)ctx->id;
	bpf_get_current_comm(key.comm, sizeof key.comm);
	n = bpf_map_lookup_elem(&calls, &key);
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(&calls, &key, &one, BPF_NOEXIST);
	return 1;
}

char LICENSE[] SEC("license") = "GPL";

// The programs of bpf_spec.lua: each adds one to its place in `counts`.
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 4);
    __type(key, __u32);
    __type(value, __u64);
} counts SEC(".maps");

static void bump(__u32 key)
{
    __u64 *n = bpf_map_lookup_elem(&counts, &key);

    if (n) __sync_fetch_and_add(n, 1);
}

SEC("perf_event") int on_overflow(struct bpf_perf_event_data *ctx)
{
    (void)ctx;
    bump(0);
    return 1;
}

SEC("kprobe/any") int on_probe(struct pt_regs *ctx)
{
    (void)ctx;
    bump(1);
    return 1;
}

SEC("tracepoint/any") int on_tracepoint(void *ctx)
{
    (void)ctx;
    bump(2);
    return 1;
}

char LICENSE[] SEC("license") = "GPL";

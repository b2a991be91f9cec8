--- For the specs of BPF: a program with every kind of map, compiled by clang.
local kit = require "testkit"
local util = require "spec.support.util"
local core = require "perf.core"

local M = {}

M.source = [[
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/ptrace.h>
#include <bpf/bpf_helpers.h>

#define MAP(NAME, TYPE, N, KEY, VALUE) \
  struct { __uint(type, TYPE); __uint(max_entries, N); __type(key, KEY); __type(value, VALUE); } NAME SEC(".maps")

struct triple { __u32 a, b, c; };
struct name { char text[16]; };

MAP(by_call, BPF_MAP_TYPE_HASH, 1024, __u64, __u64);
MAP(counts, BPF_MAP_TYPE_ARRAY, 4, __u32, __u64);
MAP(words, BPF_MAP_TYPE_ARRAY, 2, __u32, __u32);
MAP(per_cpu, BPF_MAP_TYPE_PERCPU_ARRAY, 2, __u32, __u64);
MAP(per_cpu_words, BPF_MAP_TYPE_PERCPU_HASH, 8, __u32, __u32);
MAP(structs, BPF_MAP_TYPE_HASH, 8, struct name, struct triple);
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(max_entries, 4); __type(key, int); __type(value, int); }
  events SEC(".maps");

const volatile char wanted[16];
const volatile __u32 limit = 7;
__u64 hits;
__u8 small;
__u16 medium = 300;

static int is_wanted(void)
{
  char comm[16];
  bpf_get_current_comm(comm, sizeof comm);
  for (int i = 0; i < 16; i++) {
    if (comm[i] != wanted[i]) return 0;
    if (!comm[i]) break;
  }
  return 1;
}

static void bump(void *map, __u32 key)
{
  __u64 *n = bpf_map_lookup_elem(map, &key);
  if (n) __sync_fetch_and_add(n, 1);
}

struct sys_enter { __u64 common; long id; unsigned long args[6]; };

SEC("tracepoint/raw_syscalls/sys_enter") int on_call(struct sys_enter *ctx)
{
  __u64 id = ctx->id, one = 1, *n;
  if (!is_wanted()) return 1; /* 0 would hide the hit from the events of every process on this machine */
  n = bpf_map_lookup_elem(&by_call, &id);
  if (n) __sync_fetch_and_add(n, 1); else bpf_map_update_elem(&by_call, &id, &one, BPF_ANY);
  return 1;
}

SEC("perf_event") int on_overflow(struct bpf_perf_event_data *ctx)
{
  bump(&counts, 0);
  bump(&per_cpu, 1);
  __sync_fetch_and_add(&hits, 1);
  return 1;
}

SEC("kprobe/testkit_probe") int on_probe(struct pt_regs *ctx)
{
  bump(&counts, 1);
  return 1;
}

char LICENSE[] SEC("license") = "GPL";
]]

M.refused_source = [[
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("perf_event") int bad(void *ctx) { return *(int *)((char *)ctx + 4096); }
char LICENSE[] SEC("license") = "GPL";
]]

--- The number of the system call that kit.syscalls makes.
M.GETPPID = ({x86_64 = 110, aarch64 = 173, i686 = 64})[select(2, core.uname())]

--- Compile C for BPF; the path of the object, for the caller to remove.
function M.compile(text)
  local path = os.tmpname()
  util.write_file(path .. ".c", text)
  local out, status = util.shell(("clang -O2 -g -target bpf -I/usr/include/$(uname -m)-linux-gnu -c %s.c -o %s.o")
    :format(path, path))
  os.remove(path .. ".c")
  os.remove(path)
  assert(status == 0, out)
  return path .. ".o"
end

--- Run fn while this thread has that name.
function M.with_comm(name, fn)
  local before = util.read_file("/proc/thread-self/comm"):gsub("\n", "")
  kit.set_comm(name)
  local ok, err = pcall(fn)
  kit.set_comm(before)
  if not ok then error(err, 0) end
end

return M

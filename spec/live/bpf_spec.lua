-- BPF programs on events: clang compiles them, libbpf loads them, and what their maps hold is exact.
local kit = require "testkit"
local util = require "spec.support.util"
local core = require "perf.core"

local source = [[
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
  if (!is_wanted()) return 0;
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

local refused_source = [[
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
SEC("perf_event") int bad(void *ctx) { return *(int *)((char *)ctx + 4096); }
char LICENSE[] SEC("license") = "GPL";
]]

local GETPPID = ({x86_64 = 110, aarch64 = 173, i686 = 64})[select(2, core.uname())]

local function compile(text)
  local path = os.tmpname()
  util.write_file(path .. ".c", text)
  local out, status = util.shell(("clang -O2 -g -target bpf -I/usr/include/$(uname -m)-linux-gnu -c %s.c -o %s.o")
    :format(path, path))
  os.remove(path .. ".c")
  os.remove(path)
  assert(status == 0, out)
  return path .. ".o"
end

local bpf, object_path, refused_path

-- The object file, compiled once.
local function prepare()
  requires{ext = "bpf", bpf = true, cmd = "clang", file = "/usr/include/bpf/bpf_helpers.h"}
  bpf = require "perf.bpf"
  object_path = object_path or compile(source)
end

local function load(opts)
  return assert(bpf.load(object_path, opts))
end

teardown(function()
  if object_path then os.remove(object_path) end
  if refused_path then os.remove(refused_path) end
end)

local function with_comm(name, fn)
  local before = util.read_file("/proc/thread-self/comm"):gsub("\n", "")
  kit.set_comm(name)
  local ok, err = pcall(fn)
  kit.set_comm(before)
  if not ok then error(err, 0) end
end

describe("a BPF object", function()
  before_each(prepare)

  it("lists its programs with type, section, descriptor and id", function()
    local obj = load()
    local names = {}
    for i, p in ipairs(obj:programs()) do
      names[i] = p.name .. ":" .. p.type
      assert.is_true(p.fd > 2 and p.id > 0)
      assert.equal(obj, p.object)
    end
    table.sort(names)
    assert.same({"on_call:tracepoint", "on_overflow:perf_event", "on_probe:kprobe"}, names)
    assert.equal("kprobe/testkit_probe", obj:program("on_probe").section)
    assert.equal(obj:program("on_call"), obj:program("on_call"))
    obj:close()
  end)

  it("raises for names that it does not have", function()
    local obj = load()
    assert.error_matches(function() obj:program("nope") end, "no program 'nope'")
    assert.error_matches(function() obj:map("nope") end, "no map 'nope'")
    assert.error_matches(function() obj:global("nope") end, "no global variable 'nope'")
    assert.error_matches(function() obj.program({}, "x") end, "BPF object expected, got table")
    obj:close()
  end)

  it("closes once, takes the descriptors from its programs, and raises from then on", function()
    local obj = load()
    local program, map = obj:program("on_call"), obj:map("counts")
    local step = map:pairs()
    assert.is_true(obj:is_open())
    obj:close()
    obj:close()
    assert.is_false(obj:is_open())
    assert.is_nil(program.fd)
    assert.error_matches(function() obj:programs() end, "BPF object is closed")
    assert.error_matches(function() map:get(0) end, "BPF object of this map is closed")
    assert.error_matches(step, "BPF object of this map is closed")
    assert.equal("counts", map:info().name)
  end)

  it("is closed by the collector, and lives as long as a map or a program of it does", function()
    local map, program = load():map("counts"), load():program("on_call")
    collectgarbage()
    collectgarbage()
    assert.equal(0, map:get(0))
    assert.is_true(program.object:is_open())
  end)

  it("leaks nothing when an allocation fails", function()
    requires{nostress = true} -- a finalizer that finds no memory to be called with is lost
    local path = object_path
    local function use()
      local obj = assert(bpf.load(path, {programs = {"on_call"}}))
      obj:programs()
      obj:map("counts"):get(0)
      obj:close()
    end
    local jit = rawget(_G, "jit") -- LuaJIT 2.1.0-beta3 does not survive this in compiled code
    if jit then
      jit.off()
      jit.flush()
    end
    local total = kit.fail_alloc(0, use)
    for n = 1, total, math.max(1, math.floor(total / 12)) do kit.fail_alloc(n, use) end
    if jit then jit.on() end
  end)

  it("leaves out the programs that are not asked for", function()
    local obj = load{programs = {"on_call"}}
    assert.is_number(obj:program("on_call").fd)
    assert.is_nil(obj:program("on_probe").fd)
    obj:close()
    assert.error_matches(function() load{programs = {"nope"}} end, "option 'programs': no program 'nope'")
  end)

  it("makes maps of other sizes than the file's", function()
    local obj = load{max_entries = {counts = 9}}
    assert.equal(9, obj:map("counts"):info().max_entries)
    assert.is_true(obj:map("counts"):set(8, 1))
    obj:close()
    assert.error_matches(function() load{max_entries = {nope = 9}} end, "option 'max_entries': no map 'nope'")
    assert.error_matches(function() load{max_entries = {counts = "9"}} end, "option 'max_entries': integer expected")
  end)

  it("has the program's global variables, constants before loading only", function()
    local obj = load{globals = {limit = 12, small = 200, medium = 65535}}
    assert.equal(12, obj:global("limit"))
    assert.equal(200, obj:global("small"))
    assert.equal(65535, obj:global("medium"))
    assert.equal(0, obj:global("hits"))
    assert.equal(("\0"):rep(16), obj:global("wanted"))
    assert.is_true(obj:set_global("hits", 5))
    assert.equal(5, obj:global("hits"))
    assert.equal(65535, obj:global("medium"))
    assert.is_true(obj:set_global("medium", 2))
    assert.same({200, 2}, {obj:global("small"), obj:global("medium")})
    assert.error_matches(function() obj:set_global("limit", 1) end, "'limit' is a constant")
    assert.error_matches(function() obj:set_global("small", 256) end, "out of range")
    obj:close()
    assert.error_matches(function() load{globals = {limit = "x"}} end, "option 'globals': value: integer of 32 bits")
    assert.error_matches(function() load{globals = {wanted = "short"}} end, "string of 16 bytes expected, got one of 5")
  end)

  it("gives the verifier's words when it is refused, and prints nothing", function()
    refused_path = refused_path or compile(refused_source)
    local obj, message, code = bpf.load(refused_path)
    assert.is_nil(obj)
    assert.equal("EACCES", code)
    assert.matches("cannot be loaded: Permission denied %(the kernel's verifier refused a program%)", message)
    assert.matches("invalid bpf_context access", message)
    local out = util.shell(("%s -e 'print((require %q.load(%q)))'"):format(util.lua(), "perf.bpf", refused_path))
    assert.equal("nil\n", out)
  end)

  it("says what an unprivileged user lacks", function()
    local path = object_path
    util.shell("chmod 644 " .. path)
    requires{root = true}
    assert.equal("EPERM", util.in_child(function()
      assert(kit.drop())
      local obj, message, code = bpf.load(path)
      assert(not obj and message:find("CAP_BPF with CAP_PERFMON", 1, true), message)
      return code
    end))
  end)

  it("says what a sandbox refuses to root", function()
    local path = object_path
    requires{seccomp = true, root = true}
    assert.equal("EPERM", util.in_child(function()
      assert(kit.refuse("bpf", 1))
      local obj, message, code = bpf.load(path)
      assert(not obj and message:find("root is refused too: a container", 1, true), message)
      return code
    end))
  end)
end)

describe("a BPF map", function()
  before_each(prepare)

  it("has integers for 4 and 8 bytes, whatever their size", function()
    local obj = load()
    local counts, words = obj:map("counts"), obj:map("words")
    assert.is_true(counts:set(3, 12345678901))
    assert.equal(12345678901, counts:get(3))
    assert.is_true(counts:set(0, core.u64(0xfffffffe, 0xffffffff)))
    assert.equal("0xfffffffffffffffe", core.hex(counts:get(0)))
    assert.is_true(counts:set(1, -1))
    assert.equal("0xffffffffffffffff", core.hex(counts:get(1)))
    assert.is_true(words:set(0, 4294967295))
    assert.equal(4294967295, words:get(0))
    assert.is_true(words:set(0, -2))
    assert.equal(4294967294, words:get(0))
    obj:close()
  end)

  it("raises for keys and values that do not fit", function()
    local obj = load()
    local words, structs = obj:map("words"), obj:map("structs")
    assert.error_matches(function() words:set(0, 4294967296) end, "#2 .*%(value: does not fit into 32 bits%)")
    assert.error_matches(function() words:set(0, -2147483649) end, "value: does not fit")
    assert.error_matches(function() words:set(0, 1.5) end, "value: integer of 32 bits expected, got number")
    assert.error_matches(function() words:get("a") end, "#1 .*%(key: integer of 32 bits expected, got string%)")
    assert.error_matches(function() words:get() end, "key: integer of 32 bits expected, got nil")
    assert.error_matches(function() structs:get("short") end, "key: string of 16 bytes expected, got one of 5")
    assert.error_matches(function() structs:set(("k"):rep(16), 5) end, "value: string of 12 bytes expected, got number")
    assert.error_matches(function() obj:map("ring"):get(0) end, "this BPF map has no keys")
    obj:close()
  end)

  it("has strings for everything else", function()
    local obj = load()
    local structs = obj:map("structs")
    local key = "name" .. ("\0"):rep(12)
    assert.is_true(structs:set(key, "abcdefghijk\255"))
    assert.equal("abcdefghijk\255", structs:get(key))
    for k, v in structs:pairs() do
      assert.equal(key, k)
      assert.equal("abcdefghijk\255", v)
    end
    assert.is_true(structs:delete(key))
    local value, message, code = structs:get(key)
    assert.is_nil(value)
    assert.matches("no such key", message)
    assert.equal("ENOENT", code)
    assert.equal("ENOENT", select(3, structs:delete(key)))
    obj:close()
  end)

  it("has an array for each CPU's value, in order", function()
    local obj = load()
    for _, name in ipairs{"per_cpu", "per_cpu_words"} do
      local map = obj:map(name)
      local n = #obj:map("per_cpu"):get(0)
      assert.is_true(map:set(0, 9)) -- one value is everyone's
      local values = {}
      for i = 1, n do values[i] = 9 end
      assert.same(values, map:get(0))
      for i = 1, n do values[i] = i * 1000 end
      assert.is_true(map:set(0, values))
      assert.same(values, map:get(0))
      values[n + 1] = 1
      assert.error_matches(function() map:set(0, values) end, "array of " .. n .. " values expected, one a possible CPU")
    end
    obj:close()
  end)

  it("iterates over every key once, though the loop deletes them", function()
    local obj = load()
    local map = obj:map("by_call")
    for k = 1, 500 do assert(map:set(k * 3, k)) end
    local sum, n = 0, 0
    for k, v in map:pairs() do
      assert.equal(k, v * 3)
      assert.is_true(map:delete(k))
      sum, n = sum + v, n + 1
    end
    assert.equal(500, n)
    assert.equal(125250, sum)
    assert.is_nil(map:pairs()())
    obj:close()
  end)

  it("leaves out of an iteration what others deleted meanwhile", function()
    local obj = load()
    local map = obj:map("by_call")
    for k = 1, 10 do assert(map:set(k, k)) end
    local n = 0
    for k in map:pairs() do
      if n == 0 then
        for other = 1, 10 do if other ~= k then map:delete(other) end end
      end
      n = n + 1
    end
    assert.equal(1, n)
    obj:close()
  end)

  it("takes an Event or a program where it holds descriptors", function()
    requires{perf_open = true}
    local obj = load()
    local ev = assert(core.open({type = 1, config = 9, disabled = true}, 0, -1))
    assert.is_true(obj:map("events"):set(0, ev))
    assert.is_true(obj:map("events"):set(1, ev:fd()))
    assert.error_matches(function() obj:map("counts"):set(0, ev) end, "integer of 64 bits expected, got userdata")
    local value, message, code = obj:map("events"):get(0)
    assert.is_nil(value)
    assert.matches("not possible from user space", message)
    assert.equal("EOPNOTSUPP", code)
    ev:close()
    assert.error_matches(function() obj:map("events"):set(0, ev) end, "Event is closed")
    obj:close()
  end)

  it("tells what it is", function()
    local obj = load()
    local info = obj:map("structs"):info()
    assert.same({"hash", 16, 12, 8}, {info.type, info.key_size, info.value_size, info.max_entries})
    assert.equal(info.fd, obj:map("structs"):fd())
    local names = {}
    for _, m in ipairs(obj:maps()) do names[m.name] = m.type end
    assert.equal("percpu_array", names.per_cpu)
    assert.equal("ringbuf", names.ring)
    obj:close()
  end)
end)

describe("ev:set_bpf", function()
  before_each(prepare)

  it("counts 100 system calls as 100, on a tracepoint", function()
    requires{tracepoint = "raw_syscalls:sys_enter"}
    local id = tonumber(util.read_file(util.tracefs_dir() .. "/events/raw_syscalls/sys_enter/id"))
    local comm = "luaperf" .. kit.getpid()
    local obj = load{globals = {wanted = comm .. ("\0"):rep(16 - #comm)}}
    local ev = assert(core.open({type = 2, config = id, disabled = true, sample_period = 1}, 0, -1))
    local program = obj:program("on_call")
    assert.is_true(ev:set_bpf(program.fd))
    with_comm(comm, function()
      assert(ev:enable())
      kit.syscalls(100)
      assert(ev:disable())
    end)
    assert.equal(100, obj:map("by_call"):get(GETPPID))
    local ids, total = ev:query_bpf()
    local found = 0
    for _, i in ipairs(ids) do if i == program.id then found = found + 1 end end
    assert.equal(1, found)
    assert.equal(#ids, total)
    -- A bound that is too small gives as many, and how many there are.
    assert.same({{}, total}, {ev:query_bpf(0)})
    assert.equal(1, #ev:query_bpf(1))
    assert.same({total, total}, {#ev:query_bpf(1000000), select(2, ev:query_bpf(1000000))})
    ev:close()
    obj:close()
  end)

  it("runs at each of 64 page faults, by a program's table", function()
    requires{perf_open = true}
    local obj = load()
    local ev = assert(core.open({type = 1, config = 2, disabled = true, sample_period = 1, exclude_kernel = false}, 0, -1))
    assert.is_true(ev:set_bpf(obj:program("on_overflow")))
    kit.touch_pages(1)
    assert(ev:enable())
    kit.touch_pages(64)
    assert(ev:disable())
    assert.equal(64, ev:scan()[1].value)
    assert.equal(64, obj:map("counts"):get(0))
    assert.equal(64, obj:global("hits"))
    local sum = 0
    for _, v in ipairs(obj:map("per_cpu"):get(1)) do sum = sum + v end
    assert.equal(64, sum)
    ev:close()
    obj:close()
  end)

  it("runs on a CPU's clock, as often as the event overflows", function()
    requires{root = true}
    local cpu = kit.cpus()[1]
    local obj = load()
    -- 20 overflows of 1 ms of CPU time each, wherever they come from, and then no more.
    local ev = assert(core.open({type = 1, config = 0, disabled = true, sample_period = 1000000}, -1, cpu))
    assert.is_true(ev:set_bpf(obj:program("on_overflow").fd))
    kit.pin(cpu)
    assert(ev:refresh(20))
    local rounds = 0
    while obj:global("hits") < 20 and rounds < 100 do
      kit.spin(5000000)
      rounds = rounds + 1
    end
    kit.spin(5000000)
    kit.unpin()
    local values = obj:map("per_cpu"):get(1)
    for i, v in ipairs(values) do assert.equal(i == cpu + 1 and 20 or 0, v) end
    assert.equal(20, obj:map("counts"):get(0))
    ev:close()
    obj:close()
  end)

  it("runs on a uprobe", function()
    requires{uprobe = true, ext = "symbols"}
    local _, path, symbol = kit.probe_place()
    local obj = load()
    local uprobe = tonumber(util.read_file("/sys/bus/event_source/devices/uprobe/type"))
    local offset = assert(require("perf.symbols").offset(path, symbol))
    local ev = assert(core.open({type = uprobe, uprobe_path = path, probe_offset = offset, disabled = true,
      sample_period = 1}, 0, -1))
    assert.is_true(ev:set_bpf(obj:program("on_probe").fd))
    assert(ev:enable())
    kit.probe(37)
    assert(ev:disable())
    assert.equal(37, obj:map("counts"):get(1))
    -- On a probe or tracepoint the program runs as long as the event is open, enabled or not.
    kit.probe(5)
    assert.equal(42, obj:map("counts"):get(1))
    assert.equal(37, ev:scan()[1].value)
    ev:close()
    obj:close()
  end)

  it("keeps the program for the event when the object is closed", function()
    requires{perf_open = true}
    local obj = load()
    local ev = assert(core.open({type = 1, config = 2, disabled = true, sample_period = 1}, 0, -1))
    assert.is_true(ev:set_bpf(obj:program("on_overflow").fd))
    obj:close()
    assert(ev:enable())
    kit.touch_pages(8)
    assert(ev:disable())
    assert.equal(8, ev:scan()[1].value)
    ev:close()
  end)

  it("explains what the kernel refuses", function()
    requires{perf_open = true}
    local obj = load()
    local ev = assert(core.open({type = 1, config = 2, disabled = true, sample_period = 1}, 0, -1))
    local function refused(what, code, pattern)
      local ok, message, got = ev:set_bpf(what)
      assert.is_nil(ok)
      assert.equal(code, got)
      assert.matches(pattern, message)
    end
    refused(obj:program("on_call").fd, "EINVAL", "of a type that this event does not run")
    refused(obj:map("counts"):fd(), "EINVAL", "not a BPF program's descriptor")
    refused(1000000, "EBADF", "the descriptor is not open")
    assert.is_true(ev:set_bpf(obj:program("on_overflow").fd))
    refused(obj:program("on_overflow").fd, "EEXIST", "has a program already")
    local ids, message, code = ev:query_bpf()
    assert.is_nil(ids)
    assert.equal("EINVAL", code)
    assert.matches("only tracepoints", message)
    obj:close()
    assert.error_matches(function() ev:set_bpf(obj) end, "#1 .*integer expected, got userdata")
    assert.error_matches(function() ev:set_bpf(-1) end, "out of range")
    assert.error_matches(function() ev:set_bpf({}) end, "table without fd")
    ev:close()
    assert.error_matches(function() ev:set_bpf(1) end, "Event is closed")
    assert.error_matches(function() ev:query_bpf() end, "Event is closed")
  end)
end)

describe("the examples", function()
  for name, what in pairs{bpf_syscalls = "raw_syscalls:sys_enter", bpf_oncpu = "sched:sched_switch"} do
    it(name .. " runs", function()
      prepare()
      requires{root = true, tracepoint = what}
      local out, status = util.shell(("%s examples/%s.lua 0.3"):format(util.lua(), name))
      assert.equal(0, status, out)
      assert.matches("^ +pid  command", out)
      assert.matches("\n +%d+  %S+", out)
    end)
  end
end)

-- BPF programs on events: their counts are exact. Twice: the kernel attaches the programs.
local kit = require "testkit"
local util = require "spec.support.util"
local core = require "perf.core"
local sample = require "spec.support.bpf"

local bpf, object_path

-- The object file, compiled once.
local function prepare()
  requires{ext = "bpf", bpf = true, cmd = "clang", file = "/usr/include/bpf/bpf_helpers.h"}
  bpf = require "perf.bpf"
  object_path = object_path or sample.compile(sample.source)
end

local function load(opts)
  return assert(bpf.load(object_path, opts))
end

teardown(function()
  if object_path then os.remove(object_path) end
end)

describe("ev:set_bpf", function()
  before_each(prepare)

  it("counts 100 system calls as 100, on a tracepoint", function()
    requires{perf_open = "user", tracepoint = "raw_syscalls:sys_enter"}
    local id = tonumber(util.read_file(util.tracefs_dir() .. "/events/raw_syscalls/sys_enter/id"))
    local comm = "luaperf" .. kit.getpid()
    local obj = load{globals = {wanted = comm .. ("\0"):rep(16 - #comm)}}
    local ev = assert(core.open({type = 2, config = id, disabled = true, sample_period = 1}, 0, -1))
    local program = obj:program("on_call")
    assert.is_true(ev:set_bpf(program.fd))
    sample.with_comm(comm, function()
      assert(ev:enable())
      kit.syscalls(100)
      assert(ev:disable())
    end)
    assert.equal(100, obj:map("by_call"):get(sample.GETPPID))
    local ids, total = ev:query_bpf()
    local found = 0
    for _, i in ipairs(ids) do if i == program.id then found = found + 1 end end
    assert.equal(1, found)
    assert.equal(#ids, total)
    -- With a bound that is too small it returns that many, and the total. Other processes may use the tracepoint too.
    ids, total = ev:query_bpf(0)
    assert.is_true(#ids == 0 and total >= 1)
    assert.equal(1, #ev:query_bpf(1))
    ids, total = ev:query_bpf(1000000)
    assert.equal(#ids, total)
    ev:close()
    obj:close()
  end)

  it("runs at each of 64 page faults, given a program object", function()
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

  it("runs on each event of a set, on the CPU of that event", function()
    requires{perf_open = true, ncpu = 2}
    local perf = require "perf"
    local obj = load()
    local cpus = kit.cpus()
    local set = assert(perf.set({event = "page-faults", sample_period = 1}, {pid = 0, bpf = obj:program("on_overflow"),
      deferred_enable = true}))
    kit.pin(cpus[1])
    kit.touch_pages(1)
    assert(set:enable())
    kit.touch_pages(64)
    kit.pin(cpus[2])
    kit.touch_pages(32)
    assert(set:disable())
    kit.unpin()
    local faults = {}
    for _, e in ipairs(set:per_cpu()) do faults[e.cpu] = e.raw end
    local ran = obj:map("per_cpu"):get(1)
    assert.is_true(faults[cpus[1]] >= 64 and faults[cpus[2]] >= 32)
    for cpu, n in pairs(faults) do assert.equal(n, ran[cpu + 1]) end
    set:close()
    obj:close()
    for _, bad in ipairs{"x", {}, {fd = "3"}, 1.5, true} do
      assert.error_matches(function() perf.set("dummy", {bpf = bad}) end,
        "argument #2 to 'set' %(option 'bpf': a program's descriptor expected")
    end
  end)

  it("runs on the clock of a CPU, at each overflow of the event", function()
    requires{perf_open = "user", root = true}
    local cpu = kit.cpus()[1]
    local obj = load()
    -- 20 overflows of 1 ms of CPU time each, of any process, and then no more.
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

  it("keeps the program for the event after the BPF object is closed", function()
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

  it("explains a refusal of the kernel", function()
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
      requires { perf_open = "user" }
      prepare()
      requires{root = true, tracepoint = what}
      local out, status = util.shell(("%s examples/%s.lua 0.3"):format(util.lua(), name))
      assert.equal(0, status, out)
      assert.matches("^ +pid  command", out)
      assert.matches("\n +%d+  %S+", out)
    end)
  end
end)

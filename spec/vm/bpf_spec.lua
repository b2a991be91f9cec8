-- BPF programs on probes and on a hardware counter's overflow, in emulated machines. tools/vm/build.sh compiles them outside: a
-- guest has no compiler.
local kit = require "testkit"
local core = require "perf.core"
local perf = require "perf"

local machine = select(2, core.uname())
local getppid = machine == "aarch64" and "__arm64_sys_getppid" or "__x64_sys_getppid"
local object = (os.getenv("BUILD") or "build") .. "/bpf/count.bpf.o"

describe("a BPF program", function()
  local obj
  before_each(function()
    requires { vm = machine == "aarch64" and "arm64" or "amd64", bpf = true, root = true, ext = "bpf", file = object }
    obj = assert(require("perf.bpf").load(object))
  end)
  after_each(function()
    if obj then obj:close() end
    obj = nil
  end)

  local function run(attr, program, fn, ...)
    local ev = assert(perf.open(attr))
    assert.is_true(ev:set_bpf(obj:program(program).fd))
    ev:enable()
    fn(...)
    ev:disable()
    local e = assert(ev:read())
    ev:close()
    return e
  end

  it("runs at each call of a kernel function, and at each return", function()
    run(perf.kprobe { func = getppid }, "on_probe", kit.syscalls, 100)
    local before = obj:map("counts"):get(1)
    assert.equal(100, before)
    run(perf.kprobe { func = getppid, ret = true }, "on_probe", kit.syscalls, 30)
    assert.equal(130, obj:map("counts"):get(1))
  end)

  it("runs at each hit of a uprobe", function()
    requires { uprobe = true, ext = "symbols" }
    local _, path, symbol = kit.probe_place()
    run(assert(perf.uprobe { path = path, symbol = symbol }), "on_probe", kit.probe, 37)
    assert.equal(37, obj:map("counts"):get(1))
  end)

  it("runs at each hit of a tracepoint", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    run("syscalls:sys_enter_getppid", "on_tracepoint", kit.syscalls, 25)
    assert.equal(25, obj:map("counts"):get(2))
  end)

  it("runs at each overflow of a hardware counter", function()
    requires { pmu = true, vm = "icount" }
    local e = run({ event = "cycles:u", sample_period = 100000 }, "on_overflow", kit.spin, 1e7)
    local n = obj:map("counts"):get(0)
    assert.is_true(math.abs(n - math.floor(e.value / 100000)) <= 2, n)
    assert.is_true(n >= 50)
  end)

  it("runs for every CPU of a set", function()
    local s = assert(perf.set(perf.kprobe { func = getppid }, { bpf = obj:program("on_probe").fd }))
    assert.equal(0, (kit.fork(function() kit.syscalls(64) end)))
    s:disable()
    local n, counted = obj:map("counts"):get(1), s:read().value
    s:close()
    assert.is_true(n >= 64)
    assert.is_true(counted >= 64)
  end)
end)

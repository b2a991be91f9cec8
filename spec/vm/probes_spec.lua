-- Probes and tracepoints of known kernels, in emulated machines: kprobes, return probes, uprobes, filters.
local kit = require "testkit"
local core = require "perf.core"
local perf = require "perf"
local util = require "spec.support.util"

local machine = select(2, core.uname())
local arch = ({
  aarch64 = { func = "__arm64_sys_getppid", call = 173 },
  x86_64 = { func = "__x64_sys_getppid", call = 110 },
})[machine] or {}

local function counted(attr, fn, ...)
  local ev = assert(perf.open(attr))
  ev:enable()
  fn(...)
  ev:disable()
  local e = assert(ev:read())
  ev:close()
  return e
end

describe("a kprobe", function()
  before_each(function() requires { vm = machine == "aarch64" and "arm64" or "amd64", kprobe = true } end)

  it("counts each call of a kernel function", function()
    local e = counted(perf.kprobe { func = arch.func }, kit.syscalls, 100)
    assert.equal(100, e.value)
    assert.matches("^kprobe:.*" .. arch.func, e.label)
  end)

  it("counts each return from it", function()
    local e = counted(perf.kprobe { func = arch.func, ret = true }, kit.syscalls, 100)
    assert.equal(100, e.value)
    assert.matches("^kretprobe:.*" .. arch.func, e.label)
  end)

  it("may be set at an address too", function()
    local addr = ("\n" .. util.read_file "/proc/kallsyms"):match("\n(%x+) %a " .. arch.func .. "\n")
    assert.is_string(addr)
    local e = counted(perf.kprobe { addr = core.u64(tonumber(addr:sub(9), 16), tonumber(addr:sub(1, 8), 16)) },
      kit.syscalls, 50)
    assert.equal(50, e.value)
  end)

  it("counts other threads' calls on the CPUs of a set", function()
    local s = assert(perf.set(perf.kprobe { func = arch.func }))
    local status = kit.fork(function() kit.syscalls(200) end)
    assert.equal(0, status)
    s:disable()
    assert.is_true(s:read().value >= 200)
    s:close()
  end)

  it("is sampled at every call, with the kernel's stack", function()
    local attr = perf.kprobe { func = arch.func }
    attr.sample_period, attr.sample_type = 1, { "ip", "tid", "callchain" }
    local ev = assert(perf.open(attr))
    ev:map { pages = 16 }
    ev:enable()
    kit.syscalls(64)
    ev:disable()
    local n, first = 0, nil
    while ev:has_record() do
      local rec = assert(ev:read_record(0))
      if rec.type == "sample" then
        n = n + 1
        first = first or core.hex(rec.ip)
        assert.equal(first, core.hex(rec.ip))
        assert.equal(kit.gettid(), rec.tid)
        assert.is_true(#rec.callchain >= 2)
      end
    end
    assert.equal(64, n)
    ev:close()
  end)

  it("changes the kernel's text, as text_poke records show", function()
    requires { vm = "amd64" } -- other architectures do not write them
    local addr = ("\n" .. util.read_file "/proc/kallsyms"):match("\n(%x+) %a " .. arch.func .. "\n")
    local s = assert(perf.set({ event = "dummy", text_poke = true, sample_id_all = true, sample_type = { "tid", "time" } },
      { deferred_enable = true }))
    for _, ev in ipairs(s) do assert(ev:map { pages = 64 }) end
    s:enable()
    local ev = assert(perf.open(perf.kprobe { func = arch.func }))
    ev:enable()
    ev:close()
    s:disable()
    local changes = {}
    for rec in s:records { timeout = 0 } do
      -- the probe is on the function's first instruction, or on the call to ftrace after the landing pad
      if rec.type == "text_poke" and core.hex(rec.addr):sub(1, -2) == "0x" .. addr:sub(1, -2) then
        assert.equal(#rec.old, #rec.new)
        assert.not_equal(rec.old, rec.new)
        changes[#changes + 1] = rec
      end
    end
    s:close()
    assert.is_true(#changes >= 2, #changes) -- inserted and removed
    assert.equal(changes[1].old, changes[#changes].new)
  end)

  it("of a missing function is refused by name", function()
    local attr = assert(perf.kprobe { func = "no_such_function_of_a_kernel" })
    local ev, message, code = perf.open(attr)
    assert.is_nil(ev)
    assert.matches("no_such_function_of_a_kernel", message, 1, true)
    assert.is_truthy(code == "ENOENT" or code == "EADDRNOTAVAIL", code)
  end)

  it("is an error if the kernel allows none there", function()
    local ev, message, code = perf.open(perf.kprobe { func = machine == "aarch64" and "el1h_64_sync" or "exc_int3" })
    assert.is_nil(ev)
    assert.is_string(message)
    assert.matches("^E%u+$", code)
  end)
end)

describe("a uprobe", function()
  before_each(function() requires { vm = machine == "aarch64" and "arm64" or "amd64", uprobe = true } end)

  it("counts calls and returns of a symbol", function()
    requires { ext = "symbols" }
    local _, path, symbol = kit.probe_place()
    for _, ret in ipairs { false, true } do
      local e = counted(assert(perf.uprobe { path = path, symbol = symbol, ret = ret }), kit.probe, 41)
      assert.equal(41, e.value)
    end
  end)

  it("counts events that a kprobe beside it does not", function()
    requires { ext = "symbols" }
    local _, path, symbol = kit.probe_place()
    local u = assert(perf.open(assert(perf.uprobe { path = path, symbol = symbol })))
    local k = assert(perf.open(perf.kprobe { func = arch.func }))
    u:enable()
    k:enable()
    kit.probe(7)
    kit.syscalls(11)
    u:disable()
    k:disable()
    assert.equal(7, u:read().value)
    assert.equal(11, k:read().value)
    u:close()
    k:close()
  end)
end)

describe("a tracepoint", function()
  before_each(function()
    requires { vm = machine == "aarch64" and "arm64" or "amd64", tracepoint = "raw_syscalls:sys_enter", root = true }
  end)

  it("counts a system call by number with a filter", function()
    local ev = assert(perf.open "raw_syscalls:sys_enter")
    assert(ev:set_filter("id == " .. arch.call))
    ev:enable()
    kit.syscalls(100)
    ev:disable()
    assert.equal(100, ev:read().value)
    -- The kernel accepts one filter for an event.
    local ok, message, code = ev:set_filter "id == 1"
    assert.is_nil(ok)
    assert.matches("has a filter already", message, 1, true)
    assert.equal("EEXIST", code)
    ev:close()
    ev = assert(perf.open "raw_syscalls:sys_enter")
    assert(ev:set_filter("id == " .. arch.call + 1))
    ev:enable()
    kit.syscalls(100)
    ev:disable()
    assert.equal(0, ev:read().value)
    ev:close()
  end)

  it("names the filter that the kernel refuses", function()
    local ev = assert(perf.open "raw_syscalls:sys_enter")
    local ok, message, code = ev:set_filter "nosuchfield == 1"
    assert.is_nil(ok)
    assert.matches("nosuchfield", message, 1, true)
    assert.equal("EINVAL", code)
    ev:close()
  end)

  it("has its fields in the records", function()
    requires { tracepoint = "syscalls:sys_enter_getppid" }
    local ev = assert(perf.open { event = "raw_syscalls:sys_enter", sample_period = 1, sample_type = { "raw", "tid" } })
    assert(ev:set_filter("id == " .. arch.call))
    ev:map { pages = 16 }
    ev:enable()
    kit.syscalls(32)
    ev:disable()
    local n = 0
    while ev:has_record() do
      local rec = assert(ev:read_record(0))
      assert.equal("sample", rec.type)
      assert.equal(arch.call, rec.raw_fields.id)
      n = n + 1
    end
    assert.equal(32, n)
    ev:close()
  end)
end)

describe("an ordinary user", function()
  before_each(function() requires { vm = machine == "aarch64" and "arm64" or "amd64", kprobe = true } end)

  it("is refused kprobes, with the reason", function()
    local attr = assert(perf.kprobe { func = arch.func })
    local said = util.in_child(function()
      assert(kit.drop())
      local ev, message, code = perf.open(attr)
      return ev and "opened" or code .. " " .. message
    end)
    assert.matches("^E%u+ kprobe:", said)
    assert.matches("CAP_", said)
  end)
end)

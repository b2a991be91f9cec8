--- Event names on this machine: the events that they resolve to open, and count what the name says. Twice: names are text and
-- files of the kernel, which are the same for each interpreter.
local core = require "perf.core"
local kit = require "testkit"
local names = require "perf.names"
local perf = require "perf"
local trees = require "spec.support.trees"
local util = require "spec.support.util"

-- Opens the event for this thread, disabled, and closes it.
local function opens(spec, text)
  local found = assert(names.resolve(spec))
  for _, attr in ipairs(found.attrs) do
    attr.disabled = true
    local ev, message = core.open(attr, 0, -1, nil, 0, {label = found.label})
    assert.is_truthy(ev, tostring(text or spec) .. ": " .. tostring(message))
    ev:close()
  end
end

describe("software events", function()
  it("open by every name", function()
    requires { perf_open = true, nostress = true }
    for _, row in ipairs(core.defs().software) do
      opens(row.name)
      if row.alias then opens(row.alias) end
      opens(row.name .. ":u")
      opens("software/" .. row.name .. "/")
    end
  end)

  it("open as perf.all_software gives them, alone and as a group", function()
    requires { perf_open = true }
    local all = perf.all_software()
    for _, attr in ipairs(all) do
      local ev = assert(perf.open(attr))
      assert.equal(attr.label, ev:info().label)
      ev:close()
    end
    local group = assert(perf.group(all))
    assert.equal(12, #group)
    group:close()
  end)

  it("count the events of their name", function()
    requires { perf_open = true, nosan = true, nostress = true }
    local ev = assert(perf.open(perf.attr{event = "minor-faults", label = "pages"}))
    util.exactly(64, function()
      ev:reset()
      ev:enable()
      kit.touch_pages(64)
      ev:disable()
      return ev:read().value
    end)
    assert.equal("pages", ev:read().label)
    ev:close()
  end)
end)

describe("tracepoints", function()
  it("have the ids of tracefs", function()
    requires { perf_open = "user", tracefs = true }
    local dir = util.tracefs_dir()
    local id = tonumber(util.read_file(dir .. "/events/sched/sched_switch/id"))
    assert.equal(id, perf.tracepoint_id("sched", "sched_switch"))
    assert.equal(id, perf.tracepoint("sched", "sched_switch").config)
    assert.equal(2, perf.tracepoint("sched", "sched_switch").type)
    assert.equal(id, perf.attr("sched:sched_switch:u").config)
    opens("sched:sched_switch")
  end)

  it("count the events of their name", function()
    requires { perf_open = "user", tracepoint = "syscalls:sys_enter_getppid", nosan = true }
    local ev = assert(perf.open(perf.tracepoint("syscalls", "sys_enter_getppid")))
    ev:enable()
    kit.syscalls(100)
    ev:disable()
    assert.equal(100, ev:read().value)
    ev:close()
  end)

  it("are listed as in tracefs", function()
    requires { tracefs = true, nostress = true }
    local all, text = util.of_tracepoints(perf.tracepoints)
    assert.equal(select(2, text:gsub("\n", "")), #all)
    for _, name in ipairs(perf.tracepoints("sched:*")) do assert.matches("^sched:", name) end
    assert.same({"sched:sched_switch"}, perf.tracepoints("sched:sched_switch"))
    assert.same({}, perf.tracepoints("no such tracepoint"))
  end)

  it("are mistakes if tracefs has none of the name", function()
    requires { tracefs = true, nostress = true }
    local id, message, code = perf.tracepoint_id("sched", "sched_swtich")
    assert.is_nil(id)
    assert.matches("no tracepoint 'sched:sched_swtich'", message, 1, true)
    assert.equal("ENOENT", code)
    local ok, text = pcall(perf.tracepoint, "sched", "sched_swtich")
    assert.is_false(ok)
    assert.matches("bad argument #2.*did you mean 'sched:sched_switch'", text)
    ok, text = pcall(perf.open, "sched:sched_swtich")
    assert.is_false(ok)
    assert.matches("bad argument #1.*sched:sched_swtich: unknown event; did you mean 'sched:sched_switch'", text)
  end)

  it("are refused to a user who may not read tracefs", function()
    requires { hidden_tracefs = true, nosan = true }
    assert.equal("EACCES EACCES EACCES EACCES", util.in_child(function()
      kit.drop()
      local codes = {}
      for i, call in ipairs{
        function() return perf.tracepoint_id("irq", "irq_handler_entry") end,
        function() return perf.tracepoint("irq", "irq_handler_entry") end,
        function() return perf.open("irq:irq_handler_entry") end,
        function() return perf.tracepoints() end,
      } do
        local value, message, code = call()
        assert(value == nil and message:find("run as root", 1, true), message)
        codes[i] = code
      end
      return table.concat(codes, " ")
    end))
  end)
end)

describe("breakpoints", function()
  it("count accesses of an address", function()
    requires { perf_open = true }
    requires { breakpoint = true }
    local cell = kit.cell()
    for _, event in ipairs{
      perf.breakpoint{addr = cell:addr(), len = 8, access = "w"}, ("mem:%s/8:w"):format(perf.hex(cell:addr())),
      ("mem:%s/8:w/name=cell/"):format(perf.hex(cell:addr())),
    } do
      local ev = assert(perf.open(event))
      ev:enable()
      for i = 1, 50 do cell:poke(i) end
      ev:disable()
      assert.equal(50, ev:read().value)
      ev:close()
    end
  end)
end)

describe("probes", function()
  -- The offset in its file of the function that testkit.probe calls.
  local function place()
    local addr, path = kit.probe_place()
    for line in io.lines("/proc/self/maps") do
      local from, to, offset = line:match("^(%x+)%-(%x+) r.xp (%x+)")
      from, to, offset = tonumber(from or "0", 16), tonumber(to or "0", 16), tonumber(offset or "0", 16)
      if addr >= from and addr < to then return path, addr - from + offset end
    end
  end

  it("count calls of a function in a file", function()
    requires { uprobe = true, nosan = true }
    local path, offset = place()
    for _, ret in ipairs{false, true} do
      local attr = assert(perf.uprobe{path = path, offset = offset, ret = ret})
      assert.equal(perf.pmu_type("uprobe"), attr.type)
      local ev = assert(perf.open(attr))
      ev:enable()
      kit.probe(20)
      ev:disable()
      assert.equal(20, ev:read().value)
      ev:close()
    end
  end)

  it("count calls of a symbol", function()
    requires { uprobe = true, ext = "symbols", nosan = true }
    local _, path, symbol = kit.probe_place()
    local ev = assert(perf.open(perf.uprobe{path = path, symbol = symbol}))
    ev:enable()
    kit.probe(20)
    ev:disable()
    assert.equal(20, ev:read().value)
    ev:close()
  end)

  it("say that a symbol needs perf.symbols", function()
    local kept = package.loaded["perf.symbols"]
    package.loaded["perf.symbols"] = nil
    package.preload["perf.symbols"] = function() error("perf.symbols: not built (apt-get install it)", 0) end
    local attr, message, code = perf.uprobe{path = "/bin/sh", symbol = "main", ret = true}
    package.preload["perf.symbols"] = function()
      return {offset = function(_, symbol) return symbol == "main" and 0x1000 or nil, "no such symbol", "ENOENT" end}
    end
    package.loaded["perf.symbols"] = nil
    local found = perf.uprobe{path = "/bin/sh", symbol = "main", offset = 4}
    local missing = {perf.uprobe{path = "/bin/sh", symbol = "nosuch"}}
    package.preload["perf.symbols"], package.loaded["perf.symbols"] = nil, kept
    assert.is_nil(attr)
    assert.equal("uretprobe:/bin/sh:main: looking up a symbol needs perf.symbols: not built (apt-get install it); "
      .. "or give the offset in the file", message)
    assert.equal("EOPNOTSUPP", code)
    assert.is_nil(missing[1])
    assert.equal("no such symbol", missing[2])
    assert.equal("ENOENT", missing[3])
    requires { uprobe = true }
    assert.equal(0x1004, found.probe_offset)
    assert.equal("uprobe:/bin/sh:main+0x4", found.label)
  end)

  it("count calls of a kernel function", function()
    requires { kprobe = true, nosan = true }
    local attr = assert(perf.kprobe{func = "__x64_sys_getppid"})
    local ev = perf.open(attr) or assert(perf.open(perf.kprobe{func = "__arm64_sys_getppid"}))
    ev:enable()
    kit.syscalls(20)
    ev:disable()
    assert.equal(20, ev:read().value)
    ev:close()
  end)

  it("are refused by a machine that has no such PMU", function()
    for _, kind in ipairs{"kprobe", "uprobe"} do
      if not perf.pmu_type(kind) then
        local attr, message, code = perf[kind]{func = kind == "kprobe" and "f" or nil,
          path = kind == "uprobe" and "/f" or nil, offset = kind == "uprobe" and 1 or nil}
        assert.is_nil(attr)
        assert.matches(("no PMU '%s' here"):format(kind), message, 1, true)
        assert.equal("ENODEV", code)
      end
    end
  end)
end)

describe("PMUs", function()
  local root = "/sys/bus/event_source/devices"

  it("are the same as in sysfs", function()
    local names_here = core.listdir(root) or {}
    local all = perf.pmus()
    assert.equal(#names_here, #all)
    for _, d in ipairs(all) do
      assert.equal(tonumber(util.read_file(("%s/%s/type"):format(root, d.name))), d.type)
      assert.equal(d.type, perf.pmu_type(d.name))
      assert.matches(d.name, tostring(all), 1, true)
      assert.matches("type " .. d.type, tostring(d), 1, true)
    end
    assert.equal(1, perf.pmu_type("software"))
    local kind, message, code = perf.pmu_type("nosuch")
    assert.is_nil(kind)
    assert.matches("^no PMU 'nosuch' here; there are: .*breakpoint", message)
    assert.equal("ENODEV", code)
  end)

  it("have events that resolve to the values of their files", function()
    requires { perf_open = true }
    requires { file = root .. "/msr/events/tsc" }
    local event = assert(names.resolve("msr/tsc/"))
    assert.equal(perf.pmu_type("msr"), event.attrs[1].type)
    assert.equal(0, event.attrs[1].config)
    assert.same({"msr"}, event.pmus)
    opens("msr/tsc/")
    opens("tsc")
  end)

  it("are refused if the machine does not have them", function()
    local ev, message, code = perf.open("nosuch/event=1/")
    assert.is_nil(ev)
    assert.matches("nosuch/event=1/: no PMU 'nosuch' here; there are: ", message, 1, true)
    assert.equal("ENODEV", code)
  end)
end)

describe("perf.list", function()
  it("lists names that resolve", function()
    requires { tracefs = true, nostress = true }
    local kinds, unknown
    local all = util.of_tracepoints(function()
      kinds, unknown = {}, {}
      for _, row in ipairs(perf.list()) do
        kinds[row.kind] = (kinds[row.kind] or 0) + 1
        if row.kind ~= "raw" and row.kind ~= "breakpoint" then
          local found, message = names.resolve_counted(row.name)
          if type(found) ~= "table" then unknown[#unknown + 1] = row.name .. ": " .. tostring(message) end
        end
      end
      return perf.tracepoints()
    end)
    assert.same({}, unknown)
    assert.equal(10, kinds.hardware)
    assert.equal(12, kinds.software)
    assert.equal(32, kinds.cache)
    assert.equal(#all, kinds.tracepoint)
  end)
end)

describe("perf(1)", function()
  -- perf accepts each of these names; this module must fill in the same fields.
  local spelled = [[
    cpu-cycles cycles instructions branches stalled-cycles-backend idle-cycles-frontend ref-cycles
    cpu-clock task-clock faults cs migrations minor-faults dummy bpf-output cgroup-switches
    l1d L1-dcache-loads L1-dcache-load-misses l1d-misses-load l1i-prefetches LLC-misses d-tlb-store-misses iTLB-loads
    btb-load-misses branch-miss node-prefetches
    r1a8 rFFFFFFFFFFFFFFFF 1:2 1:2:u r1a8:uk
    cycles:u cycles:k cycles:h cycles:uk cycles:uh cycles:ukh cycles:G cycles:GH cycles:uG cycles:I cycles:p cycles:upp
    cycles:ppp cycles:D cycles:e page-faults:u cycles/period=1000/ cycles//u
    mem:0x1000 mem:4096:r mem:0x1000:wr mem:0x1000:x mem:0x1000/8 mem:0x1000/1:w:u mem:0xffffffff81000000:w
    sched:sched_switch sched:sched_switch:u msr/tsc/ msr/event=0x10/k msr/tsc,period=5/u msr// msr/r1a8/
  ]]
  local flags = {"exclude_user", "exclude_kernel", "exclude_hv", "exclude_idle", "exclude_host", "pinned", "exclusive"}

  -- An attr as perf -vv prints it, with our names.
  local function attr_of(text)
    local block = text:match("perf_event_attr:\n(.-)\n%-%-%-")
    if not block then return nil end
    local out = {type = 0, config = 0}
    for key, value in (block .. "\n"):gmatch("%s+(.-)%s+(%S+)\n") do
      key = key:match("bp_addr") or key:match("bp_len") or key
      out[key] = tonumber(value) and value:sub(1, 2) ~= "0x" and tonumber(value) or value
    end
    return out
  end

  local function show(attr)
    local out = {core.hex(attr.type), core.hex(attr.config), core.hex(attr.bp_type or 0), core.hex(attr.bp_addr or 0),
      core.hex(attr.bp_len or 0), tostring(attr.precise_ip or 0)}
    for _, flag in ipairs(flags) do
      if attr[flag] == true or attr[flag] == 1 then out[#out + 1] = flag end
    end
    return table.concat(out, " ")
  end

  it("understands the same names in the same way", function()
    requires { cmd = "perf", nostress = true, tracefs = true, root = true, file = "/sys/bus/event_source/devices/msr/events/tsc" }
    local script = {}
    for name in spelled:gmatch("%S+") do
      script[#script + 1] = ("echo 'NAME %s'; perf stat -vv -e '%s' true 2>&1"):format(name, name)
    end
    local output = util.shell(table.concat(script, "; "))
    local seen, at = 0, 1
    for name in spelled:gmatch("%S+") do
      local _, from = output:find("NAME " .. name .. "\n", at, true)
      at = from
      local theirs = attr_of(output:sub(from, (output:find("\nNAME ", from, true) or #output)))
      assert.is_table(theirs, name .. ": perf does not take it")
      assert.equal(show(theirs), show(assert(names.resolve(name)).attrs[1]), name)
      seen = seen + 1
    end
    assert.equal(64, seen)
  end)
end)

describe("a name", function()
  it("has its errors raised at the caller's line, by every function that accepts a name", function()
    requires { perf_open = true }
    requires { nostress = true }
    for name, call in pairs{
      open = function() return (perf.open("cylces")) end,
      group = function() return (perf.group{"page-faults", "cylces"}) end,
      attr = function() return (perf.attr("cylces")) end,
      measure = function() return (perf.measure("cylces", function() end)) end,
      set = function() return (perf.set("cylces", {})) end,
    } do
      local ok, message = pcall(call)
      assert.is_false(ok, name)
      assert.matches("^spec/live/names/names_spec.lua:%d+: bad argument #1", message, name)
      assert.matches("cylces: unknown event; did you mean 'cycles'?", message, 1, true)
    end
  end)

  it("may be resolved for another machine", function()
    local root = trees.server()
    local there = names.new(require("perf.kernel.pmu").new(root))
    assert.equal(0x13c, there:resolve("cpu/event=0x3c,umask=1/").attrs[1].config)
    trees.remove(root)
  end)
end)

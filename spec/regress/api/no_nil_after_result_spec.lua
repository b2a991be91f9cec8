-- The story: many functions ended with `return value, message, code`, and so returned two nils after a value: print(perf.open
-- "task-clock") ended with "nil nil". These specs call every function of perf.api, and the methods of the objects that need no
-- other library, as far as the machine allows it. If the first result is not nil, the last one is not nil either.
-- Later: it calls the whole API.
local api = require "perf.api"
local classes = require "perf.api.classes"
local perf = require "perf"
local tracers = require "spec.support.foreign_tracers"

local unpack = table.unpack or unpack

local function one() return 1 end

local A_FILE = "spec/support/init.lua"
local RAW = ("\0"):rep(64)
local sampling = { event = "page-faults:u", sample_period = 1, sample_type = { "ip" } }

-- The arguments of those that need some, or that would wait or do too much without; false: it is not called.
local arguments = {
  ["perf.measure"] = { one }, ["perf.bench"] = { "dummy", one, { repeats = 3 } },
  ["perf.compare"] = { { a = one, b = one }, { repeats = 3, events = "dummy" } },
  ["perf.profile"] = { { event = "page-faults:u" }, one }, ["perf.profiler"] = { { event = "page-faults:u" } },
  ["perf.load"] = { A_FILE }, ["perf.zone"] = { "a zone", one },
  ["perf.record"] = { { "true" }, { events = "dummy", output = "/dev/null" } },
  ["perf.open"] = { "task-clock" }, ["perf.group"] = { { "task-clock", "dummy" } }, ["perf.set"] = { "task-clock", { pid = 0 } },
  ["perf.tally"] = { { by = "ip" } }, ["perf.tracer"] = { { service = "x", exporter = false, events = "dummy" } },
  ["perf.observe"] = { (tracers.opentracing()) }, ["perf.pool"] = { { size = 1, cpus = false, events = false } },
  ["perf.attr"] = { "cycles" }, ["perf.tracepoint"] = { "sched", "sched_switch" }, ["perf.kprobe"] = { { func = "schedule" } },
  ["perf.uprobe"] = { { path = "/bin/sh", offset = 4096 } }, ["perf.breakpoint"] = { { addr = 4096, access = "w" } },
  ["perf.pmu_type"] = { "software" }, ["perf.tracepoint_id"] = { "sched", "sched_switch" }, ["perf.mounts"] = { "proc" },
  ["perf.msr"] = { 0 }, ["perf.hex"] = { 1 }, ["perf.keep"] = { "dummy" }, ["perf.wake"] = false, ["perf.help"] = false,
  ["perf.data.open"] = { A_FILE }, ["perf.data.create"] = { "/dev/null", { events = "dummy", build_ids = false } },
  ["perf.symbols.open"] = { { path = "/bin/sh" } }, ["perf.symbols.offset"] = { "/bin/sh", "main" },
  ["perf.symbols.build_id"] = { "/bin/sh" }, ["perf.bpf.load"] = { A_FILE }, ["perf.pfm.encode"] = { "PERF_COUNT_SW_CPU_CLOCK" },
  ["perf.tracefields.decode"] = { "sched:sched_switch", RAW }, ["perf.tracefields.format"] = { "sched:sched_switch" },
  ["perf.tracefields.text"] = { "sched:sched_switch", RAW }, ["perf.tracefields.parse"] = { "no format" },

  ["Event:measure"] = { one }, ["Event:refresh"] = { 1 }, ["Event:set_period"] = { 1 }, ["Event:set_filter"] = { "x" },
  ["Event:modify"] = { { bp_addr = 8 } }, ["Event:each"] = { "sample", "ip" }, ["Event:read_aux"] = false,
  ["Event:set_bpf"] = { 0 },
  ["Group:measure"] = { one }, ["Set:measure"] = { one }, ["CountingProfiler:measure"] = { one },
  ["Tally:take"] = false, ["Tally:count"] = { 1 },
  ["DataWriter:write"] = false, ["DataWriter:payload"] = { "" },
  ["Stats:save"] = false, ["Comparison:save"] = false,
  ["Profile:callers"] = { "f" }, ["Profile:callees"] = { "f" }, ["Profile:zone"] = { "z" }, ["Profile:timeline"] = false,
  ["Profile:diff"] = false, ["Profile:perf_data"] = false, ["Profile:save"] = false, ["Profile:annotate"] = { A_FILE },
  ["Heap:who"] = { one }, ["Heap:diff"] = false, ["Heap:save"] = false,
  ["Tracer:start"] = { "x" }, ["Tracer:span"] = { "x", one }, ["Tracer:extract"] = { {} }, ["Tracer:inject"] = { {} },
  ["Tracer:prometheus"] = false, ["Pool:submit"] = { one },
}

-- Call f. Returns its first result; raises if it ends with nil.
local function outcome(name, f, ...)
  local function look(ok, ...)
    local n, first = select("#", ...), ...
    if not ok and tostring(first):find("not built", 1, true) then return nil end
    assert(ok, ("%s: %s"):format(name, tostring(first)))
    if first ~= nil and n > 1 and select(n, ...) == nil then error(("%s: %d results, the last one nil"):format(name, n), 0) end
    return first
  end
  return look(pcall(f, ...))
end

local function arguments_of(name, signature)
  local list = arguments[name]
  if list == nil then
    assert(signature:gsub("%b[]", ""):gsub("[%s,]", "") == "()", name .. ": this spec has no arguments for it")
    list = {}
  end
  return list
end

local function close(object)
  if type(object) ~= "table" and type(object) ~= "userdata" then return end
  for _, name in ipairs { "close", "stop" } do
    local ok, method = pcall(function() return object[name] end)
    if ok and type(method) == "function" then return method(object) end
  end
end

describe("the functions of", function()
  for _, group in ipairs(api) do
    local prefix = "perf." .. (group.name and group.name .. "." or "")
    it(prefix .. group.module, function()
      for _, row in ipairs(group) do
        local name = prefix .. row[1]
        local list = arguments_of(name, row[2])
        if list then
          close(outcome(name, function(...)
            return (group.name and perf[group.name] or perf)[row[1]](...)
          end, unpack(list)))
        end
      end
    end)
  end
end)

local make = {
  Counts = function() return (perf.measure(one)) end,
  Region = function() return perf.start "dummy" end,
  Event = function() return perf.open(sampling) end,
  Group = function() return perf.group { sampling } end,
  Set = function() return perf.set(sampling, { pid = 0 }) end,
  CountingProfiler = function() return perf.software_profiler { events = "task-clock" } end,
  Tally = function() return perf.tally { by = "ip" } end,
  DataWriter = function() return perf.data.create("/dev/null", { events = "dummy", build_ids = false }) end,
  Stats = function() return perf.bench("dummy", one, { repeats = 3 }) end,
  Comparison = function() return perf.compare({ a = one, b = one }, { repeats = 3, events = "dummy" }) end,
  Profile = function() return (perf.profile({ event = "page-faults:u" }, one)) end,
  Profiler = function() return perf.profiler { event = "page-faults:u" } end,
  Heap = function() return perf.heap() end,
  Tracer = function() return perf.tracer { service = "x", exporter = one, events = "dummy" } end,
  Pool = function() return perf.pool { size = 1, cpus = false, events = false } end,
  DoctorReport = function() return perf.doctor() end,
}

describe("the methods of", function()
  before_each(function() requires { perf_open = "user" } end)

  for _, class in ipairs(classes) do
    local new = make[class.class]
    if new then
      it(class.class, function()
        local object = assert(new())
        for _, row in ipairs(class) do
          local name = class.class .. ":" .. row[1]
          local list = arguments_of(name, row[2])
          if list then outcome(name, object[row[1]], object, unpack(list)) end
        end
        close(object)
      end)
    end
  end
end)

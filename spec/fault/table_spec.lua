-- The rows of the fault specs cover the whole module: a new function needs a row.
local core = require "perf.core"
local inject = require "spec.fault.inject"
local nginx = require "spec.support.nginx"
local perf = require "perf"
local rows = require "spec.fault.rows"
local util = require "spec.support.util"

-- Classes whose rows have another name than in the sources, and internal classes: the rows that use them.
local called = { ["perf.Data"] = "DataFile", ["perf.msr"] = "Msr" }
local inside = { allocators = "perf.measure", Blocks = "perf.measure", Channel = "Pool", Collected = "perf.profile (allocations)",
  Collector = "perf.profiler (pid)", Descriptors = "perf.measure", Entry = "Event:read", Guard = "perf.measure",
  Guards = "perf.measure", Handle = "perf.pmus", HeapDifference = "Heap:diff", Inflate = "DataFile", Layouts = "core.layouts",
  lifetime = "Profiler:start", Metrics = "Counts:metrics", Meter = "perf.measure", mistakes = "Event:records",
  Output = "Profile", Owned = "Pool", Process = "perf.record", Thread = "Pool" }

local known = {}
for _, row in ipairs(rows) do known[row.name] = true end

-- Functions of a metatable's methods, wherever __index has them.
local function methods(mt)
  local names, found = {}, {}
  local function take(t)
    for k, v in pairs(t) do
      if type(k) == "string" and type(v) == "function" and not k:find "^_" then found[k] = true end
    end
  end
  if type(mt.__index) == "table" then
    take(mt.__index)
  else
    for i = 1, 60 do
      local name, value = debug.getupvalue(mt.__index, i)
      if not name then break end
      if type(value) == "table" and value ~= _G then take(value) end
    end
  end
  for name in pairs(found) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function missing(list, prefix)
  local without = {}
  for _, name in ipairs(list) do
    if not known[prefix .. name] then without[#without + 1] = prefix .. name end
  end
  return without
end

local function functions_of(t)
  local names = {}
  for name, value in pairs(t) do
    if type(value) == "function" and not name:find "^_" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

describe("the table of faults", function()
  it("has every function of perf", function()
    local names = functions_of(perf)
    assert.is_true(#names > 40)
    assert.same({}, missing(names, "perf."))
  end)

  it("has every function of its modules", function()
    for _, group in ipairs(require "perf.api") do
      if group.name then
        local ok, module = pcall(require, "perf." .. group.module)
        assert.same({}, missing(functions_of(ok and module or {}), "perf." .. group.name .. "."))
      end
    end
  end)

  it("has every method of every class", function()
    local path = os.tmpname()
    local writer = assert(perf.data.create(path, { events = "cpu-clock", build_ids = false }))
    assert(writer:close())
    local file = assert(perf.data.open(path))
    file:close()
    os.remove(path)
    local nothing = function() end
    local profile = require("perf.profile.profile").new({ event = "x", total = 0, sample_count = 0, lost = 0 }, {})
    local function closed(object)
      object:close()
      return object
    end
    local classes = {
      Event = core.Event, Group = core.Group, Record = core.Record,
      DataWriter = getmetatable(writer), DataFile = getmetatable(file),
      Set = getmetatable(assert(perf.set("dummy", { cpus = { 0 }, pid = 0 }))),
      Stats = getmetatable(perf.bench("dummy", nothing, { repeats = 3 })),
      Comparison = getmetatable(perf.compare({ a = nothing, b = nothing }, { repeats = 3, events = "dummy" })),
      CountingProfiler = getmetatable(assert(perf.software_profiler { events = "dummy" })),
      Counts = getmetatable(require("perf.counts").plain({ { label = "x", value = 1 } }, 1, "software")),
      DoctorReport = getmetatable(perf.doctor()),
      Tally = getmetatable(perf.tally { by = "ip" }),
      Zone = getmetatable(closed(perf.zone "a zone")),
      Profiler = getmetatable(closed(assert(perf.profiler { event = "page-faults:u", period = 1 }))),
      Tracer = getmetatable(perf.tracer { service = "x", exporter = false, events = false }),
      Span = require("perf.trace.span").Span, Silent = require("perf.trace.span").Silent,
      Profile = require "perf.profile.profile", Difference = getmetatable(profile:diff(profile)),
    }
    local optional = {
      KernelSymbols = function() return perf.symbols.kernel() end,
      Resolver = function() return perf.symbols.open { pid = require("testkit").getpid() } end,
      Pool = function() return perf.pool { size = 1, cpus = false, events = false } end,
      Job = function()
        local pool = perf.pool { size = 1, cpus = false, events = false }
        return pool:submit(nothing), pool:close()
      end,
      TraceFormat = function()
        return perf.tracefields.parse "name: x\nID: 1\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\nprint fmt: \"\"\n"
      end,
    }
    for name, make in pairs(optional) do
      local ok, object = pcall(make)
      if ok and object then
        classes[name] = getmetatable(object)
        if object.close then object:close() end
      end
    end
    local without = {}
    for name, mt in pairs(classes) do
      local names = methods(mt)
      assert.is_true(#names > 0 or _VERSION == "Lua 5.1", name) -- it hides the methods of C classes: a Record's
      for _, method in ipairs(missing(names, name .. ":")) do without[#without + 1] = method end
    end
    table.sort(without)
    assert.same({}, without)
    collectgarbage()
    collectgarbage()
  end)

  it("has every function of resty.perf", function()
    requires { lua = "luajit" }
    local names = {}
    for name, value in pairs(nginx.new():load()) do
      if type(value) == "function" then names[#names + 1] = name end
    end
    table.sort(names)
    assert.is_true(#names > 15)
    assert.same({}, missing(names, "resty.perf."))
  end)

  it("has every class that the sources name", function()
    local has, without, n = {}, {}, 0
    for name in pairs(known) do has[name] = true has[name:match "^[^:]+"] = true end
    local list = assert(io.popen "grep -rhoE '__name = \"perf[^\"]*\"|define PB_[A-Z]+ \"perf[^\"]*\"' lua csrc")
    for line in list:lines() do
      local class = line:match '"(.*)"'
      local short = called[class] or class:match "[^.]+$"
      n = n + 1
      if not has[short] and not has[inside[short] or ""] then without[#without + 1] = class end
    end
    list:close()
    assert.is_true(n > 30, n)
    assert.same({}, without)
  end)

  it("has every system call of the seam", function()
    local without, n = {}, 0
    for call in util.read_file("csrc/core/base/sys.def"):gmatch "\n%u+%([%w_]+, ([%w_]+)," do
      n = n + 1
      if not inject.errnos[call] then without[#without + 1] = call end
    end
    assert.is_true(n > 15, n)
    assert.same({}, without)
  end)
end)

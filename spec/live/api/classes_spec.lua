-- The rows of the classes match the methods of real objects, and perf.help recognizes an object's class by them.
local bytes = require "spec.support.bytes"
local classes = require "perf.api.classes"
local perf = require "perf"

-- Methods for other parts of the library.
local internal = {
  Event = "begin format info is_inherited is_off ring_loss scan since take user woken", Profile = "is new",
  BpfObject = "load set_autoload set_max_entries",
}

local class_of = {}
for _, class in ipairs(classes) do class_of[class.class] = class end

local function check(name, object)
  local hidden, rows = " " .. (internal[name] or "") .. " ", {}
  for _, row in ipairs(class_of[name]) do
    rows[row[1]] = true
    assert.equal("function", type(object[row[1]]), name .. ":" .. row[1])
    assert.is_truthy(row[2]:find "^%(.*%)$" and row[3]:find "%.$", name .. ":" .. row[1])
    -- The story: a method that was called with a dot failed at a line of the library. (Lua does not know the name in this call.)
    for _, value in ipairs { false, {} } do
      local ok, message = pcall(function()
        local result = object[row[1]](value or nil)
        return result
      end)
      assert.is_false(ok, name .. "." .. row[1])
      assert.matches("classes_spec%.lua:%d+: bad argument #1 to '[%w_?]+' %(.- expected, got " .. type(value or nil), message)
    end
  end
  local index = (debug.getmetatable(object) or {}).__index
  for method, fn in pairs(type(index) == "table" and index or {}) do
    if type(fn) == "function" and type(method) == "string" and not method:find "^_" then
      assert.is_true(rows[method] or hidden:find(" " .. method .. " ", 1, true) ~= nil, name .. ":" .. method)
    end
  end
  assert.equal(name, require("perf.api.help").text(object):match "^%w+")
end

-- The fields of these are also the names of events, or of the kernel's fields: one that is missing is nil.
local open_to_names = { Counts = true, Record = true, Stats = true, Comparison = true }

-- A misspelt name of an object raises an error with the nearest one; other names that it lacks are nil.
local function check_misspelt(name, object)
  local method = class_of[name][1][1]
  local ok, message = pcall(function()
    local value = object[method .. "q"]
    return value
  end)
  assert.is_false(ok)
  assert.matches("^[^\n]*classes_spec%.lua:%d+: " .. name .. " has no '" .. method .. "q'; did you mean '", message)
  for _, absent in ipairs { "_" .. method, "qqqqqqqqq", true } do
    assert.is_nil(object[absent], tostring(absent))
  end
end

local function nothing() end

local function a_record()
  local layouts = require("perf.core").layouts()
  layouts:add({ sample_type = { "ip" } }, { label = "dummy", attr = {} })
  return layouts:record(bytes.native.record(3, 0, bytes.native.u32(1) .. bytes.native.u32(2) .. "comm\0\0\0\0"))
end

-- An object of each class that needs no library and no permission.
local make = {
  Counts = function() return (perf.measure(nothing)) end,
  Region = function() return perf.start "dummy" end,
  Stats = function() return perf.bench("dummy", nothing, { repeats = 3 }) end,
  Comparison = function() return perf.compare({ a = nothing, b = nothing }, { repeats = 3, events = "dummy" }) end,
  Event = function() return perf.open "dummy" end,
  Group = function() return perf.group { "dummy" } end,
  Set = function() return perf.set("dummy", { cpus = { 0 }, pid = 0 }) end,
  CountingProfiler = function() return perf.software_profiler { events = "dummy" } end,
  Record = a_record,
  Tally = function() return perf.tally { by = "ip" } end,
  DataWriter = function() return perf.data.create("/dev/null", { events = "cpu-clock", build_ids = false }) end,
  Profile = function() return (perf.profile({ event = "page-faults" }, nothing)) end,
  Profiler = function() return perf.profiler { event = "page-faults:u", period = 1 } end,
  Zone = function() return perf.zone "a zone" end,
  Tracer = function() return perf.tracer { service = "x", exporter = false, events = false } end,
  Span = function() return perf.tracer({ service = "x", exporter = false, events = false }):start "x" end,
  Pool = function() return perf.pool { size = 1, cpus = false, events = false } end,
  DoctorReport = function() return perf.doctor() end,
}

describe("the table of classes", function()
  for name, new in pairs(make) do
    it("has every method of a " .. name, function()
      requires { perf_open = "user" }
      local object = assert(new())
      check(name, object)
      if not open_to_names[name] then check_misspelt(name, object) end
      if type(object.close) == "function" then object:close() end
    end)
  end
end)

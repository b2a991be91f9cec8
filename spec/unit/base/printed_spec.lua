-- Results that are plain tables print their fields, never an address.
local json = require "perf.base.json"
local perf = require "perf"
local printed = require "perf.base.printed"
local rings = require "spec.support.rings"

local function text(t) return tostring(printed.table(t)) end

describe("a printed table", function()
  it("shows its fields on a line, the name first", function()
    assert.equal("{name = x, a = 1.5, b = {1, 2, 3}, c = true}", text { c = true, a = 1.5, b = { 1, 2, 3 }, name = "x" })
    assert.equal("(empty)", text {})
    assert.equal("{a = function}", text { a = print })
  end)

  it("shows many fields below each other", function()
    local t = {}
    for i = 1, 30 do t["field" .. i] = i end
    assert.matches("^field1   1\nfield10  10\n", text(t))
  end)

  it("shows an array of rows with a heading, and says how many are left out", function()
    local rows = {}
    for i = 1, 25 do rows[i] = { name = "n" .. i, bytes = i * 1000 } end
    local lines = tostring(printed.rows(rows))
    assert.matches("^name  bytes\nn1     1000\n", lines)
    assert.matches("\n%.%.%. and 5 more$", lines)
    assert.equal("{name = n3, bytes = 3000}", tostring(rows[3]))
  end)

  -- The story: a program put a list into its rows, and printing it raised a stack overflow; and a row that a program replaced by
  -- a string raised an error about a field.
  it("may contain itself, and values that are no rows", function()
    local rows = printed.rows { { bytes = 1 } }
    rows[1].all = rows
    assert.matches("^all +bytes\n", tostring(rows))
    assert.matches("{%.%.%.}", tostring(rows[1]))
    rows[2] = "a text"
    assert.matches("^{{.*}, a text}$", tostring(rows))
  end)

  it("is what the functions of the library return", function()
    requires { heap = true, perf_open = "user" }
    local function run() return ("x"):rep(1e6):byte() end
    local stats = perf.bench(run, { repeats = 3, min_time = 0 })
    local comparison = perf.compare({ a = run, b = run }, { repeats = 3, min_time = 0 })
    local prof = perf.profile({ event = "page-faults:u", period = 1 }, run)
    local heap = perf.heap()
    local later = perf.heap()
    local tally = perf.tally { by = "ip" }
    local zone = perf.zone "parse"
    local span = perf.tracer({ service = "x", exporter = false, events = false }):start "x"
    local changes = later:diff(heap)
    local list = { stats[1], stats.wall, stats[1].values, stats[1].ci, stats.overhead,
      comparison.names, comparison.batch, comparison.wall.candidates.b.ci, comparison[1], comparison.wall.candidates,
      heap:types(), heap:types()[1], heap:paths(),
      heap:who(perf), changes.types, changes.paths, tally:top(), tally:totals(), zone, span:context(), span.tracer:stats(),
      span.tracer.warnings, perf.doctor()[1], prof:samples(), prof:top().lines, prof:diff(prof).lines }
    for i, object in ipairs(list) do assert.is_nil(tostring(object):find "0x%x%x%x%x", i .. ": " .. tostring(object)) end
    assert.equal("perf.Zone(parse)", tostring(zone))
    zone:close()
    assert.equal("perf.Zone(parse, closed)", tostring(zone))
    heap:close()
    later:close()
  end)

  it("is what methods of events and records return", function()
    requires { perf_open = "user" }
    local ev = rings.faults()
    assert.matches("records = 0", tostring(select(2, ev:lost())))
    rings.touch(ev, 1)
    assert.matches("page%-faults:u", tostring(ev:read_record(0):info()))
    rings.close_all()
  end)

  it("is a plain table to everything else", function()
    local plain = { a = 1, b = { 2, 3 } }
    local t = printed.table { a = 1, b = { 2, 3 } }
    assert.same(plain, t)
    assert.equal(json.encode(plain), json.encode(t))
    local keys = {}
    for key in pairs(t) do keys[#keys + 1] = key end
    assert.equal(2, #keys)
    local meta = getmetatable(t)
    assert.equal(t, meta.__serialize(t)) -- serpent asks this before __tostring
    assert.is_nil(meta.__index or meta.__eq or meta.__pairs or meta.__len)
  end)

  it("can be the result of a job of a Pool", function()
    local pool = perf.pool { size = 1, cpus = false, events = false }
    local row = pool:submit(function(t) return t end, printed.table { a = 1 }):get()
    assert.equal("{a = 1}", tostring(row))
    pool:close()
  end)
end)

-- The story: a wrong value was shown by its address ("unknown cache 'table: 0x55d23b3eb270'"), and a zero byte as itself.
describe("the message about a wrong argument", function()
  it("has no address and no zero byte", function()
    requires { perf_open = "user" }
    local group = perf.group { "dummy" }
    for _, fn in ipairs { function() perf.hardware_cache { {} } end, function() group:poll(print) end,
      function() perf.pmu_type "a\0b" end } do
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.is_nil(message:find "0x%x%x%x%x" or message:find "%z", message)
    end
    group:close()
  end)

  -- The story: the message about an event whose name had 5,000 characters had all of them.
  it("has the beginning and the end of a long word", function()
    local long = "first" .. ("\195\164"):rep(3000) .. "last"
    for _, fn in ipairs { function() perf.open(long) end, function() perf.group { long } end,
      function() perf.open("dummy", { [long] = 1 }) end, function() perf.hardware_cache { long } end } do
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.is_true(#message < 500, #message .. " bytes")
      assert.matches("first\195.*\164%.%.%.\195.*last", message)
    end
  end)

  -- The story: the messages of functions that return them still had all of the name; and a name of 2,000 words has no long word.
  it("has the beginning and the end of what a function returns", function()
    requires { perf_open = "user" }
    local prof = perf.profile({ event = "page-faults:u", period = 1 }, function() end)
    for _, long in ipairs { "first" .. ("\195\164"):rep(3000) .. "last", "first" .. (" word"):rep(2000) .. "last" } do
      for name, fn in pairs { pmu_type = perf.pmu_type, load = perf.load, open = perf.data.open,
        callers = function(x) return prof:callers(x) end, annotate = function(x) return prof:annotate(x) end,
        record = function(x) return perf.record({ x }, { output = "/dev/null", events = "cpu-clock:u" }) end } do
        local ok, message = fn(long)
        assert.is_nil(ok, name)
        assert.is_true(#message < 2500, name .. ": " .. #message .. " bytes")
        assert.matches("first.*%.%.%..*last", message)
      end
      local zone = perf.zone(long)
      zone:close()
      assert.is_true(#tostring(zone) < 2500)
    end
  end)

  -- The story: perf.bench and perf.compare passed a list of events on, whose mistakes were those of 'measure' then.
  it("has the name of the function that was called", function()
    local function nothing() end
    local list = { { event = "dummy", [1] = {} }, { "dummy", false }, ("x"):rep(70) .. "\0" }
    for _, events in ipairs(list) do
      for name, fn in pairs { bench = function() perf.bench(events, nothing) end,
        measure = function() perf.measure(events, nothing) end,
        compare = function() perf.compare(events, { a = nothing, b = nothing }) end } do
        local ok, message = pcall(fn)
        assert.is_false(ok)
        assert.truthy(message:find(" to '" .. name .. "' (", 1, true), name .. ": " .. message)
      end
    end
  end)

  -- The story: every public function was called with values of each type. These messages named an inner function or another
  -- argument, did not name the option, or showed a line of the library.
  it("names what was called, the argument and the option", function()
    requires { perf_open = "user" }
    local tracer = perf.tracer { service = "x", exporter = false, events = false }
    local span = tracer:start "x"
    local prof = perf.profile({ event = "page-faults:u", period = 1 }, function() end)
    local failing = setmetatable({}, { __tostring = function() error "printed" end })
    local group = perf.group { "dummy" }
    for wanted, fn in pairs {
      ["#2 to 'record' (option 'events': nosuch: unknown event"] = function() perf.record({ "true" }, { events = "nosuch" }) end,
      ["#2 to 'record' (option 'events': empty event name"] = function() perf.record({ "true" }, { events = "" }) end,
      ["#2 to 'record' (option 'filter': a filter has no zero bytes)"] = function()
        perf.record({ "true" }, { filter = "a\0" })
      end,
      ["#1 to 'profiler' (option 'filter': a filter has no zero bytes)"] = function() perf.profiler { filter = "a\0" } end,
      ["#1 to 'pool' (option 'events': nosuch: unknown event"] = function() perf.pool { events = "nosuch" } end,
      ["#1 to 'software_profiler' (option 'events': nosuch: unknown event"] = function()
        perf.software_profiler { events = "nosuch" }
      end,
      ["#2 to 'create' (empty event name"] = function() perf.data.create("/dev/null", { events = "" }) end,
      ["#1 to 'tracer' (option 'metrics': unknown option 'x')"] = function() perf.tracer { metrics = { x = 1 } } end,
      ["#1 to 'tracer' (option 'metrics': table of options expected, got the module perf)"] = function()
        perf.tracer { metrics = perf }
      end,
      ["call perf.exporter.otlp with '.', not ':'"] = function() perf.exporter.otlp(perf) end,
      ["#1 to 'callers' (string expected, got nil)"] = function() prof:callers() end,
      ["#1 to 'annotate' (string expected, got number)"] = function() prof:annotate(1) end,
      ["#1 to 'poll' (a timeout is 0 or more seconds, got table)"] = function() group:poll(failing) end,
      ["#1 to 'wake' (descriptor expected, got table)"] = function() perf.wake(failing) end,
      ["unknown cache 'file'"] = function() perf.hardware_cache(io.stdout) end,
      ["#1 to 'span' (Tracer expected, got table)"] = function() tracer.span({}, "x", print) end,
      ["#1 to 'set_attribute' (Span expected, got table)"] = function() span.set_attribute(perf, "x", 1) end,
    } do
      local ok, message = pcall(fn)
      assert.is_false(ok, wanted)
      assert.truthy(tostring(message):find(wanted, 1, true), wanted .. ": " .. tostring(message))
      assert.matches("^[^\n]*printed_spec%.lua:%d+: ", message)
    end
    group:close()
  end)

  it("suggests names of Heaps and Differences too", function()
    requires { heap = true, perf_open = "user" }
    local heap = perf.heap()
    local prof = perf.profile({ event = "page-faults:u", period = 1 }, function() end)
    assert.has_error(function() return heap.tpes end)
    assert.has_error(function() return prof:diff(prof).flamegrph end)
    assert.is_nil(heap.something)
    heap:close()
    assert.is_nil(rawget(heap, "snapshot"))
  end)

  it("has the method's name and the caller's line", function()
    local tracer = perf.tracer { service = "x", exporter = false, events = false }
    local span = tracer:start "x"
    local heap = perf.heap()
    heap:close()
    for name, fn in pairs { start = function() tracer.start(true, "x") end, span = function() tracer.span(nil, "x", print) end,
      pause = function() span.pause(true) end, finish = function() span.finish(1) end, totable = function() heap:totable() end,
      json = function() heap:json() end } do
      local ok, message = pcall(fn)
      assert.is_false(ok, name)
      assert.matches("^[^\n]*printed_spec%.lua:%d+: ", message)
      assert.truthy(message:find("'" .. name .. "'", 1, true), message)
    end
  end)
end)

-- The story: `for rec in open_it().ev:records() do` died by SIGSEGV. The object that open_it returned was no longer referenced
-- once the loop had begun, and its finalizer closed the event. The collector may run it whenever Lua allocates, so also while a
-- Record was made of bytes in the event's ring: closing the event unmapped them. Files had the same bug.
--
-- A later story: a Tally that a finalizer closed while it read a file's records, or in a loop over it, was read after its memory
-- was freed. And on LuaJIT a Record had no bytes if a finalizer closed the file while the Record was allocated: its fields raised
-- "attempt to index a nil value" at a line of this library.
-- Later: the collector works all the time.
local core = require "perf.core"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local m = perfdata.maker(core.bytes("2", 1):byte(1) == 1 and "<" or ">")

local function make_file(path)
  local attr = { type = "software", config = 0, sample_period = 1000, sample_type = { "ip", "tid", "time" }, sample_id_all = true,
    comm = true }
  local w = assert(require "perf.data".create(path, { events = { { attr = attr, ids = { 5 } } } }))
  for i = 1, 2000 do
    local tail = m.u32(100) .. m.u32(101) .. m.u64(i)
    assert(w:write(m.record(9, 2, m.u64(4096), tail)))
    assert(w:write(m.record(3, 0, m.u32(100), m.u32(101), m.text("name" .. i), tail)))
  end
  assert(w:close())
end

local prologue = [[
  local perf = require "perf"
  local rounds = 0
  local function owner(close)
    local function collect() rounds = rounds + 1 close() end
    if not newproxy then return setmetatable({}, { __gc = collect }) end
    local o = newproxy(true)
    getmetatable(o).__gc = collect
    return o
  end
  collectgarbage("setpause", 50)
  collectgarbage("setstepmul", 1000)
  if jit then jit.off() end
  -- Lua 5.2 and 5.3 then collect all at each allocation, so a few rounds are enough for every order of events.
  local function at_most(n) return (_VERSION == "Lua 5.2" or _VERSION == "Lua 5.3") and 8 or n end
]]

local events = [[
  local f = assert(io.open "/dev/zero")
  local loops = {
    function(ev) return ev:records() end,
    function(ev) return function() return ev:read_raw() end end,
    function(ev) return ev:each("sample", "time", "ip") end,
    function(ev) return ev:each("comm", "comm") end,
  }
  for i = 1, at_most(20) do
    local ev = assert(perf.open { type = "software", config = 2, sample_period = 1, sample_type = { "ip", "time", "callchain" },
      disabled = true, sample_id_all = true, comm = true })
    assert(ev:map { pages = 16 })
    assert(ev:enable())
    f:read(2000000)
    for _ = 1, 40 do local c = io.open("/proc/self/comm", "w") c:write "lua" c:close() end
    ev:disable()
    owner(function() ev:close() end)
    pcall(function() for _ in loops[i % #loops + 1](ev) do end end)
    collectgarbage()
    assert(not ev:is_open())
  end
  io.write(rounds >= at_most(20) and "done" or rounds)
]]

local files = [[
  local path = ...
  local loops = {
    function(data) return data:records() end,
    function(data) return data:each("sample", "time") end,
    function(data) return data:each("comm", "comm") end,
    function(data) return function() return data:next() end end,
  }
  for i = 1, at_most(20) do
    local data = assert(require "perf.data".open(path))
    owner(function() data:close() end)
    pcall(function() for _ in loops[i % #loops + 1](data) do end end)
    collectgarbage()
  end
  io.write(rounds >= at_most(20) and "done" or rounds)
]]

-- A file whose records make the library allocate between the samples, since their fields exceed a Lua number.
-- Lua 5.4 collects in small steps, of which only some fall between two records; Lua 5.2 and 5.3 collect all at each allocation.
local RECORDS = ({ ["Lua 5.4"] = 200, ["Lua 5.1"] = 60 })[_VERSION] or 20

local function make_file_for_tally(path)
  local attr = m.attr { type = 1, sample_type = 4 + 8 + 64 + 256, sample_id_all = true } -- time, addr, id, period
  local parts = {}
  for i = 1, RECORDS do
    parts[#parts + 1] = m.record(67, 1, m.u32(i), ("\0"):rep(24), m.text("/lib/" .. i))
    parts[#parts + 1] = m.record(9, 1, m.u64 { i, 2 ^ 30 }, m.u64 { i, 2 ^ 29 }, m.u64 { i, 2 ^ 28 }, m.u64 { i, 2 ^ 27 })
  end
  util.write_file(path, m.file { attrs = { { attr = attr, ids = {} } }, data = table.concat(parts) })
end

local tallies = [[
  local path, records = ...
  local function new() return assert(perf.tally { by = { "time", "addr", "id", "period" } }) end
  for i = 1, _VERSION == "Lua 5.4" and 30 or 3 do
    local data, tally = assert(require "perf.data".open(path)), new()
    local junk = {}
    for k = 1, i % 10 do junk[k] = {} end
    owner(function() tally:close() end)
    pcall(tally.take, tally, data)
    data:close()
    local other, full = assert(require "perf.data".open(path)), new()
    assert(full:take(other) == tonumber(records))
    pcall(function() for _ in full:each() do owner(function() full:close() end) end end)
    other:close()
    collectgarbage()
  end
  io.write(rounds >= 6 and "done" or rounds)
]]

local records = [[
  local path = ...
  for i = 1, at_most(100) do
    local data, junk = assert(require "perf.data".open(path)), {}
    for k = 1, i % 50 do junk[k] = {} end
    local _, message = pcall(function()
      for rec in data:records() do
        owner(function() data:close() end)
        assert(rec.type and rec.pid)
      end
    end)
    assert(not message or message:find("is closed", 1, true), message)
  end
  io.write(rounds >= at_most(100) and "done" or rounds)
]]

local function run(dir, script, ...)
  util.write_file(dir .. "/a.lua", prologue .. script)
  return (util.shell(table.concat({ util.lua(), dir .. "/a.lua", ... }, " ")))
end

describe("an object that a finalizer closes", function()
  it("is read to the end of the record: an event's ring", function()
    requires{perf_open = true}
    util.with_directory(function(dir) assert.equal("done", run(dir, events)) end)
  end)

  it("is read to the end of the record: a file", function()
    util.with_directory(function(dir)
      make_file(dir .. "/perf.data")
      assert.equal("done", run(dir, files, dir .. "/perf.data"))
      assert.equal("done", run(dir, records, dir .. "/perf.data"))
    end)
  end)

  it("is not read after that: a tally", function()
    util.with_directory(function(dir)
      make_file_for_tally(dir .. "/perf.data")
      assert.equal("done", run(dir, tallies, dir .. "/perf.data", RECORDS))
    end)
  end)
end)

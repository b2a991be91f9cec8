-- The story: `for rec in open_it().ev:records() do` died by SIGSEGV. The object that open_it gave was forgotten once the loop had
-- begun, and its finalizer closed the event. The collector runs it whenever Lua allocates, so also while a Record was made of
-- bytes that lay in the event's ring: closing the event unmapped them. Files had the same fault.
local core = require "perf.core"
local perfdata = require "spec.support.perfdata"
local util = require "spec.support.util"

local m = perfdata.maker(core.number_bytes(1, 2):byte(1) == 1 and "<" or ">")

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
]]

local events = [[
  local f = assert(io.open "/dev/zero")
  local loops = {
    function(ev) return ev:records() end,
    function(ev) return function() return ev:read_raw() end end,
    function(ev) return ev:each("sample", "time", "ip") end,
    function(ev) return ev:each("comm", "comm") end,
  }
  for i = 1, 60 do
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
  io.write(rounds >= 60 and "done" or rounds)
]]

local files = [[
  local path = ...
  local loops = {
    function(data) return data:records() end,
    function(data) return data:each("sample", "time") end,
    function(data) return data:each("comm", "comm") end,
    function(data) return function() return data:next() end end,
  }
  for i = 1, 60 do
    local data = assert(require "perf.data".open(path))
    owner(function() data:close() end)
    pcall(function() for _ in loops[i % #loops + 1](data) do end end)
    collectgarbage()
  end
  io.write(rounds >= 60 and "done" or rounds)
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
    end)
  end)
end)

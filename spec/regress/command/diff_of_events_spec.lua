-- The stories: luaperf report --diff of a profile of task-clock and one of page-faults printed figures of both as if they were of
-- one event. Of two files with several events each, it took the first event of the older file for all of the newer one.
-- Twice: reports are only text.
local bytes = require "spec.support.bytes"
local data = require "perf.data"
local luaperf = require "spec.support.luaperf"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

it("luaperf report --diff refuses profiles of two events", function()
  util.with_directory(function(dir)
    assert(profiles.new({ { weight = 5, "a.lua:1 f" } }):speedscope(dir .. "/time.json"))
    assert(profiles.new({ event = "page-faults", { weight = 5, "a.lua:1 f" } }):speedscope(dir .. "/faults.json"))
    local output = luaperf.shell(dir, "luaperf report --diff time.json faults.json 2>&1; echo status $?")
    assert.equal("luaperf: time.json is of task-clock, but faults.json of page-faults\nstatus 129\n", output)
  end)
end)

-- Writes a perf.data file with a sample of each event.
local function record(path, events)
  local b, attrs, samples = bytes.native, {}, {}
  for i, name in ipairs(events) do
    attrs[i] = { name = name, ids = { i }, attr = { type = "software", config = i, sample_period = 1,
      sample_type = { "identifier", "ip", "tid" } } }
    samples[i] = b.record(9, 2, b.u64(i), b.u64(0x1000), b.u32(7), b.u32(7))
  end
  local w = assert(data.create(path, { events = attrs }))
  assert(w:write(table.concat(samples)))
  assert(w:close())
end

it("luaperf report --diff compares each event with the same one of the older file", function()
  util.with_directory(function(dir)
    record(dir .. "/old.data", { "first", "second", "third" })
    record(dir .. "/new.data", { "second", "first" })
    local output = luaperf.shell(dir, "luaperf report --diff old.data new.data 2>&1; echo status $?")
    assert.matches("^second.*\nfirst.*\nstatus 0\n$", output)
    output = luaperf.shell(dir, "luaperf report --diff new.data old.data 2>&1; echo status $?")
    assert.equal("luaperf: new.data is of second, first, but old.data of third\nstatus 129\n", output)
  end)
end)

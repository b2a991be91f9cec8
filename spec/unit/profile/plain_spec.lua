-- Profiles as plain tables and JSON, saved and loaded by the public functions.
local json = require "perf.base.json"
local perf = require "perf"
local profiles = require "spec.support.profiles"
local util = require "spec.support.util"

-- Saves a profile under a name with this ending and loads it again.
local function again(prof, ending, save)
  local loaded
  util.with_directory(function(dir)
    local path = dir .. "/profile" .. ending
    save = save or function() assert(prof:save(path)) end
    save(path)
    loaded = assert(perf.load(path))
  end)
  return loaded
end

-- The folded stacks in a fixed order, since two of them have the same weight.
local function lines_of(prof)
  local lines = {}
  for line in prof:folded():gmatch "[^\n]+" do lines[#lines + 1] = line end
  table.sort(lines)
  return lines
end

describe("a Profile", function()
  it("as plain tables has each frame once", function()
    local prof = profiles.program()
    local t = prof:totable()
    assert.equal(#prof:samples(), #t.samples)
    assert.same({ "task-clock", "ns", prof.total, 999, "luajit" }, { t.event, t.unit, t.total, t.freq, t.comm })
    for i, s in ipairs(prof:samples()) do
      assert.equal(#s.stack, #t.samples[i].stack)
      for k, f in ipairs(s.stack) do assert.equal(f.name, t.frames[t.samples[i].stack[k]].name) end
    end
    assert.is_nil(getmetatable(t))
    assert.equal(json.encode(t), prof:json())
  end)

  it("is the same after saving it as JSON, of speedscope or its own", function()
    for _, prof in ipairs { profiles.program(), profiles.new {}, profiles.new { { weight = 1, "a.lua:1 f" } } } do
      local function own(path) util.write_file(path, prof:json()) end
      for _, loaded in ipairs { again(prof, ".json"), again(prof, ""), again(prof, ".json", own) } do
        assert.equal(tostring(prof), tostring(loaded))
        assert.equal(prof:json(), loaded:json())
      end
    end
  end)

  it("can be loaded with its stacks from folded stacks and perf.data", function()
    local prof = profiles.program()
    for _, ending in ipairs { ".folded", ".txt" } do
      local loaded = again(prof, ending)
      assert.equal(prof.total, loaded.total)
      assert.same(lines_of(prof), lines_of(loaded))
    end
    local loaded = again(prof, ".data")
    assert.same({ "task-clock" }, loaded.events)
    assert.equal(prof.total, loaded.total)
  end)

  it("is written in the format of the name's ending", function()
    local prof = profiles.program()
    util.with_directory(function(dir)
      assert(prof:save(dir .. "/p.HTML"))
      assert.is_truthy(util.read_file(dir .. "/p.HTML"):find("^<!DOCTYPE html>"))
      local none, message, code = perf.load(dir .. "/p.HTML")
      assert.same({ dir .. "/p.HTML: a page, such as a flame graph, which a browser shows", "EBADMSG" }, { message, code })
      assert.is_nil(none)
    end)
    assert.error_matches(function() prof:save "p.docx" end, "bad argument #1 to 'save' %(p.docx: unknown ending; ")
    assert.error_matches(function() prof:save(3) end, "bad argument #1 to 'save' %(string expected, got number%)")
  end)
end)

describe("perf.load", function()
  -- The story: every file that begins with "<" was taken for a page.
  it("reads py-spy's folded stacks, whose samples it counts", function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local f = assert(io.open(path, "w"))
    f:write "<module> (a.py:1);f (a.py:2) 5\n<module> (a.py:1) 2\n"
    f:close()
    local prof = assert(perf.load(path))
    assert.same({ 7, 7 }, { prof.total, prof.sample_count })
    local counted = 0
    for _, s in ipairs(prof:samples()) do counted = counted + s.count end
    assert.equal(7, counted)
  end)

  it("raises for a mistake, and returns the reason for a file that it cannot read", function()
    assert.error_matches(function() perf.load() end, "bad argument #1 to 'load' %(string expected, got nil%)")
    assert.error_matches(function() perf.load("x", { evnt = "x" }) end, "unknown option 'evnt'; did you mean 'event'%?")
    local none, _, code = perf.load "/nowhere/profile.json"
    assert.same({ nil, "ENOENT" }, { none, code })
  end)

  it("raises for an event that the file does not have", function()
    local prof = profiles.program()
    util.with_directory(function(dir)
      local path = dir .. "/p.json"
      assert(prof:save(path))
      assert.equal("task-clock", perf.load(path, { event = "task-clock" }).event)
      assert.error_matches(function() perf.load(path, { event = "cycles" }) end,
        "bad argument #2 to 'load' %(option 'event': the file has no event 'cycles'; it has task%-clock%)")
    end)
  end)

  it("gives the reason for a damaged file of its own JSON", function()
    local function refused(t, why)
      util.with_directory(function(dir)
        local path = dir .. "/p.json"
        util.write_file(path, json.encode(t))
        local none, message, code = perf.load(path)
        assert.same({ nil, path .. ": " .. why, "EBADMSG" }, { none, message, code })
      end)
    end
    local frames = { { name = "f" } }
    refused({ frames = frames, samples = { 3 } }, "sample 1 is not a table with a stack")
    refused({ frames = frames, samples = { { stack = { 2 }, weight = 1 } } }, "sample 1 has a frame that does not exist")
    refused({ frames = frames, samples = { { stack = { 1 }, weight = -1 } } }, "weight 1 is not a number of at least 0")
    refused({ frames = { { name = 3 } }, samples = {} }, "frame 0 is malformed")
  end)
end)

-- The story: an Event or a file was closed within its own loop over `each` (on LuaJIT) or over `records` with a limit
-- (elsewhere), or before a tally took its records. The error had a line of this library or none, or the name of a method that the
-- program had not called.
local perf = require "perf"
local rings = require "spec.support.rings"
local message_of = require("spec.support.util").message_of

describe("a ring or file that is closed too early", function()
  before_each(function() requires { perf_open = "user" } end)
  after_each(rings.close_all)

  local function said(want, wrong)
    local message = message_of(wrong)
    assert.matches("closed_in_a_loop_spec.lua:%d+: ", message)
    assert.matches(want, message, 1, true)
    assert.is_nil(message:find("read_record", 1, true), message)
  end

  local function closing(open, loop)
    return function()
      local reader = open()
      for _ in loop(reader) do reader:close() end
    end
  end

  local function faulting()
    local ev = rings.faults()
    rings.touch(ev, 5)
    return ev
  end

  it("by the loop that reads it raises an error", function()
    for _, loop in ipairs {
      function(ev) return ev:each("sample", "addr") end,
      function(ev) return ev:each("sample", "addr", { max = 9 }) end,
      function(ev) return ev:records() end,
      function(ev) return ev:records { timeout = 0.01 } end,
      function(ev) return ev:records { max = 9 } end,
      function(ev) return ev:records { duration = 9 } end,
    } do
      said("(Event is closed)", closing(faulting, loop))
    end
  end)

  it("by the loop over a file raises an error", function()
    local path = os.tmpname()
    local ev = faulting()
    local w = assert(perf.data.create(path, { events = { ev } }))
    for rec in ev:records() do assert(w:write(rec)) end
    assert(w:close())
    local function file() return assert(perf.data.open(path)) end
    said("the perf.data file is closed", closing(file, function(f) return f:records() end))
    said("the perf.data file is closed", closing(file, function(f) return f:each("sample", "addr") end))
    local closed, tally = file(), assert(perf.tally { by = "addr" })
    closed:close()
    said("bad argument #1 to 'take' (the perf.data file is closed)", function() local n = tally:take(closed) return n end)
    tally:close()
    os.remove(path)
  end)

  it("raises an error in a tally", function()
    local tally, ev = assert(perf.tally { by = "addr" }), faulting()
    ev:close()
    said("bad argument #1 to 'take' (Event is closed)", function() local n = tally:take(ev) return n end)
    local group = assert(perf.group { "page-faults:u", "dummy" })
    group:close()
    said("bad argument #1 to 'take' (Event is closed)", function() local n = tally:take(group) return n end)
    tally:close()
    said("'totals' on bad self (Tally is closed)", function() local t = tally:totals() return t end)
    said("'count' on bad self (Tally is closed)", function() local n = tally:count(1) return n end)
    said("(Tally is closed)", function() for _ in tally:each() do error "an empty loop" end end)
    said("'top' on bad self (Tally is closed)", function() local t = tally:top() return t end)
    said("'clear' on bad self (Tally is closed)", function() tally:clear() end)
  end)
end)

-- The story: rec.bytes({}), a Record's method called with another value, was a segmentation fault on LuaJIT: it read the bytes at
-- address 0. And errors of file.records() and tally:take{1} named lines of the library.
local kit = require "testkit"
local perf = require "perf"
local message_of = require("spec.support.util").message_of

local strangers = { false, 12, "text", {}, print, io.stdout }

describe("a Record's method called with something else", function()
  it("is a mistake", function()
    requires { perf_open = true }
    local ev = assert(perf.open { event = "page-faults", sample_period = 1, sample_type = { "ip", "time" } })
    assert(ev:map { pages = 1 })
    ev:enable()
    kit.touch_pages(4)
    ev:disable()
    local rec = assert(ev:read_record())
    ev:close()
    for _, stranger in ipairs(strangers) do
      assert.matches("bad argument #1 to '.*' %(Record expected", message_of(rec.bytes, stranger))
      assert.matches("bad argument #1 to 'totable' (Record expected", message_of(rec.totable, stranger), 1, true)
    end
    assert.equal(rec.size, #rec:bytes())
  end)
end)

describe("a perf.data file's method called with something else", function()
  it("is a mistake", function()
    local path = os.tmpname()
    assert(perf.data.create(path, { events = "dummy" })):close()
    local file = assert(perf.data.open(path))
    for _, method in ipairs { "records", "each", "read_record", "payload", "skipped", "error", "close" } do
      for _, stranger in ipairs(strangers) do
        assert.matches(("bad argument #1 to '%s' (perf.data file expected, got "):format(method),
          message_of(file[method], stranger), 1, true)
      end
    end
    file:close()
    os.remove(path)
  end)
end)

describe("a tally", function()
  it("refuses a value that is not an Event", function()
    local tally = perf.tally { by = "ip" }
    assert.matches("bad argument #1 to 'take' (Event expected at [1], got number)",
      message_of(function() tally:take { 1 } end), 1, true)
    assert.matches("bad argument #1 to 'top' (number expected, got string)", message_of(function() tally:top "x" end), 1, true)
    tally:close()
  end)
end)

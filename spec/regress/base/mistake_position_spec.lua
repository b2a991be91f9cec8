-- The story: errors about files, writers, profilers, profiles and zones named lines of the library or the wrong argument, or were
-- Lua's own ("attempt to index local 'self'"); a closed Profiler started again; the error about a closed perf.data file did not
-- name the method.
local perf = require "perf"
local util = require "spec.support.util"
local check_mistakes, message_of = util.check_mistakes, util.message_of

describe("a mistake", function()
  it("with a perf.data file is raised at the caller's line", function()
    local path = os.tmpname()
    local w = assert(perf.data.create(path, { events = "dummy" }))
    assert(w:close())
    local file = assert(perf.data.open(path))
    file:close()
    local open = assert(perf.data.create(path, { events = "dummy" }))
    check_mistakes {
      ["bad argument #1 to 'write' (Record or string expected, got table)"] = function() local r = open:write {} return r end,
      ["bad argument #1 to 'payload' (string expected, got table)"] = function() local r = open:payload {} return r end,
      ["bad argument #2 to 'create' (cyclse: unknown event"] = function()
        local r = perf.data.create(path, { events = { "cyclse" } }) return r
      end,
      ["bad argument #2 to 'create' (events: a list expected, got number)"] = function()
        local r = perf.data.create(path, { events = 1 }) return r
      end,
      ["bad argument #2 to 'create' (unknown option 'evens'; did you mean 'events'?)"] = function()
        local r = perf.data.create(path, { evens = {} }) return r
      end,
      ["bad argument #1 to 'create' (a path has no zero bytes)"] = function()
        local r = perf.data.create("a\0b", { events = "dummy" }) return r
      end,
      ["bad argument #1 to 'open' (a path has no zero bytes)"] = function() local r = perf.data.open "a\0b" return r end,
      ["calling 'write' on bad self (the perf.data writer is closed)"] = function() local r = w:write "x" return r end,
      ["calling 'records' on bad self (the perf.data file is closed)"] = function() local r = file:records() return r end,
      ["calling 'each' on bad self (the perf.data file is closed)"] = function()
        local r = file:each("sample", "ip") return r
      end,
      ["calling 'read_record' on bad self (the perf.data file is closed)"] = function()
        local r = file:read_record() return r
      end,
    }
    open:close()
    os.remove(path)
  end)

  it("with a profile or a zone is raised at the caller's line", function()
    requires { perf_open = "user" }
    local prof = assert(perf.profile(function() end))
    check_mistakes {
      ["bad argument #1 to 'folded' (a path has no zero bytes)"] = function() local r = prof:folded "a\0b" return r end,
      ["bad argument #1 to 'folded' (Profile expected, got table)"] = function() local r = prof.folded {} return r end,
      ["bad argument #1 to 'top' (Profile expected, got nil)"] = function() local r = prof.top() return r end,
      ["bad argument #2 to 'zone' (function expected, got number)"] = function() local r = perf.zone("x", 1) return r end,
      ["bad argument #1 to 'profiler' (table of options expected, got number)"] = function()
        local r = perf.profiler(1) return r
      end,
    }
  end)

  it("with a Profiler is raised at the caller's line, and a closed one does not start", function()
    requires { perf_open = "user" }
    local p = assert(perf.profiler())
    p:close()
    p:close()
    check_mistakes {
      ["calling 'start' on bad self (Profiler is closed)"] = function() local r = p:start() return r end,
      ["bad argument #1 to 'start' (Profiler expected, got nil)"] = function() local r = p.start() return r end,
    }
    assert.equal("EINVAL", select(3, p:stop()))
  end)

  it("with an argument of hardware_cache names the argument", function()
    assert.matches("#1 to 'hardware_cache' (nil at [1])", message_of(perf.hardware_cache, { nil, "LLC" }), 1, true)
    assert.matches("#2 to 'hardware_cache' (nil at [1])", message_of(perf.hardware_cache, "LLC", {}), 1, true)
  end)
end)

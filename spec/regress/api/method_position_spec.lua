-- The story: mistakes in calls of methods named the wrong argument, a function of the library or one of its lines. On PUC Lua, a
-- method that ended in a tail call had left the stack before the mistake was found, so that the object was counted as an argument
-- (`group:map(true)`: "bad argument #2"), and "no event is mapped" was said of the timeout. Mistakes that the C core found named
-- its own functions ("bad argument #4 to 'frames'") and the library's lines. Some values were not checked at all.
local perf = require "perf"
local check_mistakes = require("spec.support.util").check_mistakes

describe("a mistake in the call of a method", function()
  it("of a Group or Set names the caller's argument", function()
    requires { perf_open = "user" }
    local set = assert(perf.set("page-faults:u", { threads = require "perf.core".pid() }))
    for _, all in ipairs { assert(perf.group { "page-faults:u" }), set } do
      check_mistakes {
        ["bad argument #1 to 'map' (table of options expected, got boolean)"] = function() local r = all:map(true) return r end,
        ["bad argument #1 to 'map' (unknown option 'page'; did you mean 'pages'?)"] = function()
          local r = all:map { page = 1 } return r
        end,
        ["bad argument #2 to 'map' (unknown option 'page'; did you mean 'pages'?)"] = function()
          local r = all.map(all, { page = 1 }) return r
        end,
        ["calling 'poll' on bad self (no event is mapped"] = function() local r = all:poll(0) return r end,
        ["calling 'read_record' on bad self (no event is mapped"] = function() local r = all:read_record(0) return r end,
        ["calling 'has_record' on bad self (no event is mapped"] = function() local r = all:has_record() return r end,
        ["calling 'wake_fd' on bad self (no event is mapped"] = function() local r = all:wake_fd() return r end,
      }
      all:close()
    end
  end)

  it("of a counting profiler names the caller's argument", function()
    requires { perf_open = "user" }
    local profiler = assert(perf.software_profiler { events = "page-faults:u" })
    check_mistakes {
      ["bad argument #1 to 'measure' (function expected, got nil)"] = function() local r = profiler:measure() return r end,
    }
    profiler:close()
  end)

  it("of a profile names the caller's argument", function()
    requires { perf_open = "user" }
    local prof = assert(perf.profile(function() end))
    local difference = prof:diff(prof)
    check_mistakes {
      ["bad argument #1 to 'flamegraph' (string expected, got boolean)"] = function()
        local r = difference:flamegraph(true) return r
      end,
      ["bad argument #2 to 'flamegraph' (option 'diff': Profile expected, got table)"] = function()
        local r = prof:flamegraph(nil, { diff = {} }) return r
      end,
    }
  end)

  it("of a perf.data file names the caller's argument", function()
    local path = os.tmpname()
    local w = assert(perf.data.create(path, { events = "dummy" }))
    assert(w:close())
    local file = assert(perf.data.open(path))
    check_mistakes {
      ["bad argument #1 to 'each' (no record of the kernel has the type 'nosuch')"] = function()
        local r = file:each("nosuch", "ip") return r
      end,
      ["bad argument #2 to 'each' ("] = function() local r = file:each("sample", "nosuch") return r end,
      ["bad argument #1 to 'payload' ("] = function() local r = file:payload(-1) return r end,
      ["calling 'payload' on bad self (the perf.data writer is closed)"] = function() local r = w:payload "x" return r end,
    }
    file:close()
    check_mistakes {
      ["calling 'skipped' on bad self (the perf.data file is closed)"] = function() local r = file:skipped() return r end,
    }
    os.remove(path)
  end)

  it("of a resolver names the caller's argument", function()
    requires { module = "perf.ext.symbols" }
    local resolver = assert(perf.symbols.open { pid = 0 })
    local regs = { ip = 1, sp = 1, bp = 1 }
    check_mistakes {
      ["bad argument #1 to 'open' (option 'path': a path has no zero bytes)"] = function()
        local r = perf.symbols.open { path = "a\0b" } return r
      end,
      ["bad argument #1 to 'resolve' (integer expected, got nil)"] = function() local r = resolver:resolve(nil) return r end,
      ["bad argument #1 to 'resolve' (address expected, got number)"] = function() local r = resolver:resolve(1.5) return r end,
      ["bad argument #1 to 'unwind' (register '"] = function()
        local r = resolver:unwind { regs = { abi = 2 }, stack = "", machine = "x86_64" } return r
      end,
      ["bad argument #1 to 'unwind' (option 'max': positive integer"] = function()
        local r = resolver:unwind { regs = regs, stack = "", max = 0 } return r
      end,
    }
    resolver:close()
    check_mistakes {
      ["calling 'modules' on bad self (Resolver is closed)"] = function() local r = resolver:modules() return r end,
      ["calling 'refresh' on bad self (Resolver is closed)"] = function() local r = resolver:refresh() return r end,
    }
  end)

  it("of a tracer names the method", function()
    local tracer = assert(perf.tracer { exporter = false, events = false })
    check_mistakes {
      ["bad argument #1 to 'span' (string expected, got nil)"] = function()
        local r = tracer:span(nil, function() end) return r
      end,
      ["bad argument #2 to 'span' (unknown option 'kin'; did you mean 'kind'?)"] = function()
        local r = tracer:span("x", { kin = 1 }, function() end) return r
      end,
    }
  end)

  it("refuses a process id that no integer holds, and a path with a zero byte", function()
    check_mistakes {
      ["bad argument #2 to 'record' (option 'output': a path has no zero bytes)"] = function()
        local r = perf.record({ "true" }, { output = "a\0b" }) return r
      end,
      ["bad argument #2 to 'set' (option 'threads': "] = function()
        local r = perf.set("page-faults:u", { threads = math.huge }) return r
      end,
    }
  end)
end)

-- The story: perf:measure(fn) said "unknown attr field 'zone'", a field of perf itself, instead of naming the colon. Other
-- messages of mistakes hid what to write: 2^40 pages were "not a power of two", and perf.list "[" named no function on PUC Lua.
local perf = require "perf"
local message_of = require("spec.support.util").message_of

describe("a function of perf that is called with a colon", function()
  it("says so", function()
    local function nothing() end
    for name, call in pairs {
      measure = function() perf:measure(nothing) end,
      profile = function() perf:profile(nothing) end,
      profiler = function() perf:profiler() end,
      open = function() perf:open "page-faults" end,
    } do
      assert.matches((": call perf.%s with '.', not ':'"):format(name), message_of(call), 1, true)
    end
  end)
end)

describe("a mistake in an argument", function()
  it("has the range of a number of pages", function()
    requires { perf_open = "user" }
    local ev = assert(perf.open "dummy:u")
    local expected = "option 'pages': a power of two, at most 2147483648, expected"
    assert.matches(expected, message_of(ev.map, ev, { pages = 2 ^ 40 }), 1, true)
    assert.matches("option 'pages': a power of two expected", message_of(ev.map, ev, { pages = 3 }), 1, true)
    ev:close()
  end)

  it("has the function's name for an invalid pattern", function()
    assert.matches("bad argument #1 to 'list' ('[': malformed pattern", message_of(perf.list, "["), 1, true)
  end)

  it("suggests the option of other libraries' name", function()
    for _, name in ipairs { "runs", "rounds" } do
      assert.matches(("unknown option '%s'; did you mean 'repeats'?"):format(name),
        message_of(perf.bench, function() end, { [name] = 3 }), 1, true)
    end
    assert.matches("unknown option 'retprobe'; did you mean 'ret'?", message_of(perf.kprobe, { func = "x", retprobe = true }),
      1, true)
  end)
end)

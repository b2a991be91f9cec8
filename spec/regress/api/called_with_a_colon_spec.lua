-- The story: perf:measure(fn) said "unknown attr field 'zone'", a field of perf itself, and nothing of the colon. On Lua 5.1 and
-- LuaJIT, errors of functions that pcall called had no name ("bad argument #1 to '?'"): names were searched only in the class of
-- the first argument. Other errors did not help: 2^40 pages were "not a power of two", and that of perf.list "[" had no name on
-- PUC Lua. A function of a module was called perf.NAME, not perf.MODULE.NAME.
local perf = require "perf"
local message_of = require("spec.support.util").message_of

describe("a function of perf that is called with a colon", function()
  it("says so, or which type it expects, and never names a field of perf", function()
    local said = 0
    for _, group in ipairs(require "perf.api") do
      for _, row in ipairs(group) do
        local name, module = row[1], group.name and perf[group.name] or perf
        local ok, message = true, nil
        if name ~= "help" then ok, message = pcall(module[name], perf) end
        if not ok then
          said = said + 1
          local call = ("call perf.%s with '.', not ':'"):format(group.name and group.name .. "." .. name or name)
          local is_named = message:find(call, 1, true) or message:find("'" .. name .. "' (", 1, true)
          assert.is_truthy(is_named, message)
          for key in pairs(perf) do assert.not_matches(("'%s'"):format(key), message:gsub("'" .. name .. "'", ""), 1, true) end
        end
      end
    end
    assert.is_true(said > 40)
    assert.matches(": call perf.attr with '.', not ':'", message_of(function() perf:attr "dummy" end), 1, true)
  end)

  it("is named even if pcall calls it, and so are methods without their object", function()
    assert.matches("bad argument #1 to 'wake' ", message_of(perf.wake, {}))
    assert.matches("bad argument #1 to 'hex' (integer expected", message_of(perf.hex, {}), 1, true)
    requires { perf_open = "user" }
    local ev = assert(perf.open "dummy:u")
    for _, row in ipairs { "lost", "poll", "refresh", "set_bpf", "has_record", "fd", "id", "modify" } do
      local text = message_of(ev[row], perf)
      assert.matches("to '" .. row .. "' (Event expected, got ", text, 1, true)
    end
    assert.matches("bad argument #2 to 'modify' (event name or table expected, got the module perf)",
      message_of(ev.modify, ev, perf), 1, true)
    assert.matches("bad argument #2 to 'modify' (x: unknown event)", message_of(ev.modify, ev, "x"), 1, true)
    ev:close()
  end)
end)

describe("a module of perf", function()
  it("prints the names of its functions, before and after its first use", function()
    assert.equal("perf.data: open, create", tostring(perf.data))
    assert.is_function(perf.data.open)
    assert.equal("perf.data: open, create", tostring(perf.data))
    assert.equal("perf.exporter: otlp, zipkin", tostring(perf.exporter))
    assert.is_function(perf.exporter.otlp)
    assert.equal("perf.exporter: otlp, zipkin", tostring(perf.exporter))
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

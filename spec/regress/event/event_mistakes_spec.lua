-- The story: messages of methods with a Lua layer over C named lines of the library, counted arguments differently from the
-- others ("event.lua:27: bad argument #2 to 'map'"), or were Lua's own ("attempt to index local 'self'"); ev:measure(nil) enabled
-- the event before it failed; ev:modify(perf.breakpoint{...}) was EINVAL, since it lacked the fields that perf.open had added;
-- sample_type = {ip = true} requested nothing; refresh, set_period and modify failed without a hint. On Lua 5.1 and LuaJIT a
-- function that pcall or a REPL's `return` calls in tail position had no name: "bad argument #2 to '?'".
local perf = require "perf"
local message_of = require("spec.support.util").message_of

describe("a mistake with an Event", function()
  local ev
  before_each(function()
    requires { perf_open = true }
    ev = assert(perf.open "dummy")
  end)
  after_each(function() if ev then ev:close() end end)

  it("is raised at the line that makes it, with the argument's number as Lua counts it", function()
    for want, wrong in pairs {
      ["bad argument #1 to 'map' (unknown option 'page'; did you mean 'pages'?)"] = function() ev:map { page = 1 } end,
      ["bad argument #1 to 'set_filter' (string expected"] = function() ev:set_filter {} end,
      ["bad argument #1 to 'modify' (unknown attr field 'frob')"] = function() ev:modify { frob = 1 } end,
      ["bad argument #1 to 'modify' (unknown attr field 'bp_adr'; did you mean 'bp_addr'?)"] =
        function() ev:modify { bp_adr = 1 } end,
      ["bad argument #1 to 'measure' (function expected, got number)"] = function() ev:measure(12) end,
      ["bad argument #1 to 'read' (Event expected, got nil)"] = function() local r = ev.read() return r end,
      ["bad argument #1 to 'label' (Event expected, got table)"] = function() local r = ev.label {} return r end,
      ["calling 'records' on bad self (Event is not mapped"] = function() ev:records() end,
      ["bad argument #2 to 'open' (option 'group': Event expected, got userdata)"] = function()
        local r = perf.open("dummy", { group = io.stdout }) return r
      end,
      ["bad argument #2 to 'open' (option 'cgroup': path or descriptor expected, got boolean)"] = function()
        local r = perf.open("dummy", { cgroup = true, cpu = 0 }) return r
      end,
    } do
      local message = message_of(wrong)
      assert.matches("event_mistakes_spec.lua:%d+: ", message)
      assert.matches(want, message, 1, true)
    end
    assert.matches("bad argument #2 to 'map' (unknown option 'foo')", message_of(ev.map, ev, { foo = 1 }), 1, true)
  end)

  it("gets the nearest name for an option, in C too", function()
    assert(ev:map { pages = 1 })
    for want, wrong in pairs {
      ["argument #1 to 'records' (unknown option 'tmieout'; did you mean 'timeout'?)"] =
        function() ev:records { tmieout = 1 } end,
      ["argument #1 to 'records' (option 'max': a number of records expected, got 0.5)"] =
        function() ev:records { max = 0.5 } end,
      ["argument #3 to 'each' (unknown option 'durtion'; did you mean 'duration'?)"] =
        function() ev:each("sample", "ip", { durtion = 1 }) end,
      ["argument #3 to 'each' (option 'duration': seconds expected, got -1)"] =
        function() ev:each("sample", "ip", { duration = -1 }) end,
    } do
      local message = message_of(wrong)
      assert.matches("event_mistakes_spec.lua:%d+: ", message)
      assert.matches(want, message, 1, true)
    end
  end)

  it("has the method's name even if pcall or a tail call hides it", function()
    for method, wrong in pairs { refresh = "x", set_period = {}, set_bpf = "x", set_output = 7 } do
      assert.matches("bad argument #2 to '" .. method .. "' ", message_of(ev[method], ev, wrong))
      assert.matches("bad argument #%d to '" .. method .. "' ", message_of(function() return ev[method](ev, wrong) end))
    end
    local closed = assert(perf.open "dummy")
    closed:close()
    for _, method in ipairs { "enable", "disable", "reset", "id", "fd", "refresh" } do
      assert.matches("'" .. method .. "' (Event is closed)", message_of(closed[method], closed, 1), 1, true)
    end
  end)

  it("leaves the event disabled when there is no function to measure", function()
    message_of(ev.measure, ev)
    assert.equal(0, ev:read().enabled_ns)
  end)

  it("names a closed event, before and within a measurement", function()
    for _, attr in ipairs { { event = "dummy" }, { event = "dummy", read_format = {} } } do
      local own = assert(perf.open(attr))
      assert.matches("Event is closed", message_of(own.measure, own, function() own:close() end))
      for _, method in ipairs { "measure", "read", "map", "set_filter", "modify", "records", "enable" } do
        assert.matches("Event is closed", message_of(own[method], own, print))
      end
      assert.matches("option 'group': the Event is closed", message_of(perf.open, "dummy", { group = own }))
    end
  end)

  it("may be a list of names with other keys or with holes", function()
    local function asks(names) return message_of(perf.open, { event = "dummy", sample_type = names }) end
    assert.matches("field 'sample_type': array of names expected, got the key 'ip'", asks { ip = true })
    assert.matches("field 'sample_type': array of names expected, got the key 'cpu'", asks { "ip", cpu = true })
    assert.matches("field 'sample_type': n.- at %[2%]", asks { "ip", nil, "tid" })
  end)

  it("that only the kernel notices gets a hint", function()
    for method, want in pairs {
      refresh = "refresh: Invalid argument %(it needs a count of at least 1",
      set_period = "set_period: Invalid argument %(it needs a period",
      modify = "modify: Operation not supported %(the kernel modifies only breakpoints",
    } do
      local ok, message = ev[method](ev, method == "modify" and "dummy" or 1)
      assert.is_nil(ok)
      assert.matches(want, message)
    end
  end)
end)

describe("Event:modify", function()
  it("accepts the same as perf.open, and keeps the fields that are not given", function()
    requires { perf_open = true }
    requires { breakpoint = true }
    local ev = assert(perf.open(perf.breakpoint { addr = 0x1000, len = 8, access = "w" }))
    for i, attr in ipairs { perf.breakpoint { addr = 0x2000, len = 8, access = "w" }, "mem:0x3000/8:w",
      { event = "mem:0x4000/8:w" }, { bp_addr = 0x5000 } } do
      assert.is_true(ev:modify(attr))
      assert.equal(0x1000 * (i + 1), ev:attr().bp_addr)
    end
    local ok, message, code = ev:modify { sample_period = 3 }
    assert.is_nil(ok)
    assert.matches("modify: Invalid argument %(only the bp_ fields", message)
    assert.equal("EINVAL", code)
    assert.is_nil(ev:attr().sample_period)
    ev:close()
  end)
end)

describe("Event:set_output", function()
  it("with nil changes nothing for an event that has its own ring", function()
    requires { perf_open = "user" }
    local ev = assert(perf.open { event = "dummy", sample_period = 1 })
    assert(ev:map { pages = 1 })
    assert.is_true(ev:set_output(nil))
    ev:close()
  end)
end)

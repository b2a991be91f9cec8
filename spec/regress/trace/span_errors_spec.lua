-- The story: tracer:span raised another error than the function's: nil when memory ran out, since the VM calls no message handler
-- then; a new error when __tostring raised or __metatable hid the metatable; and on Lua 5.1 the span stayed the current one, so
-- that later spans were its children.
local perf = require "perf"
local util = require "spec.support.util"

local function tracer()
  local list = {}
  return assert(perf.tracer { events = false, exporter = function(batch)
    for _, s in ipairs(batch) do list[s.name] = s end
  end }), list
end

describe("an error in tracer:span", function()
  it("passes through unchanged whatever its metamethods do", function()
    local t, list = tracer()
    local objects = {
      silent = setmetatable({}, { __tostring = function() error "boom" end }),
      wordless = setmetatable({}, { __tostring = function() return nil end }),
      hidden = setmetatable({}, { __metatable = true }),
      numbered = setmetatable({}, { __metatable = 7 }),
      odd = setmetatable({}, { __name = 5 }),
      proud = setmetatable({}, { __name = "Proud" }),
    }
    for _, name in ipairs { "silent", "wordless", "hidden", "numbered", "odd", "proud" } do
      local ok, err = pcall(t.span, t, name, function() error(objects[name]) end)
      assert.is_false(ok)
      assert.is_true(rawequal(err, objects[name]), name)
      assert.is_nil(t:current())
    end
    assert.is_nil(t:start "later".parent_id)
    t:flush()
    for name in pairs(objects) do
      assert.equal("error", list[name].status, name)
      assert.equal(name == "proud" and "Proud" or "table", list[name].events[1].attributes["exception.type"])
    end
    assert.equal("an error that is a table and has no text", list.silent.message)
  end)

  it("may come from a yield outside a coroutine", function()
    local t, list = tracer()
    local ok, err = pcall(t.span, t, "x", coroutine.yield)
    assert.is_false(ok)
    assert.matches("attempt to yield", err)
    assert.is_nil(t:current())
    assert.is_nil(t:start "later".parent_id)
    coroutine.wrap(function() -- Lua 5.1 cannot pass it on through the pcall
      pcall(t.span, t, "y", coroutine.yield)
      assert.is_nil(t:current())
    end)()
    t:flush()
    assert.equal("error", list.x.status)
  end)

  it("may be \"not enough memory\"", function()
    requires { nosan = true }
    local code = [[
      local t = require "perf".tracer {events = false, exporter = function(list) s = list[1] end}
      local ok, err = pcall(t.span, t, "x", function()
        local list, large = {}, ("x"):rep(1e6)
        for i = 1, 1e9 do list[i] = large .. i end
      end)
      collectgarbage()
      t:flush()
      print(ok, err, s and s.status, (t:current()))]]
    local output = util.shell(("ulimit -v 100000; %s -e '%s'"):format(util.lua(), code))
    assert.matches("^false\t.*not enough memory\terror\tnil", output)
  end)
end)

-- The story: a method that was called with a dot, `tracer.close()`, raised "attempt to index local 'self'" at a line of the
-- library; and one that was called in tail position raised an error without its name.
local perf = require "perf"

local function nothing() end

describe("a method", function()
  local objects = {}

  setup(function()
    objects.Tracer = perf.tracer { events = false, exporter = false }
    objects.Pool = perf.pool { size = 1, events = false }
    objects.Job = objects.Pool:submit(nothing)
    objects.Tally, objects.Zone = perf.tally { by = "ip" }, perf.zone "x"
  end)
  teardown(function()
    for _, name in ipairs { "Zone", "Tally", "Pool", "Tracer" } do objects[name]:close() end
  end)

  it("names itself and the argument if it is called without its object", function()
    local methods = { Tracer = "current extract inject poll flush close stats prometheus", Pool = "submit stats close",
      Job = "get wait counts cancel", Tally = "take count each top totals clear close", Zone = "close" }
    for class, names in pairs(methods) do
      for name in names:gmatch "%S+" do
        for _, value in ipairs { false, {} } do
          local ok, message = pcall(function() objects[class][name](value or nil) end)
          assert.is_false(ok)
          assert.matches(("bad argument #1 to '%s' %%(%s expected, got %%l+%%)$"):format(name, class), message)
          assert.matches("method_object_spec%.lua:%d+: ", message)
        end
      end
    end
  end)

  it("names itself if it is called in tail position", function()
    assert.error_matches(function() return objects.Tracer:close "x" end, "to 'close' %(number of seconds expected, got string%)")
    assert.error_matches(function() return objects.Tally:count {} end, "to 'count' %(number expected%)")
  end)
end)

-- The story: counts["page-faults"] of "page-faults:u,page-faults:k" was nil on Lua 5.1 and false elsewhere. And of
-- "page-faults:u,page-faults:k,page-faults" it was nil on Lua 5.1, although one label is exactly that: the look-up gave up at the
-- second label that could match. Methods called with a dot, and arithmetic on other values, raised errors at lines of the
-- library.
local perf = require "perf"

describe("a label without its modifier", function()
  before_each(function() requires { perf_open = true } end)

  it("is nil if several entries match", function()
    for _, events in ipairs { "page-faults:u,page-faults:k", "page-faults:k,page-faults:u,page-faults:uk,dummy" } do
      local c = perf.measure(events, function() end)
      for _, counts in ipairs { c, c + c } do
        assert.is_nil(counts["page-faults"])
        assert.equal("nil", type(counts["page-faults"]))
        assert.equal(counts[1].value, counts[counts[1].label])
      end
    end
  end)

  it("finds the event that has exactly this label, at any place in the list", function()
    for _, events in ipairs { "dummy:u,dummy:k,dummy", "dummy,dummy:u,dummy:k", "dummy:u,dummy,dummy:k" } do
      local c = perf.measure(events, function() end)
      assert.equal(0, c.dummy)
      assert.equal(0, (c + c).dummy)
    end
  end)
end)

describe("mistakes with Counts", function()
  it("are raised at the line that makes them", function()
    requires { perf_open = "user" }
    local c = perf.measure("dummy", function() end)
    for want, wrong in pairs {
      ["bad argument to '+' (Counts expected, got number)"] = function() return 1 + c end,
      ["bad argument to '-' (Counts expected, got string)"] = function() return c - "x" end,
      ["bad argument to '/' (number expected, got string)"] = function() return c / "2" end,
      ["bad argument #1 to 'metrics' (Counts expected, got nil)"] = function() return c.metrics() end,
      ["bad argument #1 to 'totable' (Counts expected, got table)"] = function() return c.totable {} end,
      ["bad argument #1 to 'json' (Counts expected, got number)"] = function() return c.json(12) end,
    } do
      local ok, message = pcall(function() local r = wrong() return r end)
      assert.is_false(ok)
      assert.matches("ambiguous_label_spec.lua:%d+: ", message)
      assert.matches(want, message, 1, true)
    end
  end)
end)

local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

-- Measures in a new state, with everything open at once, and returns what it found.
local code = [[
  local kit, perf = require "testkit", require "perf"
  local g = assert(perf.group { "page-faults", "task-clock" })
  local function both()
    local c = perf.measure("page-faults", kit.touch_pages, 5)
    local d = g:measure(kit.touch_pages, 7)
    return c["page-faults"] .. " " .. d["page-faults"]
  end
  both() -- opens, and grows the heap of this state
  local got = require "spec.support.util".settled(both)
  perf.open "dummy" -- never closed: closing the state closes it
  return got
]]

describe("two Lua states in one process", function()
  for _, threaded in ipairs { false, true } do
    it("measure side by side" .. (threaded and ", each on its thread" or ""), function()
      requires { perf_open = true }
      local c = perf.measure("page-faults", function()
        for _ = 1, 3 do
          local ok, text = kit.state(code, threaded)
          assert.is_true(ok, text)
          assert.equal("5 7", text)
        end
      end)
      -- page faults of another thread are not counted here
      if not threaded then assert.is_true(c["page-faults"] >= 3 * 12) end
      util.exactly(9, function() return perf.measure("page-faults", kit.touch_pages, 9)["page-faults"] end)
    end)
  end

  it("set no globals", function()
    local ok, text = kit.state [[
      local before = {}
      for k in pairs(_G) do before[k] = true end
      local perf = require "perf"
      perf.measure(function() end)
      assert(#perf.list "fault" > 0)
      tostring(perf.doctor())
      for k in pairs(_G) do
        if not before[k] and k ~= "jit" and k ~= "bit" then return k end
      end
      return "none"
    ]]
    assert.is_true(ok, text)
    assert.equal("none", text)
  end)
end)

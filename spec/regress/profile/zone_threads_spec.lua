-- The story: a zone belonged to the process. The zone of a pool's thread labelled the samples of the main thread, with the name
-- that had the same number in the main thread's Lua state.
local kit = require "testkit"
local core = require "perf.core"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local function labels(prof)
  local sums = {}
  for _, s in ipairs(prof:samples()) do
    local zone = s.zone or "none"
    sums[zone] = (sums[zone] or 0) + s.weight
  end
  return sums
end

describe("a zone", function()
  it("of a pool's thread labels no sample of another thread", function()
    requires { perf_open = "user" }
    perf.zone("here", function() end)
    local pool = assert(perf.pool { size = 1 })
    local entered = assert(pool:submit(function() -- it stays in the zone
      local zones = require "perf"
      for i = 1, 8 do zones.zone("there " .. i) end
      return true
    end))
    assert(entered:wait(60))
    assert.equal(0, core.set_zone(0))
    local prof = perf.profile({ event = "page-faults" }, function()
      kit.touch_pages(100)
      perf.zone("here", kit.touch_pages, 50)
    end)
    pool:close()
    local sums = labels(prof)
    assert.is_true(sums.here >= 50 and sums.here < 90, profiling.text(prof))
    assert.is_true(sums.none >= 100, profiling.text(prof))
    for zone in pairs(sums) do assert.is_true(zone == "here" or zone == "none", zone) end
  end)

  it("of another Lua state of the thread has no name here", function()
    requires { perf_open = "user" }
    assert.is_true(core.new_zone() ~= core.new_zone())
    local before = core.set_zone(core.new_zone())
    local prof = perf.profile({ event = "page-faults" }, kit.touch_pages, 100)
    core.set_zone(before)
    assert.is_nil(labels(prof).here)
    assert.is_true(labels(prof).none >= 100, profiling.text(prof))
  end)
end)

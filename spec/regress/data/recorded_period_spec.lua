-- The story: luaperf record -c 10 -e page-faults recorded every page fault, and its report showed "of every 10": the kernel makes
-- a sample of each software event, tracepoint or probe that samples "period", which perf.record always requested. Twice: the
-- kernel makes the samples.
local perf = require "perf"
local load = require("perf.profile.load").all
local util = require "spec.support.util"

local function record(path, period)
  local touch = { util.lua(), "-e", "require 'testkit'.touch_pages(2000)" }
  return assert(perf.record(touch, { output = path, events = "page-faults:u", period = period })).samples
end

it("perf.record takes one sample for each period of a software event", function()
  requires { perf_open = "user" }
  util.with_directory(function(dir)
    local all, some = record(dir .. "/1.data", 1), record(dir .. "/10.data", 10)
    assert.is_true(all >= 2000, all)
    -- The start of the interpreter has not the same number of faults each time.
    assert.is_true(math.abs(10 * some - all) <= 0.1 * all, ("%d samples, %d of every 10"):format(all, some))
    assert.equal(all, load(dir .. "/1.data")[1].total)
    assert.equal(10 * some, load(dir .. "/10.data")[1].total)
  end)
end)

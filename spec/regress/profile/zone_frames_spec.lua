-- The story: a function that ran in a zone was shown under "zone.lua:60 M.zone" and pcall. The profiler hides the frames of that
-- file, but derived its name from that of its own file, which was renamed.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

it("a profile has no frames of perf.profile and perf.zone", function()
  requires { perf_open = "user" }
  local prof = assert(perf.profile({ event = "page-faults:u" }, function()
    perf.zone("inner", function() kit.touch_pages(50) end)
    kit.touch_pages(50)
  end))
  local text = profiling.text(prof)
  assert.is_true(prof.total >= 100, text)
  for _, s in ipairs(prof:samples()) do
    for _, frame in ipairs(s.stack) do
      assert.is_nil((frame.file or ""):find("perf/profile/", 1, true), text)
      assert.are_not.equal("pcall", frame.name, text)
    end
  end
end)

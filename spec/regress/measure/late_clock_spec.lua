-- The story: perf.measure("page-faults,task-clock", fn) showed 0 ns of task-clock for a function that used two milliseconds,
-- while "task-clock,page-faults" was right, and so was a group made by perf.group.
--
-- perf.measure opened its groups running: the leader counted from its opening, and the siblings joined it. Since the kernel keeps
-- a list of scheduled events for each PMU (6.2 and later), an event that joins a running group is scheduled by rescheduling only
-- its own PMU. A task-clock whose leader belongs to another software PMU is no leader there, so nothing schedules it until the
-- task is switched out and in again, and it reads 0 until then. Now a leader is enabled when its group is complete.
--
-- The same happened to a group that was disabled and enabled again with PERF_IOC_FLAG_GROUP: the kernel enables the leader first
-- and the others after it, one by one, which again is joining a running group. Now disabling stops only the leader, and enabling
-- begins with the others.
local kit = require "testkit"
local perf = require "perf"

describe("a clock that joins a group of another software PMU", function()
  it("counts in the first measurement", function()
    requires { perf_open = true }
    for _, list in ipairs { "page-faults,task-clock", "dummy,cpu-clock,task-clock", "context-switches,cpu-clock" } do
      local c = perf.measure(list, kit.spin, 2e6)
      for _, e in ipairs(c) do
        if e.unit == "ns" then assert.is_true(e.value >= 1e6, list .. ": " .. e.label .. " is " .. e.value) end
      end
    end
  end)

  it("counts again after its group was disabled and enabled", function()
    requires { perf_open = true }
    local g = assert(perf.group "task-clock,page-faults,cpu-clock")
    for _ = 1, 4 do
      g:enable()
      local before = g:read()
      kit.touch_pages(64)
      local after = g:read()
      assert.is_true(after["page-faults"] - before["page-faults"] >= 64)
      assert.is_true(after["cpu-clock"] > before["cpu-clock"])
      g:disable()
    end
    g:close()
  end)
end)

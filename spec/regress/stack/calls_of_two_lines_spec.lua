-- The story: in a compiled loop, a C function was shown on the line of an earlier call. In `s = s + #tostring(s)` and, on the
-- next line, `C.getppid()`, 942 of 1,000 system calls were on the first line, as if that were exact. No code can exit between
-- the two lines, so one snapshot stands for both. Only a mark before the first line was looked at, not the one between them.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

-- The body of a loop from line 3 on, and how many page faults each line has in an iteration.
local SHAPES = {
  { "after a call", "s = s + #tostring(s)\nFAULT", { [4] = 1 } },
  { "before a call", "FAULT\ns = s + #tostring(s)", { [3] = 1 } },
  { "between two calls", "s = s + #tostring(s)\nFAULT\ns = s + #tostring(s)", { [4] = 1 } },
  { "around a call", "FAULT\ns = s + #tostring(s)\nFAULT", { [3] = 1, [5] = 1 } },
  { "on the line of a call", "s = s + #tostring(s)\ns = s + #tostring(s) FAULT\ns = s + #tostring(s)", { [4] = 1 } },
}

describe("a C function that a compiled loop calls is on its line", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  for _, shape in ipairs(SHAPES) do
    local title, body, faults = shape[1], shape[2], shape[3]

    it(title, function()
      local head = "return function(n) local tostring, s = tostring, 0 for i = 1, n do\n\n"
      local run = page_fault.program(head .. body .. "\nend end")
      local prof = page_fault.profile(run, 1000)
      local got = page_fault.by_line(prof)
      for line, n in pairs(faults) do
        assert.is_true((got[line] or 0) >= n * 1000, ("%d: %s\n%s"):format(line, tostring(got[line]), profiling.text(prof)))
      end
    end)
  end
end)

-- The story: in code from before the profiler's start, a C function that an unrolled loop called again was shown on another line
-- of the loop, as if that were exact. The compiler drops the exits of a loop whose number of iterations it knows, so the code
-- between two snapshots ran to the loop's end, again from its start, and out of it. Only the lines up to the end counted.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

-- The body of a loop, from line 4 on, and how many page faults each line has in an iteration.
local SHAPES = {
  { "calls on two lines", "for j = 1, 2 do\nFAULT\ns = math.sin(s) * 1000\nend", { [5] = 2 } },
  { "calls on three lines", "for j = 1, 3 do\ns = math.sin(s) * 1000\nFAULT\ns = math.sin(s) * 1000\nend", { [6] = 3 } },
  { "a function", "s = Q(s)\ns = math.sin(s) * 1000", { [2] = 2 },
    "local function Q(s) for j = 1, 2 do\nFAULT\ns = math.sin(s) * 1000 end return s end" },
}

describe("C functions that an unrolled loop calls are not on another line", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  for _, shape in ipairs(SHAPES) do
    local title, body, faults, functions = shape[1], shape[2], shape[3], shape[4] or "\n"

    it(title, function()
      local head = "local math = math " .. functions .. " return function(n)\nlocal s = 1 for i = 1, n do\n"
      local run = page_fault.program(head .. body .. "\nend end")
      run(1000)
      local prof = page_fault.profile(run, 1000)
      local got = {}
      for _, s in ipairs(prof:samples()) do
        for _, frame in ipairs(s.stack) do
          if frame.line and page_fault.in_program(frame) then
            if not frame.lastline then got[frame.line] = (got[frame.line] or 0) + tonumber(s.weight) end
            break
          end
        end
      end
      for line, n in pairs(got) do -- the rest are faults of the compiler and of the heap
        assert.is_true(n <= (faults[line] or 0) * 1000 + 50, ("%d: %d\n%s"):format(line, n, profiling.text(prof)))
      end
    end)
  end
end)

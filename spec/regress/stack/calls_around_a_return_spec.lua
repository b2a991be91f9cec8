-- The story: in code from before the profiler's start, a C function that was called after a compiled function had returned was
-- shown in that function, on the line of its own last call, as if that were exact. One snapshot stands for both calls,
-- since no code can exit between them. Now the caller is shown, with a range that has both lines.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

-- The functions from line 2 on, the body of the loop after them, and how many page faults each line has in an iteration.
local Q = "local function Q(s) local q = { s } s = q[1]\ns = s + #(tostring(s) .. 'x') FAULT FAULT\nreturn s end\n"
local SHAPES = {
  { "a return", Q, "s = Q(s)\nFAULT\ns = math.sin(s) * 1000", { [3] = 2, [7] = 1 } },
  -- R has two lines: if it is compiled before the loop, it is the caller that is shown.
  { "two returns", Q .. "local function R(s) s = Q(s)\nFAULT return s end ", "s = R(s)\nFAULT\ns = math.sin(s) * 1000",
    { [3] = 2, [6] = 1, [8] = 1 } },
  { "a return, and then a call", Q, "s = Q(s)\ns = Q(s)\ns = math.sin(s) * 1000", { [3] = 4 } },
}

describe("C functions that compiled code calls are not on another line around", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  for _, shape in ipairs(SHAPES) do
    local title, functions, body, faults = shape[1], shape[2], shape[3], shape[4]

    it(title, function()
      local head = "return function(n) local s = 1 for i = 1, n do\n"
      local run = page_fault.program("local math, tostring = math, tostring\n" .. functions .. head .. body .. "\nend end")
      run(1000)
      local prof = page_fault.profile(run, 1000)
      local got = page_fault.by_line(prof)
      for line, n in pairs(got) do -- the rest are faults of the compiler and of the heap
        assert.is_true(n <= (faults[line] or 0) * 1000 + 50, ("%d: %d\n%s"):format(line, n, profiling.text(prof)))
      end
    end)
  end
end)

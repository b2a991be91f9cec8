-- The story: in code from before the profiler's start, what the metamethod of an operator called was shown on another line, or in
-- another function, as if that were exact. The compiler puts a metamethod into the code as it does with other functions, but an
-- operator was taken for an instruction that calls nothing. The operators of numbers still are.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

local HEAD = [[
local function call(x)
x = 1
FAULT return true
end
local m = { __unm = call, __add = call, __eq = call } local O, P = setmetatable({}, m), setmetatable({}, m)
return function(n) local s = 1

for i = 1, n do
]]

-- The body of a loop, from line 9 on, and how many page faults each line of the program and what it calls have in an iteration.
-- What an operator calls may be shown on its line.
local SHAPES = {
  { "the minus", "FAULT local _ = -O\nFAULT\nlocal _ = -O", { [3] = 2, [9] = 2, [10] = 1, [11] = 1 } },
  { "the addition", "FAULT local _ = O + 1\nFAULT\nlocal _ = O + 1", { [3] = 2, [9] = 2, [10] = 1, [11] = 1 } },
  { "the comparison", "FAULT local _ = O == P\nFAULT\nlocal _ = O == P", { [3] = 2, [9] = 2, [10] = 1, [11] = 1 } },
}

describe("what a metamethod calls is not on another line:", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  local function profile(body)
    local run = page_fault.program(HEAD .. body .. "\nend end")
    run(1000)
    local prof = page_fault.profile(run, 1000)
    return page_fault.by_line(prof), profiling.text(prof)
  end

  for _, shape in ipairs(SHAPES) do
    it(shape[1], function()
      local got, text = profile(shape[2])
      for line, n in pairs(got) do -- the rest are faults of the compiler and of the heap
        assert.is_true(n <= (shape[3][line] or 0) * 1000 + 50, ("%d: %d\n%s"):format(line, n, text))
      end
    end)
  end

  it("numbers have none", function()
    local got, text = profile("s = s + 1 s = -s\nFAULT\ns = s * 0.5 - 1")
    assert.is_true((got[10] or 0) >= 950, text)
  end)
end)

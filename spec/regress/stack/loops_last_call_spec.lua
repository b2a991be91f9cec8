-- The story: the call at the end of a compiled loop's body was shown in another function, on another line, as if that were
-- exact. In `for i = 1, n do P() s = s + C.getppid() end`, 1,976 of 2,000 calls of getppid were shown in P. The compiler copies
-- the recorded body to make the loop, and drops the copies of those snapshots after which no code can exit.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

-- The body of a function with the parameter n, from line 3 on, and how many page faults each stack has for each unit of n. A
-- stack is given by the lines of its frames, from the innermost one. P() and FAULT have one fault.
local SHAPES = {
  { "two calls", "for i = 1, n do\nP()\nP()\nend", { ["1 4"] = 1, ["1 5"] = 1 } },
  { "three calls on one line", "for i = 1, n do\nP() P() P()\nend", { ["1 4"] = 3 } },
  { "C calls", "for i = 1, n do\nFAULT\nFAULT\nend", { ["4"] = 1, ["5"] = 1 } },
  { "a call, then a C call", "for i = 1, n do\nP()\nFAULT\nend", { ["1 4"] = 1, ["5"] = 1 } },
  { "a C call, then a call", "for i = 1, n do\nFAULT\nP()\nend", { ["4"] = 1, ["1 5"] = 1 } },
  { "a call, then a sum", "local s = 0 for i = 1, n do\nP()\nP()\ns = s + i\nend", { ["1 4"] = 1, ["1 5"] = 1 } },
  { "a call, then a store", "local t = {} for i = 1, n do\nP()\nP()\nt[i % 10] = i\nend", { ["1 4"] = 1, ["1 5"] = 1 } },
  { "a function that calls another", "local function Q() P() end\nfor i = 1, n do\nlocal a = i\nQ()\nQ()\nend",
    { ["1 3 6"] = 1, ["1 3 7"] = 1 } },
  { "a function of two lines", "local function Q() P()\nP() end\nfor i = 1, n do\nQ()\nQ()\nend",
    { ["1 3 6"] = 1, ["1 4 6"] = 1, ["1 3 7"] = 1, ["1 4 7"] = 1 } },
  { "branches", "for i = 1, n do\nP()\nif i % 2 == 0 then\nP()\nelse\nP()\nend\nend",
    { ["1 4"] = 1, ["1 6"] = 0.5, ["1 8"] = 0.5 } },
  { "an inner loop", "for i = 1, n / 10 do\nP()\nfor j = 1, 10 do\nP()\nend\nP()\nend",
    { ["1 4"] = 0.1, ["1 6"] = 1, ["1 8"] = 0.1 } },
  { "ipairs", "local t = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } for i = 1, n / 10 do\nfor k, v in ipairs(t) do\nP()\nP()\nend\nend",
    { ["1 5"] = 1, ["1 6"] = 1 } },
  { "a loop that breaks", "local i = 0\nwhile true do\nP()\ni = i + 1\nif i > n then break end\nP()\nend",
    { ["1 5"] = 1, ["1 8"] = 1 } },
  { "a metamethod",
    "local o = setmetatable({}, { __unm = function() P() return 1 end })\nlocal s = 0 for i = 1, n do\nP()\ns = s + -o\nend",
    { ["1 5"] = 1, ["1 3 6"] = 1 } },
  { "a tail call", "local function T() return P() end\nfor i = 1, n do\nT()\nT()\nend", { ["1 5"] = 1, ["1 6"] = 1 } },
  { "recursion", "local function R(k)\nif k > 0 then\nP()\nR(k - 1)\nend\nend\nfor i = 1, n do\nR(1)\nend", { ["1 5 10"] = 1 } },
}

-- Of the frames of a stack that are in the program, returns all lines as text, the outermost line, and whether all are exact.
local function lines_of(stack)
  local lines, exact = {}, true
  for _, frame in ipairs(stack) do
    if frame.line and page_fault.in_program(frame) then
      lines[#lines + 1] = frame.line
      exact = exact and not frame.lastline
    end
  end
  return table.concat(lines, " "), lines[#lines], exact
end

describe("the last call of a compiled loop's body", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  local function program(body)
    return page_fault.program("local function P() FAULT end return function(n)\n\n" .. body .. "\nend")
  end

  for _, shape in ipairs(SHAPES) do
    local title, body, per_unit = shape[1], shape[2], shape[3]

    it("is on its line: " .. title, function()
      local run = program(body)
      local prof = page_fault.profile(run, 1000)
      local got = {}
      for _, s in ipairs(prof:samples()) do
        local lines = lines_of(s.stack)
        got[lines] = (got[lines] or 0) + tonumber(s.weight)
      end
      for lines, n in pairs(per_unit) do
        assert.is_true((got[lines] or 0) >= n * 1000, ("%s: %s\n%s"):format(lines, tostring(got[lines]), profiling.text(prof)))
      end
    end)

    it("is not on another line in code from before the profiler's start: " .. title, function()
      local run = program(body)
      run(1000)
      local prof = page_fault.profile(run, 1000)
      local got, most = {}, {}
      for lines, n in pairs(per_unit) do
        local line = tonumber(lines:match "%d+$")
        most[line] = (most[line] or 0) + n * 1000
      end
      for _, s in ipairs(prof:samples()) do
        local _, line, exact = lines_of(s.stack)
        if line and exact then got[line] = (got[line] or 0) + tonumber(s.weight) end
      end
      for line, n in pairs(got) do -- the rest are faults of the compiler and of the heap
        assert.is_true(n <= (most[line] or 0) + 50, ("%d: %d\n%s"):format(line, n, profiling.text(prof)))
      end
    end)
  end
end)

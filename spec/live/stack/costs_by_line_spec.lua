-- The costs of lines of interpreted code, counted in machine instructions. A program runs one machine instruction at a time, and
-- each is added to the line that the unwinder finds. Then the statements of one line are written twice. The instructions that the
-- program takes in addition are the cost of that line, whatever the unwinder says, and all of them must be found on it.
-- Long: each interpreter has other machine instructions.
local kit = require "testkit"
local needs = require "spec.support.needs"

local compile = rawget(_G, "loadstring") or load
local jit = rawget(_G, "jit")
local NEEDS = { registers = true }

-- In each program the lines use each other's results, and some call a C function. None allocates memory.
local programs = {
  arithmetic = { "local a, b, c, d = 1.5, 2.5, 3.5, 4.5",
    "a = (a * 7 + i) % 1009",
    "b = b * 0.5 + i; b = b + 1; b = b - i * 2",
    "c = (i + 3) * (i + 4) - c % 17",
    "d = d + a",
  },
  tables = { "local t, h, keys, s = {1, 2, 3, 4}, {a = 1, b = 2, c = 3}, {'a', 'b', 'c'}, 0",
    "s = s + t[i % 4 + 1]",
    "s = s + h[keys[i % 3 + 1]]",
    "t[i % 4 + 1] = s; t[1] = i",
    "h.a = s; s = h.b",
    "s = s + #t",
  },
  strings = { "local text, byte, find, s = 'a text of some words', string.byte, string.find, 0",
    "s = s + byte(text, i % 20 + 1)",
    "s = s + find(text, '[e-k]')",
    "s = s + #text",
    "if text < 'a text of some numbers' then s = s - 1 end",
    "s = s + text:byte(i % 20 + 1)",
  },
}

-- The program, with the line that has this number written twice.
local function make(program, twice)
  local text = { program[1], "return function(n) for i = 1, n do" }
  for k = 2, #program do text[#text + 1] = program[k] .. (k == twice and "; " .. program[k] or "") end
  text[#text + 1] = "end end"
  return assert(compile(table.concat(text, "\n"), "=program"))()
end

-- The number of machine instructions by line, and of all lines together; nil and why if the machine cannot count them.
local function count(program, twice)
  local fn, by, all = make(program, twice), {}, 0
  fn(20) -- all tables have their size, all strings are there
  local runs, why = kit.unwind.steps(fn, 8)
  if not runs then return nil, why end
  for _, run in ipairs(runs) do
    assert.equal(0, run.failed)
    by[run.line] = (by[run.line] or 0) + run.n
    all = all + run.n
  end
  return by, all
end

describe("the machine instructions of interpreted code", function()
  setup(function()
    if #needs.unmet(NEEDS) > 0 then return end
    assert(kit.unwind.learn())
    if jit then jit.off() end
  end)

  teardown(function()
    if jit then jit.on() end
  end)

  before_each(function()
    requires(NEEDS)
    collectgarbage "stop"
  end)

  after_each(function() collectgarbage "restart" end)

  for name, program in pairs(programs) do
    it("of " .. name .. " are found on the line that runs", function()
      local before, all = count(program)
      if not before then return pending(all) end
      for k = 2, #program do
        local line = k + 1
        local after, more = count(program, k)
        local cost = more - all
        local function near(expected, found, what)
          -- a virtual machine may lose a step
          assert(math.abs(expected - found) <= 0.02 * cost, ("%s, %s: %d of %d"):format(program[k], what, found, expected))
        end
        assert(cost > 0.8 * before[line], program[k])
        near(before[line], cost, "once")
        near(cost, after[line] - before[line], "twice")
        for other = 2, #program + 2 do
          if other ~= line then near(before[other], after[other], ("line %d stays"):format(other)) end
        end
      end
    end)
  end
end)

-- The story: for each sample in compiled code, the unwinder walked along the function's instructions again, from one snapshot to
-- the next and to the jumps between them. In a loop of 165 lines with `goto` that took 9 us, in some functions with loops and
-- conditions 140 us. Now the unwinder keeps what it has found, and what it has read for that. The fuzzer of the unwinder compares
-- stacks with and without kept results where memory has changed since.
local compiled = require "spec.support.compiled"
local kit = require "testkit"

local jit = rawget(_G, "jit")

-- A loop of many lines with conditions.
local function long_loop(lines)
  local text = { "return function(n) local x, i = 1, 0", "while i < n do i = i + 1" }
  for k = 1, lines, 3 do
    text[#text + 1] = ("if i %% %d == 0 then goto l%d end"):format(k % 7 + 2, k)
    text[#text + 1] = "x = (x * 7 + i) % 61"
    text[#text + 1] = ("::l%d::"):format(k)
  end
  text[#text + 1] = "end return x end"
  return assert(loadstring(table.concat(text, "\n"), "=long"))()
end

describe("a walk along compiled code", function()
  before_each(function()
    requires { lua = "luajit", registers = true, nostress = true }
    jit.flush()
    assert(kit.unwind.learn())
  end)

  it("is made once for each stretch of it, and gives the same stacks as before", function()
    local run = long_loop(165)
    compiled.by_default(function() -- counters that earlier loops have left could delay the compilation
      for _ = 1, 2 do run(3000) end
    end)
    local runs, why = kit.unwind.steps(run, 30)
    if not runs then return pending(why) end
    assert.equal(0, runs.differences)
    assert.is_true(runs.reads > 3 * runs.reads_kept, ("%d reads, %d with what is kept"):format(runs.reads, runs.reads_kept))
  end)
end)

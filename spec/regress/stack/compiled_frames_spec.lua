-- The stories: two reasons why a function of compiled code was not found.
--
-- A trace that keeps many values on the C stack has a large frame there. The unwinder looked for the return address of a called C
-- function in the 64 words nearest to the interpreter's frame, so all samples in calls from such a trace, 97 % of them in one
-- program, were shown on the first line of the function.
--
-- Once a program has made several closures of one function, the compiler compares the called function's code instead of its
-- object. The unwinder took any constant of the trace that a byte made look like a function, and showed functions that do not
-- exist, with names like "?:329517". A side trace has no such constant, because its parent has compared the function already;
-- there the frame was missing.
local page_fault = require "spec.support.page_fault"
local profiling = require "spec.support.profiling"

-- Makes a function of the lines.
local function program(lines) return page_fault.program(table.concat(lines, "\n")) end

describe("compiled code", function()
  before_each(page_fault.map)
  after_each(page_fault.unmap)

  it("with many values on the C stack is shown on its lines", function()
    local LINES = 30
    local lines = {
      "local n, kid, list = 0, {}, {} for i = 1, 100 do kid[i] = i list[i] = 0 end",
      "local function key(a) local k = kid[a] if not k then k = a kid[a] = k end return k end",
      "return function(count) for i = 1, count do",
    }
    local first = #lines + 1
    for i = 1, LINES do lines[#lines + 1] = ("n = n + 1 list[n %% 64 + 1] = key(%d) FAULT"):format(i) end
    lines[#lines + 1] = "end end"
    local prof = page_fault.profile(program(lines), 500)
    for i = first, first + LINES - 1 do
      assert.is_true(profiling.on_line(prof, i) >= 500, ("line %d: %s"):format(i, profiling.text(prof)))
    end
    assert.is_nil((prof.failures or {})["no trace"], profiling.text(prof))
  end)

  it("that calls many closures of one function has a frame for each call", function()
    local run = program {
      "local n, acc, s = 0, 0, '' local T, U, V, W = {}, {}, {}, {}",
      "local function leaf() n = n + 1 if n % 5 == 0 then FAULT end return n end",
      "local function work() for i = 1, 10 do",
      "s = s:sub(1, 3) .. n",
      "n = n + 1 FAULT",
      "local function inner(a, b)",
      "if n % 3 == 0 then acc = acc + 1 end",
      "leaf(a)",
      "n = n + 1 FAULT",
      "V = { n, acc }",
      "leaf(a)",
      "n = n + 1 FAULT",
      "W[a % 4] = a U[n % 8] = T W[b % 4] = a",
      "for k = 1, n % 4 do acc = acc + k end",
      "leaf(b)",
      "end",
      "n = n + 1 FAULT",
      "leaf(i)",
      "inner(i, n)",
      "n = n + 1 FAULT",
      "inner(n, i)",
      "end end",
      "return function(count) for _ = 1, count do work() end end",
    }
    local prof = page_fault.profile(run, 300)
    local chains = { ["leaf inner work main"] = 0, ["leaf work main"] = 0, ["inner work main"] = 0, ["work main"] = 0, main = 0 }
    -- Functions, not lines, tell frames apart: `work` makes the closure `inner` on line 16, and may fault there for its memory.
    local names = { ["anonymous@2"] = "leaf", ["anonymous@6"] = "inner", ["anonymous@3"] = "work", ["anonymous@23"] = "main" }
    for _, sample in ipairs(prof:samples()) do
      local chain, last = {}, 0
      for i, frame in ipairs(sample.stack) do
        if page_fault.in_program(frame) then chain[#chain + 1], last = names[frame.func] or frame.func, i end
      end
      for i = 1, last do
        local frame = sample.stack[i]
        assert.is_true(frame.kind ~= "lua" or page_fault.in_program(frame), profiling.text(prof))
      end
      chain = table.concat(chain, " ")
      assert.is_true(last == 0 or chains[chain] ~= nil, ("%s: %s"):format(chain, profiling.text(prof)))
      if last > 0 then chains[chain] = chains[chain] + tonumber(sample.weight) end
    end
    assert.is_true(chains["leaf inner work main"] > 3000 and chains["leaf work main"] > 500, profiling.text(prof))
    assert.is_true(chains["inner work main"] >= 12000 and chains["work main"] >= 9000, profiling.text(prof))
    assert.is_nil((prof.failures or {})["broken frame"], profiling.text(prof))
  end)
end)

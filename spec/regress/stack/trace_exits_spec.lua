-- The story: 0.3 % of the samples of compiled code had no stack, and 4 to 30 % in programs that leave traces all the time. The
-- stub of an exit and the common exit handler belong to no trace's code; but they have the numbers of the exit and its trace.
-- Later, on Debian sid, 0.5 % of the samples had none: the handler says that a trace is being left before it stores the numbers,
-- and the unwinder compared them with those of an earlier exit. How many samples there are of the instruction between depends on
-- the build and the processor.
local has_all_its_stacks = require "spec.support.whole_stacks"
local stepped = require "spec.support.stepped"

-- This runs in a new process, in which all traces are the program's.
local TEXT = [[
  jit.opt.start("hotexit=10000000") -- so that no exit is compiled
  local kit = require "testkit"
  local sampled = require "spec.support.sampled"
  assert(kit.unwind.learn())
  local function chosen(i)
    if i %% 3 == 0 then return i + 1 elseif i %% 5 == 1 then return i - 1 else return i * 2 end
  end
  local function less(a, b) return a %% 7 < b %% 7 end
  local function program()
    %s
  end
  program()
  local stacks = sampled.run(program)
  local whole = sampled.share(stacks, function(places, stack)
    if stack.failed then return false end
    for _, place in ipairs(places) do
      if place.linedefined == 10 or (place.source or ""):find("sampled", 1, true) then return true end
    end
  end)
  sampled.say_whole(stacks, whole)
]]

local STEPS = [[
  local function chosen(i)
    if i % 3 == 0 then return i + 1 elseif i % 5 == 1 then return i - 1 else return i * 2 end
  end
  local function calls(n)
    local s = 0
    for i = 1, n or 40 do s = s + chosen(i) end
  end
  calls(2000)
]]

describe("a program that leaves traces all the time", function()
  for title, program in pairs {
    ["within a function that is compiled into them"] = "local s = 0 for i = 1, 2000 do s = s + chosen(i) end",
    ["because types vary"] = [[
      local t, n = { 1, "2", 3.5, {}, 4, "x" }, 0
      for i = 1, 2000 do
        local v = t[i % 6 + 1]
        if type(v) == "number" then n = n + v elseif type(v) == "string" then n = n + #v end
      end]],
    ["in a comparison of table.sort"] = "local t = {} for i = 1, 100 do t[i] = i * 7919 % 101 end table.sort(t, less)",
  } do
    it(title .. " has all its stacks", function() has_all_its_stacks(TEXT:format(program)) end)
  end

  it("has its whole stack after each machine instruction", function()
    requires { lua = "luajit", jit = true, registers = true, nostress = true }
    local cut, without_line, compiled = stepped.run(STEPS, 'jit.opt.start("hotexit=10000000")')
    if not cut then return pending(without_line) end
    assert.same({ 0, 0 }, { cut, without_line })
    assert.is_true(compiled > 1000)
  end)
end)

-- The story: LuaJIT implements the functions that coroutine.wrap returns in assembler, and each is an object of its own. The
-- unwinder identified such a function by its object, so a program with generators got a frame "function 0x..." for each
-- generator that it made, and equal stacks were not merged.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

it("all functions that coroutine.wrap returns have one frame and one name", function()
  requires { perf_open = true, registers = true }
  local function generate()
    for i = 1, 4 do
      kit.touch_pages(10)
      coroutine.yield(i)
    end
  end
  local prof = assert(perf.profile({ event = "page-faults", period = 1, coroutines = "resumer" }, function()
    for _ = 1, 40 do
      for _ in coroutine.wrap(generate) do end
    end
  end))
  local names, touching = {}, 0
  for _, s in ipairs(prof:samples()) do
    for _, f in ipairs(s.stack) do
      if f.kind ~= "lua" then names[f.name] = (names[f.name] or 0) + s.weight end
    end
    touching = touching + (s.stack[1].name:find("touch_pages", 1, true) and 1 or 0)
  end
  assert.is_true((names["coroutine.wrap function"] or 0) >= 1600, profiling.text(prof))
  for name in pairs(names) do assert.is_nil(name:find "^function 0x", profiling.text(prof)) end
  assert.is_true(touching >= 1 and touching <= 2, profiling.text(prof))
end)

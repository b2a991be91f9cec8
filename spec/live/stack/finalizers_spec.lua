-- The story: a sample between the moment when the collector calls a finalizer and the finalizer's first instruction was shown
-- as the finalizer's own collecting. Such samples are rare, one in some hundreds of those in a short finalizer. So each machine
-- instruction of such calls is looked at.
local kit = require "testkit"
local util = require "spec.support.util"

local AT_GC = 2 -- PF_AT_GC
local NEEDS = { registers = true }

it("a finalizer that has executed nothing does not collect garbage", function()
  requires(NEEDS)
  assert(kit.unwind.learn())
  local compiler = rawget(_G, "jit")
  local calls = 0
  local function finalize() calls = calls + 1 end
  local defined = debug.getinfo(finalize, "S").linedefined
  local has_sizes = _VERSION == "Lua 5.4" -- its steps call two thousand finalizers, unless they are made smaller
  finally(function()
    collectgarbage "restart"
    if has_sizes then collectgarbage("incremental", 0, 0, 13) end
    if compiler then compiler.on() end
  end)
  if compiler then compiler.off() end
  if has_sizes then collectgarbage("incremental", 0, 0, 6) end
  collectgarbage() -- a cycle that has begun would not find the new objects
  for _ = 1, 2000 do util.finalized(finalize) end
  collectgarbage "stop"
  while calls == 0 do collectgarbage("step", 0) end
  assert.is_true(calls < 2000)
  local before, own, others = calls, 0, 0
  while calls == before do
    local runs, why = kit.unwind.steps(collectgarbage, "step", 0)
    if not runs then return pending(why) end
    for _, run in ipairs(runs) do
      if run.linedefined == defined then
        own = own + 1
        assert.not_equal(AT_GC, run.state)
      elseif run.state == AT_GC then
        others = others + 1
      end
    end
  end
  assert.is_true(own > 0 and others > 0, ("%d finalizers, %d and %d places"):format(calls - before, own, others))
end)

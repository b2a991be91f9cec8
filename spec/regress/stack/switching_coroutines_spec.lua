-- The story: in programs that switch coroutines all the time, 1 to 3 % of the samples had no stack. While a coroutine yields,
-- ends or fails, the global state still names it, though it has no frame on the C stack any more; its base in a register was
-- taken for the resumer's, whose stack lies nearby. While pcall moves its arguments, the distance to the frame that it makes was
-- taken for a link. When a stack grows, the old one is freed before the thread has the new address.
local has_all_its_stacks = require "spec.support.whole_stacks"

-- This runs in a new process, where the stacks of threads lie near each other.
local TEXT = [[
  local kit = require "testkit"
  local sampled = require "spec.support.sampled"
  jit.off()
  assert(kit.unwind.learn())
  local function program()
    %s
  end
  local stacks = sampled.run(program)
  local whole = sampled.share(stacks, function(places, stack)
    if stack.failed then return false end
    for _, place in ipairs(places) do
      if place.linedefined == 5 or (place.source or ""):find("sampled", 1, true) then return true end
    end
    return stack.n > #places
  end)
  sampled.say_whole(stacks, whole)
]]

describe("a program that switches coroutines all the time", function()
  for title, program in pairs {
    ["of which one yields"] = "_G.co = _G.co or coroutine.wrap(function() while true do coroutine.yield(1) end end) _G.co()",
    ["that are new"] = "for _ in coroutine.wrap(function() for i = 1, 10 do coroutine.yield(i) end end) do end",
    ["within others"] = [[
      local function some() for i = 1, 10 do coroutine.yield(i) end end
      local outer = coroutine.wrap(function() for i in coroutine.wrap(some) do coroutine.yield(i) end end)
      for _ = 1, 10 do outer() end]],
    ["from within pcall"] = [[
      local yields = coroutine.wrap(function() while true do pcall(coroutine.yield, 1) end end)
      for _ = 1, 100 do yields() end]],
    ["that fail"] = "for _ = 1, 20 do coroutine.resume(coroutine.create(error)) end",
    ["whose stacks grow"] = [[
      local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end
      for _ = 1, 10 do coroutine.wrap(deep)(150) end]],
  } do
    it(title .. " has all its stacks", function() has_all_its_stacks(TEXT:format(program)) end)
  end
end)

-- The story: the ids of a trace and of its first span are cut out of one supply of random digits. Between the two cuts a
-- finalizer could run that made so many spans that the supply was replaced. Then the id of the first span was cut out of the new
-- supply, whose digits other spans have.
local ids = require "perf.trace.ids"

local SPANS = 512 -- as many as a supply has room for

it("the id of a trace's first span is no other span's if a finalizer makes spans meanwhile", function()
  requires { nostress = true } -- that sets a hook, too
  local jit = rawget(_G, "jit")
  if jit then jit.off() end -- compiled code calls no hook
  local same, instructions = 0, 0
  repeat
    local n, others = -1, {}
    local function finalizer() -- a hook calls it, in each round at the next instruction of ids.trace
      if debug.getinfo(2, "f").func ~= ids.trace then return end
      n = n + 1
      if n ~= instructions then return end
      debug.sethook()
      for i = 1, SPANS do others[i] = ids.span() end
    end
    debug.sethook(finalizer, "", 1)
    local _, first = ids.trace()
    debug.sethook()
    for i = 1, SPANS do
      if others[i] == first or ids.span() == first then same = same + 1 end
    end
    instructions = instructions + 1
  until #others == 0
  if jit then jit.on() end
  assert.equal(0, same)
  assert.is_true(instructions > 5, instructions)
end)

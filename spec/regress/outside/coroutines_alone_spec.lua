-- The story: with coroutines = "alone", the stack of the thread that had resumed a coroutine was looked at too, though nothing of
-- it is shown. The snapshot lacks that stack, so it was read from the process, which had gone on: whole stacks were counted as
-- cut by a broken frame.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

it("a coroutine's stack is whole without its resumer's, which goes on", function()
  local event = "syscalls:sys_enter_getppid"
  outside.requires { tracepoint = event }
  local function deep(n, fn)
    if n > 0 then return 1 + deep(n - 1, fn) end
    fn()
    return 0
  end
  local function strings(n) -- in place of the frames of `deep`
    local text = tostring(n)
    if n > 0 then return text, text, strings(n - 1) end
  end
  local function in_coroutine()
    while true do
      kit.syscalls(1)
      coroutine.yield()
    end
  end
  local prof = outside.profile({ event = event, coroutines = "alone" }, function()
    local resume = coroutine.wrap(in_coroutine)
    for i = 1, 50 do
      deep(i, resume)
      strings(200)
    end
    kit.sleeps(20) -- the snapshots are read meanwhile
    local full = {}
    for _ = 1, 20 do full = { strings(200) } end
    return #full
  end)
  local text = profiling.text(prof)
  assert.equal(50, profiling.under(prof, "in_coroutine"), text)
  assert.equal(0, profiling.under(prof, "deep"), text)
  assert.is_nil(next(prof.failures or {}), text)
end)

-- The story: samples of forked children had no stack at all, mainly on arm64. The BPF program cannot wait for a page that is
-- not in memory, as a page that a child has not touched since the fork may be. If one page of a Lua stack could not be read, it
-- dropped the whole stack. Here, a page of the outer frames cannot be read.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

it("a stack of another process ends at a page that cannot be read, and is counted", function()
  local event = "syscalls:sys_enter_getppid"
  outside.requires { lua = "luajit", tracepoint = event }
  local n, depth = 20, 300
  local prof = outside.profile({ event = event }, function()
    local function deep(k, a, b, c, d, e, f)
      if k > 1 then return 1 + deep(k - 1, a, b, c, d, e, f) end
      for i = 1, 4 do kit.syscalls_above(n, i % 2 == 0) end
      return 1
    end
    require("jit").off(deep)
    return deep(depth)
  end)
  local text, whole, cut = profiling.text(prof), 0, 0
  for _, s in ipairs(prof:samples()) do
    local times = 0
    for _, f in ipairs(s.stack) do times = times + (f.func == "deep" and 1 or 0) end
    if s.stack[1].func == "testkit.syscalls_above" then
      if times == depth then whole = whole + s.count end
      if times > 0 and times < depth then
        assert.equal(times + 1, #s.stack, text)
        cut = cut + s.count
      end
    end
  end
  assert.equal(2 * n, whole, text)
  assert.equal(2 * n, cut, text)
  assert.equal(2 * n, tonumber((prof.failures or {})["unreadable memory"] or 0), text)
end)

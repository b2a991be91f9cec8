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
  -- Which functions the page has depends on the place of the stack: those of deep, or those that have called it, or both.
  local text, most, whole, cut = profiling.text(prof), 0, 0, 0
  for _, s in ipairs(prof:samples()) do most = math.max(most, #s.stack) end
  for _, s in ipairs(prof:samples()) do
    if s.stack[1].func == "testkit.syscalls_above" then
      if #s.stack == most then whole = whole + s.count else cut = cut + s.count end
      for i = 2, math.min(#s.stack, depth + 1) do assert.equal("deep", s.stack[i].func, text) end
    end
  end
  assert.is_true(most > depth + 1, text)
  assert.equal(2 * n, whole, text)
  assert.equal(2 * n, cut, text)
  assert.equal(2 * n, tonumber((prof.failures or {})["unreadable memory"] or 0), text)
end)

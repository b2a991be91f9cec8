-- The story: samples of forked children had no stack at all, mainly on arm64. The BPF program cannot wait for a page that is
-- not in memory, as a page that a child has not touched since the fork may be. If one page of a Lua stack could not be read, it
-- dropped the whole stack. Here, a page of the outer frames cannot be read.
-- In PUC Lua, the key of such a stack lacked the functions of that page. If a known stack had all others, it got the sample.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

it("a stack of another process ends at a page that cannot be read, and is counted", function()
  local event = "syscalls:sys_enter_getppid"
  outside.requires { tracepoint = event }
  local n, depth, page = 20, 300, 60 -- page: more calls than a page has
  local prof = outside.profile({ event = event }, function()
    local function deep(k, hides, a, b, c, d, e, f)
      if k > 1 then return 1 + deep(k - 1, hides, a, b, c, d, e, f) end
      kit.syscalls_above(n, hides)
      return 1
    end
    if rawget(_G, "jit") then require("jit").off(deep) end
    for k = depth - page, depth + 2 do deep(k < depth and k or depth, k > depth) end -- one call, since its line is in the key
  end)
  -- Which functions the page has depends on the place of the stack: those of deep, or those that have called it, or both. A whole
  -- stack ends with the same function as the deepest one.
  local text, deepest, whole, cut = profiling.text(prof), {}, {}, 0
  for _, s in ipairs(prof:samples()) do
    if #s.stack > #deepest then deepest = s.stack end
  end
  assert.is_true(#deepest > depth + 1, text)
  for _, s in ipairs(prof:samples()) do
    if s.stack[1].func == "testkit.syscalls_above" then
      local k = depth - #deepest + #s.stack
      if s.stack[#s.stack].name == deepest[#deepest].name then whole[k] = (whole[k] or 0) + s.count else cut = cut + s.count end
      for i = 2, math.min(#s.stack, depth - page + 1) do assert.equal("deep", s.stack[i].func, text) end
    end
  end
  for k = depth - page, depth do assert.equal(n, whole[k], text) end
  assert.equal(2 * n, cut, text)
  assert.equal(2 * n, tonumber((prof.failures or {})["unreadable memory"] or 0), text)
end)

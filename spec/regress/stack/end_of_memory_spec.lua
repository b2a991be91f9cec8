-- The story: stacks of PUC Lua were cut, as "unreadable memory", where an allocator had put a call or a function at the end of
-- its memory. The unwinder read more bytes than the structure has: 96 of a call, whose fields end with 40. AddressSanitizer's
-- allocator does so for one call of a thousand.
local kit = require "testkit"

describe("a stack of calls and functions at the end of memory", function()
  it("is whole", function()
    requires { registers = true, puc = true }
    local ok, found = kit.edge_state [[
      local kit = require "testkit"
      local perf = require "perf"
      local p = assert(perf.profiler { event = "alloc", period = 1 })
      kit.edges(true)
      local make = (loadstring or load) "return function(fn, n) if n == 0 then return {} end local t = fn(fn, n - 1) return t end"
      local deep = make()
      local co = coroutine.wrap(function()
        assert(p:start())
        local t = deep(deep, 50)
        p.sampler:stop()
      end)
      co()
      kit.edges(false)
      local prof, longest, failed = assert(p:stop()), 0, ""
      for _, s in ipairs(prof:samples()) do longest = math.max(longest, #s.stack) end
      for reason, n in pairs(prof.failures or {}) do failed = failed .. " " .. reason .. ": " .. n end
      return longest .. failed
    ]]
    assert.same({ true, "52" }, { ok, found })
  end)
end)

-- The story: a program's own allocator was removed while allocations were profiled, and ours with it, which was in front of it.
-- Profiles after that one were empty, with no error: they used the allocator that nothing called any more. And when a profile had
-- stopped, its allocator was freed, though a library may have noted it as the state's: a second Lua state with the same
-- allocator, or a buffer that is freed later, crashed.
local kit = require "testkit"
local perf = require "perf"

local sink = {}
local function tables()
  for i = 1, 100 do sink[i] = { i, i } end
  return sink
end

local function started(event)
  local p = assert(perf.profiler { event = event or "alloc", period = 1 })
  assert(p:start())
  return p
end

local function blocks(p) return assert(p:stop()).blocks.allocated_blocks end

describe("profiles of allocations beside the program's own allocators", function()
  before_each(function()
    requires { registers = true }
    tables()
  end)

  it("begin anew after one whose allocator was removed", function()
    local p
    kit.fail_alloc(0, function()
      p = started()
      tables()
    end)
    assert(blocks(p) >= 100)
    p = started()
    tables()
    assert(blocks(p) >= 100)
  end)

  it("are in front of one that was set during the profile before", function()
    local p = started "heap"
    local _, ok, n = kit.fail_alloc(0, function()
      p:stop()
      local q = started()
      tables()
      return blocks(q)
    end)
    assert(ok and n >= 100, tostring(n))
    p = started()
    tables()
    assert(blocks(p) >= 100)
  end)

  it("count a block once, of two that an allocator stands between", function()
    local p, inner = started(), nil
    kit.fail_alloc(0, function()
      inner = started()
      for _ = 1, 100 do tables() end
      inner.sampler:stop()
    end)
    p.sampler:stop()
    local n, outer = blocks(inner), blocks(p)
    assert(n >= 10000 and outer >= n and outer < 1.5 * n, ("%d and %d"):format(n, outer))
  end)

  it("leave their allocator to libraries that noted it", function()
    local p = started()
    assert(kit.noted_alloc(function()
      p:stop()
      tables()
    end))
  end)
end)

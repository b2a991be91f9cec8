-- The story: a program may note its state's allocator while allocations are profiled, and call it whenever it likes. The
-- profiler freed what it had put there when the state closed, so a program crashed that used the noted allocator afterwards, or
-- had set an allocator of its own in front of it after the profile. If the program made another Lua state with it in another
-- thread, as some libraries for threads do, both threads changed the profile at once. And a block that another allocator had
-- freed stayed in the profile of the heap, also when its memory was used again.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

-- Runs code in a state of its own, which closes, and then fn; in a child, since the defect was a crash.
local function check(code, fn)
  assert.equal(0, (kit.fork(function()
    assert(kit.state(([[
      local kit, perf = require "testkit", require "perf"
      local p = assert(perf.profiler { event = "alloc", period = 1 })
      assert(p:start())
      kit.note_alloc()
      p:stop()
      %s]]):format(code)))
    fn()
  end)))
end

describe("an allocator that was noted during a profile of allocations", function()
  before_each(function() requires { registers = true } end)

  it("may be called when the state has closed", function()
    requires { puc = true } -- LuaJIT's own allocator ends with its state
    check("", function() assert(kit.noted_block()) end)
  end)

  it("may be called by one that the program sets after the profile", function()
    check("kit.wrap_noted()", function() end)
  end)

  it("may be that of another state, in another thread, which is not profiled", function()
    requires { puc = true }
    local p = assert(perf.profiler { event = "heap", period = 1 })
    assert(p:start())
    kit.note_alloc()
    assert(kit.noted_state "local t = {} for i = 1, 20000 do t[i] = { i } end")
    p.sampler:stop()
    local blocks = assert(p:stop()).blocks
    assert(blocks.allocated_blocks < 10000, blocks.allocated_blocks)
  end)
end)

describe("a profile of the heap beside another allocator", function()
  it("has a block of memory once, when that allocator has freed it", function()
    requires { registers = true }
    local N, SIZE = 1000, 80
    kit.note_alloc()
    local p = assert(perf.profiler { event = "heap", period = 1 })
    assert(p:start())
    local different = kit.free_by_noted(N, SIZE)
    local prof = assert(p:stop())
    assert(prof.blocks.allocated_blocks >= N, profiling.text(prof))
    assert(profiling.under(prof, "testkit.free_by_noted") <= different * SIZE, profiling.text(prof))
  end)
end)

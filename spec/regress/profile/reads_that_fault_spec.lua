-- The story: a sample of an allocation took five times as long behind an allocator of the program. No register had the thread
-- then, so it was searched in the C stack, whose first words were the profiler's own copy of the registers. Three of them looked
-- like addresses of threads, but no memory was there: three page faults for each sample, which were also in the program's counts.
local kit = require "testkit"
local perf = require "perf"
local util = require "spec.support.util"

local BLOCKS = 1000

describe("a profile of allocations", function()
  local function tables()
    local sink = {}
    for i = 1, BLOCKS do sink[i] = {} end
    return #sink
  end

  -- The page faults of a thousand allocations, each of which is sampled.
  local function faults()
    local p = assert(perf.profiler { event = "alloc", period = 1 })
    tables()
    return (util.settled(function()
      assert(p:start())
      local _, ok, counts = kit.fail_alloc(0, function() return (perf.measure({ util.FAULTS }, tables)) end)
      assert(ok, counts)
      local profile = assert(p:stop())
      assert(profile.blocks.allocated_blocks >= BLOCKS)
      return counts[util.FAULTS]
    end))
  end

  it("reads no unmapped memory behind an allocator of the program", function()
    requires { perf_open = "user", registers = true, nosan = true }
    local n = faults()
    assert(n < BLOCKS / 10, n .. " page faults")
  end)
end)

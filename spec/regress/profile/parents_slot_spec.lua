-- The story: the child of a fork starts its profilers in the places of its parent's. While it started one, another one's signal
-- found the parent's sampler in that place, and read its ring, which the child does not have: SIGSEGV.
local core = require "perf.core"
local perf = require "perf"
local util = require "spec.support.util"

local NEVER = { event = "page-faults:u", period = 1000000 }
local TAKES = "pf_signal_take" -- a function that each start calls when it has found a place

-- The address of one of the library's functions in this process.
local function address_of(symbol)
  local first, offset, path =
    util.read_file "/proc/self/maps":match "(%x+)%-%x+ r%-xp (%x+) %S+ %S+%s+(/[^\n]*/perf/core%.so)\n"
  return assert(perf.symbols.offset(path, symbol)) - tonumber(offset, 16) + tonumber(first, 16)
end

-- On arm64 the breakpoint would be hit again after each of its signals.
if select(2, core.uname()) ~= "x86_64" then return end

describe("the child of a process with several profilers", function()
  it("starts its own while one of them takes samples", function()
    requires { perf_open = true, registers = true, paranoid = 2, breakpoint = true, ext = "symbols" }
    local parents = {}
    finally(function()
      for _, p in ipairs(parents) do p:close() end
    end)
    for i = 1, 6 do parents[i] = assert(perf.profiler(NEVER)) end
    -- In this order, the rings that the child maps are at other addresses than those of the samplers whose places it takes.
    for i = #parents, 1, -1 do assert(parents[i]:start()) end
    local event = ("mem:0x%x:x"):format(address_of(TAKES))
    assert.equal("sampled", util.in_child(function()
      local first = assert(perf.profiler { event = event, period = 1 })
      local second = assert(perf.profiler(NEVER))
      assert(first:start())
      assert(second:start())
      assert(second:stop())
      return assert(first:stop()).sample_count > 0 and "sampled" or "no sample"
    end))
  end)
end)

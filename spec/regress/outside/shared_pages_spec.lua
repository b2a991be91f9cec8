-- The story: to search a process for Lua states, the profiler read its memory by process_vm_readv. For that, Linux gives a forked
-- process its own copy of each page that it still shares with its parent. So the workers of a server that were profiled together
-- needed as much memory as if they shared none. And a sample that came while a page of the Lua stack was copied had a cut stack.
-- Twice: C reads the memory, whatever the process runs.
local host = require "perf.kernel.host"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"

local MIB = 2 ^ 20
local SIZE = 32 -- MiB

-- How many MiB of written pages, which belong to no file, does a process share with others?
local function shared(pid)
  local text = assert(host.read_file(("/proc/%d/smaps_rollup"):format(pid)))
  return tonumber(text:match "Shared_Dirty:%s+(%d+)") / 1024
end

describe("a profile of a forked process", function()
  it("leaves it the memory that it shares with its parent", function()
    outside.requires()
    local memory = {}
    for i = 1, SIZE do memory[i] = ("x"):rep(MIB) .. i end
    local child = assert(kit.start(function() end))
    local before = shared(child:pid())
    local p = assert(perf.profiler { pid = child:pid(), event = "page-faults" })
    local after = shared(child:pid())
    p:close()
    child:go()
    assert.equal(0, (child:wait()))
    assert.is_true(after > SIZE / 2, ("%.1f MiB were shared, then %.1f; %d are in strings"):format(before, after, #memory))
  end)
end)

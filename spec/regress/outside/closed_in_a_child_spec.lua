-- The story: a profiler of another process keeps that process's memory open, to read it. In a forked child of the profiler's
-- process, close() left this descriptor open: the thread that uses it is the parent's, and the child leaves alone what that uses.
-- Twice: C owns the descriptor.
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local util = require "spec.support.util"

-- How many processes' memories are open in this process?
local function memories()
  local n = 0
  for _, target in pairs(kit.fds()) do
    if target:find "^/proc/%d+/mem$" then n = n + 1 end
  end
  return n
end

describe("a profiler of another process", function()
  it("leaves no descriptor open in a forked child that closes it", function()
    outside.requires()
    local child = assert(kit.start(function() end))
    local p = assert(perf.profiler { pid = child:pid(), event = "page-faults" })
    assert(p:start())
    local open = memories()
    local left = util.in_child(function()
      p:close()
      return tostring(memories())
    end)
    p:close()
    child:go()
    assert.equal(0, (child:wait()))
    assert.equal(1, open)
    assert.equal("0", left)
  end)
end)

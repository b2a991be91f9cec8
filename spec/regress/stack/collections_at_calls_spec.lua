-- The story: Lua 5.2 may begin a collection when a Lua function is called, before the function's first instruction. The function
-- was then taken for a finalizer, which the collector calls, and the collection was shown as the function's own work.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

describe("a collection that begins at a call", function()
  it("is not the work of the function that is called", function()
    requires { puc = true, registers = true, perf_open = "user", nostress = true }
    local keep = {}
    for i = 1, 20000 do keep[i] = { i, {} } end
    local function called() return #keep end
    local child
    -- string.rep looks whether to collect before it makes garbage, so that the next call collects. While the child lives, the
    -- parent's first write to each page is a page fault, and the collector writes to all objects.
    local function garbage()
      child = kit.start(function() end)
      for i = 1, 200 do
        ("x"):rep(100000 + i)
        called()
      end
    end
    -- Without a pause, the collector works whatever the size of the heap, which earlier specs have made.
    local pause = collectgarbage("setpause", 0)
    finally(function() collectgarbage("setpause", pause) end)
    collectgarbage()
    local prof = assert(perf.profile({ event = util.FAULTS, period = 1 }, garbage))
    local collects, own = 0, 0
    for _, s in ipairs(prof:samples()) do
      local name = s.stack[1].name
      if name == "(garbage collector)" then collects = collects + s.weight end
      if s.stack[1].func == "called" then own = own + s.weight end
    end
    assert(child:go())
    local text = ("%.0f KB\n%s"):format(collectgarbage "count", profiling.text(prof))
    assert.is_true(collects > 0 and own < 10, text) -- its own: a few pages of Lua's stack
  end)
end)

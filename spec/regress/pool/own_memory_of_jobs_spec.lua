-- The story: the counts of a job included the coroutine in which it runs and the table of its results: a job that did nothing had
-- 1128 bytes in 7 blocks of lua-alloc-bytes and lua-alloc-blocks.
local perf = require "perf"

describe("a pool's job", function()
  it("has only its own memory in its counts", function()
    requires { nostress = true }
    local pool = assert(perf.pool { size = 1, cpus = false, events = "lua-alloc-blocks" })
    finally(function() pool:close() end)
    local function blocks(fn, ...)
      local job = assert(pool:submit(fn, ...))
      job:get()
      return job:counts()["lua-alloc-blocks"]
    end
    local function quiet() -- neither the compiler nor the collector needs memory
      if jit then jit.off() end
      collectgarbage "stop"
    end
    local function tables(n)
      local t
      for i = 1, n do t = { i } end
      return t, n, "a result"
    end
    blocks(quiet)
    local none = blocks(tables, 0)
    assert(none <= 1, none) -- the coroutine may need a block for the call itself
    assert.equal(none, blocks(tables, 0))
    local each = blocks(tables, 1) - none
    assert(each == 1 or each == 2, each) -- the table, and its array
    assert.equal(100 * each, blocks(tables, 100) - none)
  end)
end)

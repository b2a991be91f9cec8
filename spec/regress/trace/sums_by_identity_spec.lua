-- The story: to learn whether a tracer had sent meanwhile, a span that finished compared two sums of the cost of sending. These
-- were Counts, which compare by value: all their entries were unpacked, on LuaJIT even if both were the same object. So
-- there, once a tracer had sent within a span, each later span took more than a microsecond longer.
local core = require "perf.core"
local counts = require "perf.counts"
local perf = require "perf"

-- Its __eq compares Counts. (The type of LuaJIT's FFI calls that of packed_class.)
local class = require "perf.base.compiled".ffi and counts.packed_class or core.Counts

-- The number of times that fn compares Counts.
local function comparisons(fn)
  local equal, n = class.__eq, 0
  class.__eq = function(...)
    n = n + 1
    return equal(...)
  end
  local ok, err = pcall(fn)
  class.__eq = equal
  assert(ok, err)
  return n
end

it("spans that finish compare no counts", function()
  requires { perf_open = true }
  local t = assert(perf.tracer { events = "task-clock", delay = 1000, exporter = function() end })
  local function send()
    t:start("sent", { parent = false }):finish()
    assert.is_true(t:flush())
  end
  local outer = t:start "outer"
  send()
  local child, paused = t:start("child", { parent = outer }), t:start("paused", { parent = false })
  send()
  assert.equal(0, comparisons(function()
    child:finish()
    t:start("later", { parent = outer }):finish()
    paused:pause():resume():pause()
    outer:finish()
  end))
  assert.is_truthy(child.excluded)
  assert.is_truthy(outer.excluded)
  assert.equal(1, comparisons(function() return child.counted == outer.counted end)) -- this notices them
  t:close()
end)

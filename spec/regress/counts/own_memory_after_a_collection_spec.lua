-- The story: in PUC Lua getmetatable makes the string "__metatable", which a collection frees. The methods that end a measurement
-- check their object by getmetatable, so perf.start():stop() of nothing had 36 bytes in 1 block. A span also counted its entry in
-- the table of the coroutines' spans, and on Lua 5.1 the coroutine in which tracer:span runs its function: 1432 bytes.
local kit = require "testkit"

-- A state of its own, since the specs and their libraries hold that string. A collection takes unused stack away, which the next
-- calls would need again: so the stack grows before each measurement.
local STATE = [[
  if jit then jit.off() end
  local perf = require "perf"
  local BOTH = "lua-alloc-bytes,lua-alloc-blocks"
  local function nothing() end
  local function deep(n) return n == 0 and 0 or 1 + deep(n - 1) end
  local function collected()
    for _ = 1, 3 do collectgarbage() end
    deep(150)
  end
  collectgarbage "stop"
  local function bytes()
    %s
  end
  local found = {}
  for i = 1, 4 do found[i] = ("%%d"):format(bytes()) end
  return table.concat(found, " ")
]]

local WAYS = {
  { "perf.start and stop", [[
    collected()
    return perf.start(BOTH):stop()["lua-alloc-bytes"] ]] },
  { "a span", [[
    local tracer = perf.tracer { events = BOTH, exporter = nothing }
    local span
    local function work() span = tracer:current() end
    collected()
    tracer:span("work", work)
    return span:totable().counts["lua-alloc-bytes"] ]] },
  { "a span in a coroutine", [[
    local tracer = perf.tracer { events = BOTH, exporter = nothing }
    local span
    local function work() span = tracer:current() end
    coroutine.wrap(function()
      collected()
      tracer:span("work", work)
    end)()
    return span:totable().counts["lua-alloc-bytes"] ]] },
}

describe("a measurement of memory after a collection of garbage counts nothing of its own:", function()
  for _, way in ipairs(WAYS) do
    it(way[1], function()
      requires { nostress = true }
      local ok, text = kit.state(STATE:format(way[2]))
      assert.is_true(ok, text)
      assert.equal("0 0 0", text:match "^%d+ (.*)") -- the first may load modules
    end)
  end
end)

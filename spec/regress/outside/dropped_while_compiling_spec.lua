-- The story: a profiler of another process that the program had dropped stayed open, with its maps, its program and its ring.
-- LuaJIT had compiled a call of a function that had the first profiler as an upvalue, and compiled code keeps such a function
-- alive. Whether it compiled that call depended on addresses, so a spec rarely found it.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local kit = require "testkit"
local outside = require "spec.support.outside"

local code = [[
  local kit, perf, jit = require "testkit", require "perf", rawget(_G, "jit")
  if jit then jit.opt.start("hotloop=1", "hotexit=1") end
  local function open()
    local n = 0
    for _, what in pairs(kit.fds()) do
      if what:find "bpf" then n = n + 1 end
    end
    return n
  end
  local before, most = open(), 0
  for _ = 1, 4 do
    local p = assert(perf.profiler { event = "page-faults", pid = %d })
    assert(open() > before)
    p = nil
    collectgarbage()
    collectgarbage()
    most = math.max(most, open() - before)
  end
  return most
]]

it("a profiler of another process that is dropped is closed, also where everything is compiled at once", function()
  outside.requires()
  local child = assert(kit.start(function() end))
  local ok, most = kit.state(code:format(child:pid()))
  child:go()
  child:wait()
  assert.same({ true, "0" }, { ok, most })
end)

-- The story: an event of a tracepoint took the last descriptor, so the ids of the tracepoints that count the system calls of
-- measurements could not be read after that. The event counted these calls; and if one id was known, later measurements of the
-- other tracepoints counted them, until the process ended.
local kit = require "testkit"

-- In a new Lua state, which has read nothing: open a tracepoint with a number of free descriptors, and measure.
local STATE = [[
  local kit, perf = require "testkit", require "perf"
  if jit then jit.off() end -- a measured call might be compiled, and LuaJIT makes two calls of mprotect for a trace
  collectgarbage "stop" -- free may give memory back to the kernel
  perf.open({ type = "software", config = 2 }):close() -- loads what opens events
  perf.release()
  local function with_free(n, fn, ...)
    local taken, limit = kit.fds(), -1
    for _ = 0, n do
      repeat limit = limit + 1 until not taken[limit]
    end
    local soft = kit.rlimit "nofile"
    kit.rlimit("nofile", limit)
    local ok, result, _, code = pcall(fn, ...)
    kit.rlimit("nofile", soft)
    assert(ok, result)
    return result, code
  end
  local function nothing() end
  %s
]]

local OPENED = STATE:format [[
  local event = %s
  local ev, code = with_free(%d, perf.open, event)
  return table.concat({ ev and ev:measure(nothing).value or code, perf.measure(event, nothing)[1].value,
    perf.measure("raw_syscalls:sys_enter", nothing)[1].value }, " ")
]]

local function result_of(code, ...)
  local ok, result = kit.state(code:format(...))
  assert.is_true(ok, result)
  return result
end

describe("tracefs", function()
  it("is read before a tracepoint takes the last descriptor", function()
    requires { tracefs = true, perf_open = true }
    local id = require "perf".tracepoint("syscalls", "sys_enter_read").config
    for _, event in ipairs { "'syscalls:sys_enter_read'", ("{ type = 'tracepoint', config = %d }"):format(id) } do
      assert.equal("EMFILE 0 0", result_of(OPENED, event, 0))
      assert.equal("0 0 0", result_of(OPENED, event, 1))
    end
  end)
end)

-- The story: the methods of Counts are loaded at their first use. If the measured function was the first to read Counts, the
-- measurement counted the loading: 100 KB of lua-alloc-bytes, and the system calls that open and read the files.
local kit = require "testkit"

local STATE = [[
  if jit then jit.off() end
  local perf = require "perf"
  local function nothing() end
  perf.measure(nothing)
  collectgarbage "stop" -- a collection may shrink Lua's table of strings, which allocates
  local function read() return perf.measure(nothing)["page-faults"] end
  local first = perf.measure("%s", read)
  local second = perf.measure("%s", read)
  return first[1].value .. " " .. second[1].value
]]

describe("a measurement of a function that is the first to read Counts", function()
  for _, event in ipairs { "lua-alloc-bytes", "syscalls:sys_enter_read", "syscalls:sys_exit_openat" } do
    it("does not count the loading of their methods: " .. event, function()
      requires { perf_open = true, tracepoint = event:match ":" and event }
      local ok, text = kit.state(STATE:format(event, event))
      assert.is_true(ok, text)
      local first, second = text:match "^(%d+) (%d+)$"
      assert.equal(second, first)
    end)
  end
end)

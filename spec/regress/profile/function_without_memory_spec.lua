-- The story: if there was no memory for one more function of a profile, the stack lacked this function, and counted as whole: its
-- caller seemed to have called what it had called. Now the sample is counted without a stack.
local core = require "perf.core"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local DEPTH = 600
local EVENT = "syscalls:sys_enter_getppid"

-- Each function is on a line of its own, makes a system call, and calls the next one.
local function chain()
  local text = { "local syscalls, f = ..., {}" }
  for i = 1, DEPTH do
    text[#text + 1] = ("f[%d] = function() syscalls(1) return 1 + (f[%d] and f[%d]() or 0) end"):format(i, i + 1, i + 1)
  end
  text[#text + 1] = "return f[1]"
  local chunk = assert((rawget(_G, "loadstring") or load)(table.concat(text, "\n"), "@chain"))
  if rawget(_G, "jit") then require("jit").off(chunk, true) end
  return chunk(kit.syscalls)
end

-- Checks that no stack lacks a function: between two others, or the innermost one, whose system call would be its caller's second
-- one. Returns how many samples have some functions of the chain.
local function check(prof)
  local n = 0
  for _, s in ipairs(prof:samples()) do
    local before
    if s.stack[1].func == "testkit.syscalls" then
      assert.equal(1, s.count, profiling.text(prof))
    end
    for i = 1, #s.stack do
      local f = s.stack[i]
      if f.source == "chain" and f.linedefined ~= 0 then
        assert.is_true(not before or before == f.linedefined + 1, profiling.text(prof))
        before = f.linedefined
      end
    end
    -- A stack that counts as a failure may end earlier.
    assert.is_true(not before or before == 2 or prof.failures ~= nil, profiling.text(prof))
    if before then n = n + s.count end
  end
  assert.equal(prof.total, profiling.sum(prof))
  return n
end

describe("a stack with a function for which there is no memory", function()
  local run
  before_each(function() run = chain() end)
  after_each(function() core.fault() end)

  for _, call in ipairs { "mremap", "mmap" } do
    it("is not shown without this function, if it is of the own process: " .. call, function()
      requires { tracepoint = EVENT, registers = true }
      local fewer = 0
      for skip = 0, 3 do
        local p = assert(perf.profiler { event = EVENT, period = 1 })
        assert(p:start())
        core.fault(call, "ENOMEM", skip)
        run()
        core.fault()
        local prof = assert(p:stop())
        p:close()
        if check(prof) < DEPTH then fewer = fewer + 1 end
      end
      assert.is_true(fewer > 0)
    end)

    it("is not shown without this function, if it is of another process: " .. call, function()
      outside.requires { tracepoint = EVENT }
      local fewer = 0
      for skip = 0, 3 do
        local child = assert(kit.start(run))
        local p = assert(perf.profiler { event = EVENT, period = 1, pid = child:pid() })
        assert(p:start())
        core.fault(call, "ENOMEM", skip)
        child:go()
        assert.equal(0, (child:wait()))
        local prof = assert(p:stop())
        core.fault()
        p:close()
        if check(prof) < DEPTH then fewer = fewer + 1 end
      end
      assert.is_true(fewer > 0)
    end)
  end
end)

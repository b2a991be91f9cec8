-- The story: if there was no memory for one more function of a profile, the stack lacked this function, and counted as whole: its
-- caller seemed to have called what it had called. Now the sample is counted without a stack.
-- Later: memory is refused at each allocation in turn.
local core = require "perf.core"
local kit = require "testkit"
local outside = require "spec.support.outside"
local perf = require "perf"
local profiling = require "spec.support.profiling"

local FUNCTIONS, DEPTH = 600, 60
local EVENT = "syscalls:sys_enter_getppid"

-- Each function is on a line of its own, makes a system call, and calls the next one. There are ten such chains: the stack of one
-- long chain would be so deep that it may not be read from another process in time.
local function chains()
  local text = { "local syscalls, f = ..., {}" }
  for i = 1, FUNCTIONS do
    local next = i % DEPTH > 0 and ("f[%d]()"):format(i + 1) or 0
    text[#text + 1] = ("f[%d] = function() syscalls(1) return 1 + %s end"):format(i, next)
  end
  text[#text + 1] = "return f"
  local chunk = assert((rawget(_G, "loadstring") or load)(table.concat(text, "\n"), "@chain"))
  if rawget(_G, "jit") then require("jit").off(chunk, true) end
  local f = chunk(kit.syscalls)
  return function()
    for i = 1, FUNCTIONS, DEPTH do f[i]() end
  end
end

local function complain(prof) error("a stack lacks a function:\n" .. profiling.text(prof), 0) end

-- Checks that no stack lacks a function: neither one between two others, nor the outermost one, nor the innermost one, whose
-- system call would count as its caller's second one. Returns how many samples have some functions of a chain.
local function check(prof)
  local n = 0
  for _, s in ipairs(prof:samples()) do
    local before
    if s.stack[1].func == "testkit.syscalls" and s.count ~= 1 then complain(prof) end
    for i = 1, #s.stack do
      local f = s.stack[i]
      if f.file == "chain" and f.linedefined ~= 0 then
        if before and before ~= f.linedefined + 1 then complain(prof) end
        before = f.linedefined
      end
    end
    if before then
      if (before - 2) % DEPTH > 0 and not prof.failures then complain(prof) end -- a stack that is a failure may end earlier
      n = n + s.count
    end
  end
  assert.equal(prof.total, profiling.sum(prof))
  return n
end

describe("a stack with a function for which there is no memory", function()
  local run
  before_each(function() run = chains() end)
  after_each(function() core.fault() end)

  for _, call in ipairs { "mremap", "mmap" } do
    it("is not shown without this function, if it is of the own process: " .. call, function()
      requires { perf_open = "user", tracepoint = EVENT, registers = true }
      local fewer = 0
      for skip = 0, 3 do
        local p = assert(perf.profiler { event = EVENT, period = 1 })
        assert(p:start())
        core.fault(call, "ENOMEM", skip)
        run()
        core.fault()
        local prof = assert(p:stop())
        p:close()
        if check(prof) < FUNCTIONS then fewer = fewer + 1 end
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
        if check(prof) < FUNCTIONS then fewer = fewer + 1 end
      end
      assert.is_true(fewer > 0)
    end)
  end
end)

-- The key of a stack, by which the kernel counts the samples of a stack that is known, lacked the lines of the functions'
-- instructions. A function that lay in the memory of another one, and differed in these lines alone, had its samples in the
-- lines of that one.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

local event = "syscalls:sys_enter_getppid"
local load = rawget(_G, "loadstring") or load

local function profile(fn) return (outside.profile({ event = event }, fn)) end

-- The samples that are in the chunk "=page", by their lines.
local function by_line(prof)
  local lines = {}
  for _, s in ipairs(prof:samples()) do
    for _, f in ipairs(s.stack) do
      if f.name:find("^page:") then lines[f.line] = (lines[f.line] or 0) + s.weight end
    end
  end
  return lines
end

describe("the key of a stack, outside", function()
  before_each(function()
    outside.requires { tracepoint = event }
  end)

  -- All functions have as many instructions and lines, the same name and first line. They begin with some code on that line.
  local function check(code)
    local function of_line(line)
      local text = { "local syscalls = ... return function(n) " .. code .. " for i = 1, n do" }
      for i = 2, 10 do text[i] = i == line and "syscalls(1)" or "" end
      text[11] = "end return n end"
      assert(load(table.concat(text, "\n"), "=page"))(kit.syscalls)(100 * line)
    end
    local prof = profile(function()
      for _ = 1, 3 do
        for line = 2, 10 do
          of_line(line)
          collectgarbage()
          collectgarbage()
        end
      end
    end)
    -- A profiler that is slower than the program loses samples, but none is on another line.
    local lines, text, sum = by_line(prof), profiling.text(prof), prof.accounting.dropped
    for line = 2, 10 do
      assert.is_true(lines[line] <= 300 * line, text)
      sum = sum + lines[line]
    end
    assert.equal(300 * 54, tonumber(sum), text)
  end

  it("tells functions apart that differ in the lines of their instructions", function() check "" end)

  -- The key had only the first 512 bytes of the lines.
  it("tells long functions apart, which have no key", function() check("local k = 0 " .. ("k = k + 1 "):rep(3000)) end)
end)

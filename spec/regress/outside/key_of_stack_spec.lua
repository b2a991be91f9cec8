-- The key of a stack, by which the kernel counts the samples of a stack that is known, lacked the lines of the functions'
-- instructions. A function that lay in the memory of another one, and differed in these lines alone, had its samples in the
-- lines of that one. Later the key lacked only the lines that Lua 5.4 stores apart: those of instructions whose line is 128 or
-- more lines away from that of the instruction before.
-- Later: it takes tens of thousands of samples.
local kit = require "testkit"
local outside = require "spec.support.outside"
local profiling = require "spec.support.profiling"

local event = "syscalls:sys_enter_getppid"
local load = rawget(_G, "loadstring") or load
local string = rawget(_G, "string") -- pack and unpack are there since Lua 5.3

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
      local n = lines[line] or 0
      assert.is_true(n <= 300 * line, text)
      sum = sum + n
    end
    assert.equal(300 * 54, tonumber(sum), text)
  end

  it("tells functions apart that differ in the lines of their instructions", function() check "" end)

  -- The function is changed where it lies: another one that lay there would have nothing else that differs.
  it("tells functions apart that differ in a line that is stored apart", function()
    requires { lua = "5.4" }
    if string.packsize "T" ~= 8 then pending "the structures are those of 64 bits" end
    local text = "local syscalls = ... return function(n)" .. ("\n"):rep(140) .. "for i = 1, n do syscalls(1) end return n end"
    local fn = assert(load(text, "=page"))(kit.syscalls)
    local function word(at) return (string.unpack("T", kit.peek(at, 8))) end
    local prototype = word(tonumber(("%p"):format(fn)) + 24)
    local stored = word(prototype + 96)
    assert.equal(141, (select(2, string.unpack("i4i4", kit.peek(stored, 8)))))
    local prof = profile(function()
      for k = 1, 9 do
        kit.poke(stored + 4, string.pack("i4", 200 + k))
        fn(100 * k)
      end
    end)
    local lines, shown, sum = by_line(prof), profiling.text(prof), prof.accounting.dropped
    for k = 1, 9 do
      assert.is_true((lines[200 + k] or 0) <= 100 * k, shown)
      sum = sum + (lines[200 + k] or 0)
    end
    assert.equal(4500, tonumber(sum), shown)
  end)

  -- The key had only the first 512 bytes of the lines.
  it("tells long functions apart, which have no key", function() check("local k = 0 " .. ("k = k + 1 "):rep(3000)) end)
end)

-- The story: when a C function returns, Lua stores its first result in the place of the function, the value before the type. On
-- Lua 5.4 a sample between the two stores took an integer for the address of a C function: 2 % of the samples of a loop calling
-- string.len had a frame "function 0x7d1".
local perf = require "perf"
local profiling = require "spec.support.profiling"

it("an integer that a C function returns is not taken for a function", function()
  requires { puc = true, perf_open = true, registers = true, nostress = true }
  local text, samples = ("x"):rep(2001), 0
  local function measure()
    local len, sum = string.len, 0
    for _ = 1, 1e6 do sum = sum + len(text) end
    return sum
  end
  repeat
    local prof = assert(perf.profile({ event = "task-clock", freq = 5000 }, measure))
    for _, s in ipairs(prof:samples()) do
      samples = samples + s.count
      for _, f in ipairs(s.stack) do assert.is_not.equal("function 0x7d1", f.name, profiling.text(prof)) end
    end
  until samples >= 1000
end)

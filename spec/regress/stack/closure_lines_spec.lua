-- The story: in a loop with one line that makes a function, Lua 5.4 showed all samples on that line. The interpreter's loop
-- leaves the pc of that instruction on the C stack, and the unwinder took it before the register that has the pc of the
-- instruction that runs.
local perf = require "perf"
local profiling = require "spec.support.profiling"

it("arithmetic beside a line that makes functions is shown on its own lines", function()
  requires { perf_open = true, registers = true, puc = true, nostress = true }
  local line
  collectgarbage "stop" -- its work, all on one line, grows with what other specs have left
  finally(function() collectgarbage "restart" end)
  local prof = perf.profile({ freq = 4000 }, function()
    local f, a, b = nil, 1, 2
    line = profiling.next_line() + 1
    for i = 1, 1e6 do
      f = function() return f end
      a = (a * 3 + i) % 1000003
      b = (b * 5 + a) % 1000003
    end
    return a + b, f
  end)
  for i = line, line + 2 do
    assert.is_true(profiling.on_line(prof, i) > 0.03 * tonumber(prof.total), profiling.text(prof))
  end
end)

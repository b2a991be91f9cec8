-- The story: while the profiler runs, a thread has an alternate stack, where the program's handlers with SA_ONSTACK run. Samples
-- in such a handler had no stack ("no thread"), since the unwinder looked for the interpreter's frames above the handler's own.
local kit = require "testkit"
local perf = require "perf"
local profiling = require "spec.support.profiling"

describe("a program's handler on the alternate stack", function()
  for _, size in ipairs { false, 65536 } do
    it("is on the line that it has interrupted; the program's own stack: " .. tostring(size), function()
      requires { perf_open = true, registers = true }
      kit.alternate_stack(size)
      local line
      local prof = perf.profile({ event = "page-faults:u", period = 1 }, function()
        line = profiling.next_line()
        kit.touch_in_handler(500)
        return 1
      end)
      kit.alternate_stack(false)
      profiling.check(assert, prof, 500, line)
      assert.is_nil(prof.failures)
    end)
  end
end)

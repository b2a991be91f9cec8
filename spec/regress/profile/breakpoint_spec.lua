-- The story: on kernels before Linux 4.17 a descriptor sends its signals with si_code POLL_IN, which the handler of SIGTRAP
-- recognized. A breakpoint instruction has the same number, TRAP_BRKPT. On arm64 __builtin_trap() is such an instruction: a
-- profiled program that met it did not end, but executed it again and again.
local kit = require "testkit"
local perf = require "perf"

describe("a breakpoint in a profiled program", function()
  it("ends the program, as it would without the profiler", function()
    requires { perf_open = true, paranoid = 2 }
    local status, text = kit.fork(function()
      local p = assert(perf.profiler { event = "page-faults:u" })
      assert(p:start())
      kit.breakpoint()
      return "went on"
    end)
    assert.equal("", text)
    assert.equal(-5, status)
  end)
end)

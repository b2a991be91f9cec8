-- The story: one profiler more than can run at once was refused with "enable: Device or resource busy", which names neither the
-- limit nor a remedy. Twice: the limit is that of a table in C.
local perf = require "perf"

local MOST = 64 -- PF_TRAP_MOST of csrc/core/profile/trap.h

describe("the number of profilers that run at once", function()
  it("is limited, and the refusal says so", function()
    requires { perf_open = true, registers = true, root = true, nostress = true }
    local running = {}
    for i = 1, MOST do
      running[i] = assert(perf.profiler { event = "page-faults:u" })
      assert(running[i]:start())
    end
    local another = assert(perf.profiler { event = "page-faults:u" })
    local ok, message, code = another:start()
    assert.same({ nil, "EBUSY" }, { ok, code })
    assert.matches("64 profilers run in this process, and no more can: stop one", message, 1, true)
    running[1]:stop()
    assert(another:start())
    another:stop()
    for i = 2, MOST do running[i]:stop() end
  end)
end)

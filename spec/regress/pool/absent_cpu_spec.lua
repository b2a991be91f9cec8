-- The story: perf.pool { cpus = { 99 } } on a machine of two CPUs was refused with "CPU 99: sched_setaffinity: Invalid argument",
-- which does not say what is invalid. For CPU 2000, for which a set of CPUs has no room, the message named a line of the library.
local perf = require "perf"

describe("a pool on a CPU that the machine lacks", function()
  it("is refused with the reason", function()
    for _, cpu in ipairs { 1023, 2000, 2 ^ 31 - 1 } do
      if not require "perf.kernel.host".cpus "possible".has[cpu] then
        local pool, message, code = perf.pool { cpus = { cpu } }
        assert.is_nil(pool)
        assert.equal(("CPU %d: sched_setaffinity: Invalid argument (it does not exist or is offline, or the process's cpuset "
          .. "excludes it)"):format(cpu), message)
        assert.equal("EINVAL", code)
      end
    end
  end)
end)

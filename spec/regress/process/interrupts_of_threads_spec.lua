-- The story: two threads that began a recording at the same time could both take over SIGINT, SIGTERM, SIGHUP and SIGQUIT. The
-- second one saved the first one's handler as the previous one, and restored that: from then on the process only remembered these
-- signals, and SIGTERM did not end it. Twice: C takes over the signals.
local core = require "perf.core"
local perf = require "perf"

-- Those of the signals 1 to 16 that have a handler. (glibc takes 32 and 33 with the first thread.)
local function handled()
  local file = assert(io.open "/proc/self/status")
  local text = file:read "*a"
  file:close()
  return text:match "\nSigCgt:%s*%x-(%x%x%x%x)\n"
end

describe("signals that two threads catch in turn", function()
  it("have their previous handlers afterwards", function()
    local before, jobs = handled(), {}
    local pool = assert(perf.pool { size = 2 })
    for i = 1, 2 do
      jobs[i] = assert(pool:submit(function()
        local inner = require "perf.core"
        for _ = 1, 100000 do
          if inner.catch_interrupts() then inner.release_interrupts() end
        end
        return true
      end))
    end
    for i = 1, 2 do assert.is_true(jobs[i]:get(120)) end
    pool:close()
    assert.equal(before, handled())
    assert.is_true(core.catch_interrupts())
    local _, _, code = core.catch_interrupts()
    assert.equal("EBUSY", code)
    core.release_interrupts()
    core.release_interrupts()
    assert.equal(before, handled())
  end)
end)

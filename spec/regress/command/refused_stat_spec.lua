-- The story: after missing events no longer ended luaperf stat, missing permissions did not either. For an ordinary user luaperf
-- stat -a, and -p with another user's process, printed an empty table and exited with 0; with -e they printed <not supported>,
-- and waited. Now both exit with 255 and the reason if no event can be opened for lack of permission. Twice: the kernel refuses.
local as_nobody = require "spec.support.nobody"

describe("luaperf stat without permission", function()
  before_each(function() requires { root = true, perf_open = true, nosan = true, cmd = "flock" } end)

  local function stat(opts)
    opts.timeout = 0.05
    return as_nobody(2, function()
      local status, message, code = require "perf.command.stat".run(opts, {}, {})
      return ("%s %s: %s"):format(tostring(status), tostring(code), tostring(message))
    end)
  end

  it("refuses -a, with the default events and with others", function()
    local reason = "^nil EACCES: %s: perf_event_open: Permission denied %%(kernel.perf_event_paranoid is 2, and must be 0 or less"
    assert.matches(reason:format "task%-clock", stat { all_cpus = true })
    assert.matches(reason:format "page%-faults:u", stat { all_cpus = true, events = "no_such_pmu/event=1/,page-faults" })
  end)

  -- The advice was to count user space only, which had been tried and refused.
  it("gives the reason why user space alone was refused", function()
    assert.equal(nil, stat { pid = { 1 }, events = "page-faults" }:match "count user space only")
    assert.matches("^nil EACCES: page%-faults:u: .*process 1 belongs to uid 0", stat { pid = { 1 }, events = "page-faults" })
  end)

  it("refuses -p of another user's process", function()
    local said = stat { pid = { 1 }, events = "page-faults:u" }
    assert.matches("^nil EACCES: page%-faults:u: perf_event_open: Permission denied ", said)
  end)
end)

-- The story: under a filter of system calls that refused the handler of SIGTRAP, the event's first sample ended the process.
local kit = require "testkit"
local perf = require "perf"

it("where SIGTRAP can have no handler, a profile is refused and the process goes on", function()
  requires { perf_open = true, seccomp = true }
  assert.equal(0, kit.fork(function()
    assert(kit.refuse("rt_sigaction", 1))
    local prof, err = perf.profile({ freq = 5000 }, function() for _ = 1, 1e6 do end end)
    assert(prof == nil and tostring(err):find("the handler of SIGTRAP: Operation not permitted", 1, true), tostring(err))
  end))
end)

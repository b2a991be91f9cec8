-- The story: luaperf record -p 1, as a user without permission, ended with "attempt to concatenate local 'word' (a nil value)"
-- instead of the reason. A refusal with EACCES was attributed to the program to be run, and with -p and -a there is none. For the
-- same reason, when the events were refused, the message said that the program's file was not executable. Twice: the kernel
-- refuses.
local as_nobody = require "spec.support.nobody"

describe("luaperf record without permission", function()
  it("gives the reason for another user's process, and for the machine", function()
    requires { root = true, perf_open = true, nosan = true, cmd = "flock" }
    local words = { [3] = { "/bin/sh", "-c", ":" } }
    for i, opts in ipairs { { pid = { 1 } }, { all_cpus = true }, {} } do
      opts.timeout, opts.output, opts.events = 0.05, "/dev/null", "page-faults"
      assert.matches("^nil EACCES: [^\n]*: Permission denied %(kernel.perf_event_paranoid is 2[^()]*%)$", as_nobody(2, function()
        local said
        require "perf.command.terminal".error = function(text) said = text end
        local status, message, code = require "perf.command.record".run(opts, words[i] or {}, {})
        assert((said ~= nil) == (i == 1) and (not said or said:find("that needs CAP_SYS_PTRACE", 1, true)), said)
        return ("%s %s: %s"):format(tostring(status), tostring(code), tostring(message))
      end))
    end
  end)
end)

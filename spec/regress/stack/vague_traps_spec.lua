-- The story: the learner of PUC Lua's unwinder lets the processor trap after each instruction of a probe. In a virtual machine
-- one of some million traps did not say what it was, and the kernel took it for a breakpoint. The learner left its signal to the
-- program, which had no handler: the first profile of a process ended it by SIGTRAP.
local util = require "spec.support.util"

it("a trap that looks like a breakpoint is a step of the learner too", function()
  requires { puc = true, perf_open = "user", registers = true, nosan = true }
  util.with_tmpname(function(path)
    util.write_file(path, [[
      local prof = assert(require "perf".profile({ event = "page-faults:u", period = 1 }, function() end))
      io.write(prof.method)
    ]])
    local kit = package.searchpath("testkit", package.cpath)
    local output, status = util.shell(("LD_PRELOAD=%s KIT_VAGUE_TRAPS=1 %s %s"):format(kit, util.lua(), path))
    assert.same({ "registers", 0 }, { output, status })
  end)
end)

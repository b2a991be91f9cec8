-- The story: a program may set SA_SIGINFO together with SIG_IGN or SIG_DFL, as Go's runtime does. The profiler's handler of
-- SIGTRAP took the flag for a handler and passed a foreign signal on to it: the program ended by a jump to address 0 or 1.
local kit = require "testkit"
local perf = require "perf"

local SIGTRAP = 5

describe("a SIGTRAP from elsewhere, of a program without a handler but with SA_SIGINFO", function()
  -- ignore: as kit.no_handler has it
  local function send(ignore)
    return kit.fork(function()
      kit.no_handler(SIGTRAP, ignore)
      local p = assert(perf.profiler { event = "page-faults:u" })
      assert(p:start())
      kit.kill(kit.getpid(), SIGTRAP)
      return "went on"
    end)
  end

  it("is ignored if the program ignores it", function()
    requires { perf_open = true, paranoid = 2 }
    local status, text = send(true)
    assert.equal("went on", text)
    assert.equal(0, status)
  end)

  it("ends the program by SIGTRAP otherwise", function()
    requires { perf_open = true, paranoid = 2 }
    local status, text = send(false)
    assert.equal("", text)
    assert.equal(-SIGTRAP, status)
  end)
end)

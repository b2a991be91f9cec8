-- The story: a profile of every system call of a script had 9 calls of the session that began it and 7 more after the script, all
-- of them for signals: luaperf began to profile before it set its handlers, and set others before it stopped. And the program
-- that ran the script was "function 0x55a0a08ac380", another one in each run, so that profiles could not be compared.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("luaperf record", function()
  local function record(script)
    local stacks
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", script)
      stacks = luaperf.shell(dir, "luaperf record -e syscalls:sys_enter_rt_sigaction -o a.folded a.lua 2>&1; cat a.folded")
    end)
    return stacks
  end

  it("has no system call of its own in a profile", function()
    requires { perf_open = "user", tracepoint = "syscalls:sys_enter_rt_sigaction" }
    for _, script in ipairs { "local n = 0 for i = 1, 1000 do n = n + i end", "os.exit(0)", "os.exit(0, true)" } do
      local stacks = record(script)
      assert.matches("samples? of syscalls:sys_enter_rt_sigaction in a.folded", stacks)
      assert.is_nil(stacks:find("session.lua", 1, true), stacks)
      assert.is_nil(stacks:find("(unsampled)", 1, true), stacks)
      assert.is_nil(stacks:find("function 0x", 1, true), stacks)
    end
  end)
end)

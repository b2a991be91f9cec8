-- The story: the events alloc and heap are those of a Lua script. For a program, for luaperf stat and with a modifier they were
-- an "unknown event". With -p the message was about "the option 'pid'", and it advised to record alloc into a perf.data file,
-- which was refused too. Twice: the messages are those of luaperf.
local luaperf = require "spec.support.luaperf"
local util = require "spec.support.util"

describe("luaperf by Lua's memory", function()
  local function try(command)
    local output
    util.with_directory(function(dir)
      output = luaperf.shell(dir, "echo 'print(1)' >a.lua; luaperf " .. command .. " 2>&1; echo $?")
    end)
    return output
  end

  it("says that only a Lua script is profiled by it", function()
    requires { perf_open = true }
    local only = ": Lua's memory, not an event of the kernel: only a Lua script is profiled by it\n129\n"
    assert.equal("luaperf: alloc" .. only, try "stat -e alloc a.lua")
    assert.equal("luaperf: heap" .. only, try "record -e heap true")
    assert.equal("luaperf: alloc:u" .. only, try "record -e alloc:u a.lua")
    assert.equal("luaperf: alloc" .. only, try "record -e alloc -p $$ -o x.data --timeout 0.1")
  end)

  it("does not advise to record another process's memory into a file", function()
    requires { ext = { "bpf", "outside" } }
    assert.equal("luaperf: heap: a process profiles only its own memory: luaperf record -e heap script.lua, or perf.profiler "
      .. "in the program\n255\n", try "record -e heap -p $$ -o x.html --timeout 0.1")
  end)
end)

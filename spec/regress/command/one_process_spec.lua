-- The story: for a process of another interpreter, luaperf ran a second luaperf as its child. If the first was killed by SIGKILL,
-- the second went on profiling; and after ^Z, fg could not wake it, since it stopped later than the first.
local util = require "spec.support.util"

it("luaperf goes on under the interpreter of a process as the same process", function()
  util.with_tmpname(function(path)
    util.write_file(path, [[
      require "perf.outside.seen".first_interpreter = function() return "env" end
      io.write(require "perf.core".pid(), "\n")
      io.stdout:flush()
      local run = require "perf.command.run"
      print("it has returned", run.by_interpreter_of({ 1 }, { interpreter = { [0] = "sh", "-c", 'echo "$$ $LUA"' } }))]])
    local f = assert(io.popen(("env -u LUA %s %s"):format(util.lua(), path)))
    local text = f:read "*a"
    f:close()
    local first = text:match "^(%d+)\n"
    assert.equal(("%s\n%s env\n"):format(first, first), text)
  end)
end)

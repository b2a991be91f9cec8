-- The story: luaperf record -p PID looked for the interpreter of the process to choose between a profile by Lua line and a
-- perf.data file, and then again to run under it. A search reads the program's files, which took 0.2 s each time.
local core = require "perf.core"
local record = require "perf.command.record"
local seen = require "perf.outside.seen"
local util = require "spec.support.util"

it("luaperf record -p looks for the interpreter of a process once", function()
  local interpreter, getenv, n = seen.interpreter, os.getenv, 0
  finally(function()
    seen.interpreter, os.getenv = interpreter, getenv -- luacheck: ignore 122
  end)
  function seen.interpreter(pid)
    n = n + 1
    return interpreter(pid)
  end
  function os.getenv(name) return name ~= "LUA" and getenv(name) or nil end -- luacheck: ignore 122
  -- The own process is refused after the search.
  util.with_tmpname(function(path)
    local status, _, code = record.run({ pid = { core.pid() }, output = path }, {}, { interpreter = {} })
    assert.same({ nil, "ENOTSUP", 1 }, { status, code, n })
  end)
end)

-- The story: with 12 or 13 descriptors (ulimit -n) luaperf printed nothing, or "luaperf: 12: 1: Too many open files", and ended
-- with status 0. The shell that looks for an interpreter kept copies of stdout and stderr while it redirected them, and if there
-- was no descriptor left for the second copy, it went on with the output in /dev/null.
-- Twice: it is the shell that looks for an interpreter, and the interpreter has no part in it.
local luaperf = require "spec.support.luaperf"

describe("luaperf with few descriptors", function()
  -- With fewer than 12 Debian's shell cannot read a script, and says so itself.
  local function try(limit, variable)
    return luaperf.shell("/tmp", ("unset LUA; %s; (ulimit -n %d; $root/bin/luaperf list page-faults) 2>&1")
      :format(variable, limit))
  end

  local function all(variable, wanted, status_wanted)
    local works = 0
    for limit = 4, 24 do
      local output, status = try(limit, variable)
      if output:find(wanted) then
        assert.equal(status_wanted, status, output)
        works = works + 1
      else
        assert.is_true(status ~= 0 and output ~= "", ("%d descriptors: status %d: %s"):format(limit, status, output))
        assert.is_nil(output:find "luaperf: %d+: ", output) -- a line of the program in a message of the shell
      end
    end
    assert.is_true(works > 0)
  end

  it("does what it should, or says why not", function()
    requires { nosan = true }
    all(":", "^NAME .*\npage%-faults", 0)
    all("export LUA=nolua", "^luaperf: LUA=nolua: no such interpreter\n$", 127)
    all("export PATH=$PWD/none", "luaperf: no interpreter here has the module perf: ", 127)
  end)
end)

-- The story: ^C in `luaperf stat -r 100 app.lua` on Lua 5.4. Between two runs it ended luaperf with "interrupted!" and without
-- the means. A child that waited for its start died of it, so that its counters or the tracing were refused. A child that was
-- traced already stopped before its exec, and luaperf waited for it forever. And the part of the run that ^C ended was in the
-- means. Now the signals stay pending in the child until it is started, luaperf handles them from the first run to the last, and
-- the means are those of the complete runs. Twice: C holds and passes on the signals.
local core = require "perf.core"
local luaperf = require "spec.support.luaperf".shell
local util = require "spec.support.util"

local SIGINT = 2

describe("an interrupt", function()
  it("is pending in the child until the program starts, and then ends it, traced or not", function()
    for _, traced in ipairs { false, true } do
      local process = assert(core.spawn { "sleep", "60" })
      if not traced or process:trace() then
        assert(process:kill(SIGINT))
        assert.is_false(process:wait())
        assert(process:start())
        if traced then assert.is_false(process:until_open "/nowhere") end
        assert.same({ signal = SIGINT }, process:wait(true))
      end
      process:close()
    end
  end)

  it("ends luaperf stat -r with the means of the earlier runs", function()
    requires { perf_open = "user" }
    for _, ending in ipairs { "exec sleep 60", "exit 0" } do
      util.with_directory(function(dir)
        util.write_file(dir .. "/a.sh", "echo >>n; [ $(wc -l <n) -lt 3 ] || { kill -INT $PPID; " .. ending .. "; }\n")
        local output, status = luaperf(dir, "luaperf stat -r 100 -e task-clock:u sh a.sh")
        assert.equal(-SIGINT, status, output)
        assert.matches("sh a.sh, mean of 2 of 100 runs:\n", output, 1, true)
      end)
    end
  end)

  -- The story: a program that failed in the first of three runs got the table of one run, as without -r.
  it("or a failure leaves a result that tells how many runs it is of", function()
    requires { perf_open = "user" }
    for fails, title in pairs { ["1"] = "sh a.sh, run 1 of 3:\n", ["2"] = "sh a.sh, mean of 2 of 3 runs:\n" } do
      util.with_directory(function(dir)
        util.write_file(dir .. "/a.sh", "echo >>n; [ $(wc -l <n) -lt " .. fails .. " ]\n")
        local output, status = luaperf(dir, "luaperf stat -r 3 -e task-clock:u sh a.sh")
        assert.equal(1, status, output)
        assert.matches(title, output, 1, true)
      end)
    end
    util.with_directory(function(dir)
      local json = luaperf(dir, "luaperf stat -r 3 -e task-clock:u -o a.json sh -c 'exit 1'; cat a.json")
      assert.equal(1, #require "perf.base.json".decode(json:match "{.*").runs)
    end)
  end)

  it("of luaperf itself is not reported as a mistake in the options", function()
    local command, saved = require "perf.command", package.loaded["perf.command.list"]
    package.loaded["perf.command.list"] = { options = {}, run = function() error "interrupted!" end }
    local status = command.main { "list" }
    package.loaded["perf.command.list"] = saved
    assert.equal(130, status)
  end)

  -- The story: ^C in the first milliseconds of `luaperf stat -p` was lost once in a hundred times, and luaperf counted until the
  -- process ended. To find out whether stderr is a terminal it called `os.execute "test -t 2"`, and the C library ignores SIGINT
  -- while a shell runs.
  it("is not ignored while luaperf checks whether stderr is a terminal", function()
    local terminal = require "perf.command.terminal"
    local execute = os.execute
    os.execute = function() error "SIGINT is ignored meanwhile" end -- luacheck: ignore 122
    local ok, watched = pcall(terminal.watched)
    os.execute = execute -- luacheck: ignore 122
    assert.is_true(ok, watched)
    assert.is_boolean(watched)
  end)
end)

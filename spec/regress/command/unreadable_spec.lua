-- The stories: `luaperf list 'sched:*'` of a user who may not read tracefs said that no event matches, and `luaperf stat un.lua`
-- of a user who may not read the script said that it does not exist. Both now name the permission.
local kit = require "testkit"
local as_nobody = require "spec.support.nobody"
local command = require "perf.command.list"
local list = require "perf.names.list"
local pmu = require "perf.kernel.pmu"
local run = require "perf.command.run"
local tracefs = require "perf.kernel.tracefs"
local util = require "spec.support.util"

describe("a list of tracepoints without tracefs", function()
  local nowhere = tracefs.new { "/no/such/directory" }

  it("is empty, and has the reason that perf.open gives", function()
    local rows, message, code = list.of(pmu.here, nowhere, "sched:*")
    assert.equal(0, #rows)
    assert.same({ select(2, nowhere:names()) }, { message, code })
    assert.matches("tracefs is not mounted; as root: mount", message)
  end)

  it("has no reason if other events match, or if all were found", function()
    assert.equal(1, select("#", list.of(pmu.here, nowhere, "page-faults")))
    local empty = { names = function() return {} end }
    assert.equal(1, select("#", list.of(pmu.here, empty, "sched:*")))
  end)

  it("is refused by luaperf with that reason", function()
    local perf = require "perf"
    local here = perf.list
    finally(function() perf.list = here end)
    function perf.list(pattern) return list.of(pmu.here, nowhere, pattern) end
    for _, pattern in ipairs { "syscalls:*", "tracepoint" } do
      local message, code = select(2, command.run({}, { pattern }))
      assert.equal(pattern .. ": " .. select(2, nowhere:names()), message)
      assert.equal("ENOENT", code)
    end
    assert.same({ "no event matches 'no-such'; " .. select(2, nowhere:names()), "ENOENT" },
      { select(2, command.run({}, { "no-such" })) })
    assert.same({ "heap: Lua's memory, not an event of the kernel: luaperf record -e heap script.lua", "ENOENT" },
      { select(2, command.run({}, { "heap" })) })
  end)
end)

describe("a script that may not be read", function()
  it("is refused for that reason, not as one that does not exist", function()
    requires { root = true, perf_open = "user", nostress = true, cmd = "flock" }
    util.with_directory(function(dir)
      util.execute("chmod 755 " .. dir)
      util.write_file(dir .. "/un.lua", "")
      util.execute(("chmod 600 %s/un.lua"):format(dir))
      local message = as_nobody(2, function()
        assert(kit.chdir(dir))
        return run.why("un.lua", "un.lua: exec: No such file or directory", "ENOENT")
      end)
      assert.equal("un.lua: Permission denied", message)
    end)
  end)
end)

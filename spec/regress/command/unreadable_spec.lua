-- The stories: `luaperf list 'sched:*'` of a user who may not read tracefs said that no event matches, and `luaperf stat un.lua`
-- of a user who may not read the script said that it does not exist. Both now name the permission. And `luaperf list fault` of
-- such a user showed the other events as if there were no tracepoints. Twice: the kernel refuses.
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

describe("a list of other events without tracefs", function()
  local perf = require "perf"
  local terminal = require "perf.command.terminal"

  local list_here, names_here, error_here, write_here = perf.list, perf.tracepoints, terminal.error, terminal.write
  after_each(function()
    perf.list, perf.tracepoints, terminal.error, terminal.write = list_here, names_here, error_here, write_here
  end)

  -- Run luaperf list; return the lines that it prints to stderr.
  local function said(wanted, opts, from)
    local text = {}
    function perf.list(pattern) return list.of(pmu.here, from, pattern) end
    function perf.tracepoints() return from:names() end
    function terminal.error(message) text[#text + 1] = message end
    function terminal.write() return true end
    assert.equal(0, (command.run(opts or {}, { wanted })))
    return text
  end

  it("says that the tracepoints are left out, unless another kind or only the names are wanted", function()
    local nowhere = tracefs.new { "/no/such/directory" }
    local all = { names = function() return { "exceptions:page_fault_user" } end }
    local message = "tracepoints are left out: " .. select(2, nowhere:names())
    for _, pattern in ipairs { "fault", "cpu*" } do assert.same({ message }, said(pattern, nil, nowhere)) end
    assert.same({ message }, said(nil, nil, nowhere))
    for _, kind in ipairs { "software", "hw", "HARDWARE", "memory" } do assert.same({}, said(kind, nil, nowhere)) end
    assert.same({}, said("fault", { raw_dump = true }, nowhere))
    assert.same({}, said("fault", nil, all))
    assert.same({}, said("cpu*", nil, all))
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

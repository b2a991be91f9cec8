local core = require "perf.core"
local load = require "perf.profile.load"
local terminal = require "perf.command.terminal"
local util = require "spec.support.util"

describe("perf.command.terminal", function()
  local now, is_terminal, stderr = core.wall_ns, core.is_terminal, io.stderr
  local clock, written
  before_each(function()
    clock, written = 0, {}
    core.wall_ns = function() return clock end
    core.is_terminal = function() return true end
    rawset(io, "stderr", { write = function(_, ...) written[#written + 1] = table.concat { ... } end, flush = function() end })
  end)
  after_each(function()
    core.wall_ns, core.is_terminal = now, is_terminal
    rawset(io, "stderr", stderr)
  end)

  it("shows the progress of work that takes a second or more, once a second", function()
    local tell = terminal.slow "reading x"
    for _, at in ipairs { 0, 0.5, 0.999, 1.2, 1.5, 3.1, 3.2 } do
      clock = at * 1e9
      tell()
    end
    assert.same({ "\rreading x: 1 s\27[K", "\rreading x: 3 s\27[K" }, written)
  end)

  -- The story: luaperf annotate and doctor wrote colours to every terminal.
  it("has colours on a terminal, unless the environment forbids them", function()
    local getenv, environment = os.getenv, {}
    rawset(os, "getenv", function(name) return environment[name] end)
    finally(function() rawset(os, "getenv", getenv) end)
    assert.is_true(terminal.has_colours())
    for name, value in pairs { NO_COLOR = "1", TERM = "dumb" } do
      environment = { [name] = value }
      assert.is_false(terminal.has_colours(), name)
    end
    environment = { NO_COLOR = "", TERM = "xterm" }
    assert.is_true(terminal.has_colours())
    core.is_terminal = function(fd) return fd ~= 1 end
    assert.is_false(terminal.has_colours())
  end)

  it("shows nothing if stderr is not a terminal", function()
    core.is_terminal = function() return false end
    assert.is_nil(terminal.slow "reading x")
  end)
end)

it("a file's reader lets its caller show progress", function()
  util.with_directory(function(dir)
    util.write_file(dir .. "/a.folded", "main;f 3\n")
    local prof = assert(load.all(dir .. "/a.folded"))[1]
    for _, name in ipairs { "a.json", "a.data" } do
      local times = 0
      assert(prof:save(dir .. "/" .. name))
      assert(load.all(dir .. "/" .. name, function() times = times + 1 end))
      assert.is_true(times > 0, name)
    end
  end)
end)

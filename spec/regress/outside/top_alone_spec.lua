-- The story: the key w of luaperf top showed nginx's master as a process alone, but a profile of the master has all workers.
-- Once: it depends on the list of processes only.
local unpack = table.unpack or unpack
local host = require "perf.kernel.host"
local top_screen = require "perf.command.top_screen"

it("luaperf top shows only processes without children alone, one after the other, then all", function()
  local descendants, children = host.descendants, { [10] = { 30, 20, 21 }, [20] = { 21 } }
  finally(function() host.descendants = descendants end)
  host.descendants = function(pid) return children[pid] or {} end
  local screen, shown = top_screen.new { pid = { 10, 40 } }, {}
  for i = 1, 4 do
    assert.equal("process", screen:key "w")
    shown[i] = screen.alone or "all"
  end
  assert.same({ 21, 30, 40, "all" }, shown)
end)

-- The story: a process that does not run Lua, such as a child of a shell, was refused, and the key chose it again each time: the
-- processes after it could not be shown.
it("luaperf top passes over processes that it cannot show alone", function()
  local core, profile, terminal = require "perf.core", require "perf.profile", require "perf.command.terminal"
  local opened, shown, keys = {}, {}, { "w", "w", false, "q" }
  local kept = { core.keys, core.key, core.keys_end, core.watch, profile.started, terminal.write, host.descendants }
  finally(function()
    core.keys, core.key, core.keys_end, core.watch, profile.started, terminal.write, host.descendants = unpack(kept)
  end)
  host.descendants = function(pid) return pid == core.pid() and { 20, 30, 40 } or {} end
  core.keys, core.keys_end, core.watch = function() return true end, function() end, function() end
  core.key = function() return table.remove(keys, 1) end
  terminal.write = function(text)
    shown[#shown + 1] = text:match "process [^\27]*"
    return true
  end
  local function snapshot()
    return { memory = 1, event = "task-clock", unit = "ns", total = 0, lost = 0, sample_count = 0, duration_ns = 1,
      samples = function() return {} end, top = require("perf.profile.report.top").top }
  end
  profile.started = function(opts)
    local pid = opts.pid[1]
    opened[#opened + 1] = pid == core.pid() and "all" or pid
    if pid == 20 or pid == 40 then return nil, ("process %d runs no Lua"):format(pid), "EINVAL" end
    return { close = function() end, snapshot = snapshot, stop = snapshot }
  end
  assert.equal(0, require "perf.command.top".run({ pid = { core.pid() }, delay = 3600 }, {}, {}))
  assert.same({ "all", 20, 30, 40, "all" }, opened)
  assert.equal("process 40 runs no Lua", shown[#shown])
end)

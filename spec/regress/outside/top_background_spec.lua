-- The story: while luaperf top was in the background, a line that was typed for another program made it spin, and it drew over
-- what that program showed. It drew nothing after a ^Z or a new size of the terminal until its interval ended.
-- Once: it depends on the answers of core.key only.
local core = require "perf.core"
local profile = require "perf.profile"
local terminal = require "perf.command.terminal"

it("luaperf top leaves the terminal alone in the background, and draws when it gets it back", function()
  local fake = { close = function() end }
  function fake.snapshot()
    return { memory = 1, event = "task-clock", unit = "ns", total = 0, lost = 0, sample_count = 0, duration_ns = 1,
      samples = function() return {} end, top = require("perf.profile.report.top").top }
  end
  fake.stop = fake.snapshot
  local answers = { { nil, "away" }, { nil, "away" }, { nil, "again" }, {}, {}, { nil, "gone" } }
  local sizes, steps = { 24, 24, 24, 24, 10, 10 }, {}
  local n = 0
  local replaced = { [core] = { "keys", "key", "keys_end", "terminal_size", "watch" }, [profile] = { "started" },
    [terminal] = { "write" } }
  local before = {}
  for of, names in pairs(replaced) do
    for _, name in ipairs(names) do before[#before + 1] = { of, name, of[name] } end
  end
  finally(function()
    for _, entry in ipairs(before) do entry[1][entry[2]] = entry[3] end
  end)
  profile.started = function() return fake end
  core.keys, core.keys_end = function() return true end, function() end
  function core.key()
    n = n + 1
    return answers[n][1], answers[n][2]
  end
  core.terminal_size = function() return sizes[n] or 24, 80 end
  core.watch = function(fds) steps[#steps + 1] = fds[1] and "read" or "pause" end
  terminal.write = function()
    steps[#steps + 1] = "draw"
    return true
  end
  assert.equal(0, require "perf.command.top".run({ pid = { core.pid() }, delay = 3600 }, {}, {}))
  -- "again" and the answer after it are of one look; the last look finds no terminal.
  assert.same({ "pause", "pause", "draw", "read", "draw", "read", "draw" }, steps)
end)

-- The story: luaperf stat -p began the wall time after it had enabled the events and ended it before it disabled them, so that
-- one thread could show more than a CPU in a short time (1.281). A Set's wall_ns was the time in which its task ran, so that a
-- task which slept showed a whole CPU. perf.compare showed 6, 49 and 7.29x in one row, without a note that the ratio is not that
-- of the two numbers.
local kit = require "testkit"
local perf = require "perf"
local core = require "perf.core"
local compare = require "perf.bench.report".compare

describe("a Set's wall time", function()
  before_each(function() requires { perf_open = "user" } end)

  it("is the time for which it was enabled, not the time for which its task ran", function()
    for _, opts in ipairs { { pid = 0 }, { threads = kit.getpid() } } do
      local before = core.wall_ns()
      local s = assert(perf.set("task-clock", opts))
      kit.spin(1e6)
      core.watch({}, 0.05)
      assert(s:disable())
      local most, c = core.wall_ns() - before, assert(s:read())
      core.watch({}, 0.02)
      assert.equal(c.wall_ns, s:read().wall_ns)
      assert.is_true(c.wall_ns >= 50e6 and c.wall_ns <= most)
      assert.is_true(c["task-clock"] > 0 and c["task-clock"] <= c.wall_ns)
      assert.is_true(c:metrics().cpus_utilized < 1)
      assert(s:enable())
      core.watch({}, 0.02)
      assert.is_true(s:read().wall_ns >= c.wall_ns + 20e6)
      s:close()
    end
  end)
end)

describe("luaperf stat of a process", function()
  before_each(function() requires { perf_open = "user" } end)

  -- The order of the calls: the clock must be read first and last.
  it("measures the time outside of the counting", function()
    local names = { "perf.command.counters", "perf.core", "perf.command.stat" }
    local order, loaded = {}, {}
    for i, name in ipairs(names) do loaded[i] = require(name) end
    local counters, wall_ns = loaded[1], core.wall_ns
    local open = counters.open
    counters.open = function(...)
      local all = assert(open(...))
      for _, method in ipairs { "enable", "disable" } do
        local does = all[method]
        all[method] = function(self)
          order[#order + 1] = method
          return does(self)
        end
      end
      return all
    end
    core.wall_ns = function()
      if order[#order] ~= "clock" then order[#order + 1] = "clock" end
      return wall_ns()
    end
    local path = os.tmpname()
    local status = require "perf.command".main { [0] = "luaperf", "stat", "-e", "task-clock", "-p", tostring(kit.getpid()),
      "--timeout", "0.01", "-o", path }
    counters.open, core.wall_ns = open, wall_ns
    os.remove(path)
    assert.equal(0, status)
    assert.equal("clock", order[1])
    assert.equal("clock", order[#order])
    assert.equal("enable", order[2])
    assert.equal("disable", order[#order - 1])
  end)
end)

describe("perf.compare", function()
  local function row(label, a, b, ratio)
    return { label = label, candidates = { a = { median = a },
      b = { median = b, ratio = ratio, ratio_ci = { ratio, ratio, level = 0.95 }, verdict = "sure" } } }
  end

  it("notes if its ratio differs from that of the medians that it shows", function()
    local text = compare { n = 12, names = { "a", "b" }, baseline = "a", batch = { a = 1, b = 1 }, wall = row("wall", 10, 20, 2),
      row("page-faults", 6, 49, 7.29), rule = function() return "the rule" end }
    assert.matches("\npage%-faults, b: 7.29x is the median of the rounds' ratios; the ratio of the two medians is 8.17x\n", text)
    assert.is_nil(text:find "wall time, b")
  end)
end)

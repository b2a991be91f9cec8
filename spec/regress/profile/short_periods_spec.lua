-- The story: `luaperf record -c 1 -e task-clock` never ended. The kernel made the clock's period 10,000 ns, less than the handler
-- of a sample took, so the program did not continue. Nor could the handler of SIGTERM, so the profile was lost.
local luaperf = require "spec.support.luaperf"
local perf = require "perf"
local profiling = require "spec.support.profiling"
local util = require "spec.support.util"

local function work()
  local n = 0
  for i = 1, 200000 do n = n + i % 7 end
  return n
end

describe("a clock with a short period", function()
  before_each(function() requires { perf_open = "user" } end)

  it("leaves time to the program", function()
    for _, options in ipairs { { period = 1 }, { freq = 100000 }, { event = { event = "cpu-clock", sample_period = 20000 } } } do
      local prof = assert(perf.profile(options, work))
      assert.equal(prof.total, profiling.sum(prof))
      assert.equal(options.freq and 20000 or nil, prof.freq)
      assert.equal(not options.freq and 50000 or nil, prof.period)
    end
  end)

  -- The story: the Profile had the rate that was used, and nothing said that another one had been requested.
  it("is told by the Profile", function()
    local function first_lines(options)
      local prof = assert(perf.profile(options, work))
      return prof.requested, tostring(prof):match "^[^\n]*\n([^\n]*)"
    end
    local requested, text = first_lines { freq = 1e6 }
    assert.same({ 1000000, "1,000,000 Hz were requested; a clock is sampled at 20,000 Hz at most" }, { requested, text })
    requested, text = first_lines { event = "cpu-clock", period = 10 }
    assert.same({ 10, "a period of 10 ns was requested; that of a clock is 50,000 ns at least" }, { requested, text })
    for _, options in ipairs { { freq = 20000 }, { period = 50000 }, {}, { event = "page-faults", period = 10 } } do
      requested, text = first_lines(options)
      assert.is_nil(requested)
      assert.is_nil(text:find("requested", 1, true))
    end
  end)

  it("is told by luaperf record", function()
    util.with_directory(function(dir)
      util.write_file(dir .. "/a.lua", "local n = 0 for i = 1, 200000 do n = n + i % 7 end")
      local text = luaperf.shell(dir, "luaperf record -c 1 -e task-clock a.lua 2>&1")
      assert.matches("luaperf: task%-clock: samples are at least 50,000 ns apart\n.* luaperf%.json", text)
      assert.is_nil(luaperf.shell(dir, "luaperf record -c 50000 a.lua 2>&1"):find("apart", 1, true))
    end)
  end)
end)

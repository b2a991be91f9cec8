-- The story: a span of a pool's job was made when the job's result was fetched. For jobs that had ended but were never fetched,
-- neither the end of the program nor tracer:close() made a span. And the span of a job that was not measured had the counts of
-- the main thread while it made the span: a few microseconds of task-clock for a job of a second.
local backend = require "spec.support.backend"
local perf = require "perf"
local util = require "spec.support.util"

-- Runs a program that submits five jobs and fetches nothing; returns the number of the jobs' spans that its exporter got.
local function run(last)
  local output, status = util.shell(([[timeout -s KILL 600 %s -e '
    local perf = require "perf"
    tracer = perf.tracer {events = "task-clock", exporter = function(batch)
      for _, span in ipairs(batch) do io.write(span.name:match "^pool", "\n") end
      io.flush()
    end}
    pool = assert(perf.pool {size = 2, events = false, tracer = tracer})
    for i = 1, 5 do assert(pool:submit(function() end)) end
    while pool.results:length() < pool.pending do end
    %s']]):format(util.lua(), last))
  assert.equal(0, status, output)
  assert.equal("", (output:gsub("pool\n", "")))
  return select(2, output:gsub("pool\n", ""))
end

describe("an ended job without a caller that fetches its results", function()
  it("has a span at the end of the program", function()
    requires { perf_open = "user" }
    for _, last in ipairs { "", "os.exit(0, true)", "pool = nil collectgarbage() collectgarbage()" } do
      assert.equal(5, run(last), last)
    end
  end)

  it("has a span when the tracer closes", function()
    requires { perf_open = "user" }
    assert.equal(5, run "tracer:close()")
  end)

  -- The sender's finalizer is newer than the pool's when the tracer connects later.
  it("has a span that is sent when the tracer has connected after the pool was made", function()
    requires { module = "socket" }
    local server = backend.start()
    local output, status = util.shell(([[timeout -s KILL 600 %s -e '
      local perf = require "perf"
      tracer = perf.tracer {events = false, exporter = perf.exporter.otlp {endpoint = "%s"}}
      pool = assert(perf.pool {size = 2, events = false, tracer = tracer})
      tracer:start "first":finish()
      assert(tracer:flush())
      for i = 1, 5 do assert(pool:submit(function() end)) end
      while pool.results:length() < pool.pending do end']]):format(util.lua(), server.url))
    local log = util.read_file(server.log)
    server:stop()
    assert.same({ "", 0 }, { output, status })
    assert.equal(5, select(2, log:gsub('"name":"pool ', "")))
  end)

  it("has a span without counts if it is not measured", function()
    requires { perf_open = true }
    local spans = {}
    local tracer = perf.tracer { events = "task-clock", exporter = function(batch)
      for _, span in ipairs(batch) do spans[#spans + 1] = span end
    end }
    for _, events in ipairs { false, "page-faults" } do
      local pool = assert(perf.pool { size = 1, events = events, tracer = tracer })
      pool:submit(function() end):get()
      pool:close()
    end
    assert.is_true(tracer:close())
    assert.equal(2, #spans)
    assert.same({}, spans[1].counts)
    assert.is_number(spans[2].counts["page-faults"])
    assert.is_nil(spans[2].counts["task-clock"])
  end)
end)

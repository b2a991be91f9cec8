-- The story: in a coroutine of cqueues, a tracer on lua-http raised "attempt to compare number with userdata". There the
-- step of a controller yields to the controller that runs the coroutine, and the sender took what it yielded for a time to sleep.
local backend = require "spec.support.backend"
local util = require "spec.support.util"

local program = [[
local cqueues, perf = require "cqueues", require "perf"
local t = perf.tracer {events = false, delay = 0, exporter = perf.exporter.otlp {transport = "luahttp"}}
local turns, over = 0, false
local loop = cqueues.new()
loop:wrap(function()
  while not over do
    turns = turns + 1
    cqueues.sleep(0.001)
  end
end)
loop:wrap(function()
  t:start "first":finish()
  repeat
    t:poll()
    cqueues.sleep(0.001)
  until t:stats().sent == 1
  t:start "second":finish()
  assert(t:flush(30))
  over = true
end)
assert(loop:loop())
assert(turns > 1)
io.write(t:stats().sent, " sent, ", t:stats().failures, " failures")
]]

it("a tracer sends by lua-http in a coroutine of cqueues, whose controller serves others meanwhile", function()
  requires { module = { "cqueues", "http.request" }, yields_in_pcall = true }
  local b = backend.start()
  finally(function() b:stop() end)
  util.with_tmpname(function(path)
    util.write_file(path, program)
    assert.equal("2 sent, 0 failures",
      (util.shell(("OTEL_EXPORTER_OTLP_ENDPOINT=%s %s %s 2>&1"):format(b.url, util.lua(), path))))
  end)
end)

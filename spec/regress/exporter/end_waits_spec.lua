-- The story: in half of the programs that had sent spans by lua-http before, the end of the program did not wait for the answer
-- to the last spans. The sender waited by cqueues.poll, which makes its controller at the first wait. If that was later than the
-- connection, Lua finalized the controller before the sender, whose wait then failed: "cqueue closed". Nothing reported it.
local backend = require "spec.support.backend"
local util = require "spec.support.util"

-- The connection exists before the first wait. The first object is finalized after the tracer.
local program = [[
local at_exit, perf = require "perf.base.at_exit", require "perf"
local t
local last = at_exit(function() io.write(t:stats().sent, " arrived") end)
t = perf.tracer {events = false, delay = 0, exporter = perf.exporter.otlp {transport = os.getenv "TRANSPORT"}}
t:start "first":finish()
local posted
repeat
  t:poll()
  local f = io.open(os.getenv "LOG")
  posted = f:read "*a":find '"spanId"'
  f:close()
until posted
assert(t:flush(30))
t:start "last":finish()
]]

describe("the end of a program that has waited for an answer before", function()
  for _, transport in ipairs { "luasocket", "luahttp" } do
    it("waits for the answer to the last spans: " .. transport, function()
      requires { module = { "socket", transport == "luahttp" and "http.request" or nil } }
      local b = backend.start { statuses = "200slow" }
      finally(function() b:stop() end)
      util.with_tmpname(function(path)
        util.write_file(path, program)
        local settings = ("TRANSPORT=%s LOG=%s OTEL_EXPORTER_OTLP_ENDPOINT=%s "):format(transport, b.log, b.url)
        assert.equal("2 arrived", (util.shell(settings .. util.lua() .. " " .. path)))
      end)
    end)
  end
end)

-- The story: a batch that was being sent when a program ended arrived twice. Lua finalizes the newest objects first, so the
-- connection was closed before the sender's own end, which took that for a failure of the backend and sent the batch again. In a
-- pre-forking server, whose workers end all the time, a third of the requests appeared twice.
-- Long: make test runs this file on LuaJIT and Lua 5.4, make test-long on the other interpreters.
local backend = require "spec.support.backend"
local util = require "spec.support.util"

local function ids_of(b)
  local n, different, seen = 0, 0, {}
  for _, request in ipairs(b:requests()) do
    for id in request.body:gmatch '"spanId":"(%x+)"' do
      n = n + 1
      if not seen[id] then seen[id], different = true, different + 1 end
    end
  end
  return n, different
end

-- The program ends when the backend has read its batch and not answered yet.
local program = [[
local perf = require "perf"
local t = perf.tracer {events = false, delay = 60, batch = 80, exporter = perf.exporter.otlp {transport = os.getenv "TRANSPORT"}}
for _ = 1, 80 do t:start "span":finish() end
local posted
repeat
  t:poll()
  local f = io.open(os.getenv "LOG")
  posted = f:read "*a":find '"spanId"'
  f:close()
until posted
]]

describe("a batch that is on its way when the program ends", function()
  local b
  before_each(function() b = nil end)
  after_each(function() if b then b:stop() end end)

  for _, transport in ipairs { "luasocket", "luahttp" } do
    for _, last in ipairs { "", "os.exit(0, true)", "error 'the end'" } do
      it(("arrives once (%s, %s)"):format(transport, last == "" and "the end" or last), function()
        requires { module = { "socket", transport == "luahttp" and "http.request" or nil } }
        b = backend.start { statuses = "200slow" }
        util.with_tmpname(function(path)
          util.write_file(path, program .. last)
          util.shell(("TRANSPORT=%s LOG=%s OTEL_EXPORTER_OTLP_ENDPOINT=%s %s %s 2>&1"):format(transport, b.log, b.url, util.lua(),
            path))
        end)
        assert.same({ 80, 80 }, { ids_of(b) })
      end)
    end
  end
end)

describe("an answer with an invalid length", function()
  it("is not accepted", function()
    requires { module = "socket" }
    local b = backend.start { statuses = "200bare,200" }
    local t = assert(require "perf".tracer { events = false, exporter = require "perf".exporter.otlp { endpoint = b.url } })
    t:start "span":finish()
    assert.is_true(t:flush(30))
    assert.equal(2, #b:requests())
    assert.matches("a Content-Length that is not a number", t:stats().last_error, 1, true)
    t:close()
    b:stop()
  end)
end)

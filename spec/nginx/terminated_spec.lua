-- The story: nginx empties a request's list of cleanups twice if it terminates the request (the client has disconnected, 444, a
-- body that does not arrive, an error in a body filter). The second time removed the mark that tells the request in its log
-- phase from a new one at the same address, so it was counted twice: once with its counts, and once with those of its log phase.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local TIMES = 5

describe("a request that nginx terminates is counted once,", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = "syscalls:sys_enter_getppid" }
  end)
  after_each(server.stop)

  local function block(auto, phase, code)
    if auto then return ("%s_by_lua_block { %s }"):format(phase, code) end
    return ("%s_by_lua_block { perf.%s(function() %s end) }"):format(phase, phase, code)
  end

  for _, auto in ipairs { false, true } do
    it(auto and "without hooks" or "with hooks", function()
      local function location(path, phase, code, more)
        return ("location = /%s { %s %s }"):format(path, block(auto, phase, code), more or "")
      end
      s = server.start { user = "root", app = "spec.nginx.waits_app", install = ("{auto = %s}"):format(auto),
        log = block(auto, "log", "app.spend(1)"),
        init_worker = "app.start{waits = true, slow = 0}", http = "client_body_timeout 50ms;", server = table.concat({
          location("refused", "content", "app.spend(10) ngx.exit(444)"),
          location("late", "content", "app.spend(10) ngx.sleep(0.01) ngx.exit(444)"),
          location("body", "content", "app.spend(10) ngx.req.read_body()"),
          location("left", "content", "app.spend(10) ngx.sleep(10)"),
          location("filter", "content", "app.spend(10) ngx.say(1)", block(auto, "body_filter", "error 'boom'")),
        }, "\n") }
      local url = ("http://127.0.0.1:%d/"):format(s.port)
      local h2url = ("http://127.0.0.1:%d/"):format(s.h2port)
      for _ = 1, TIMES do
        for _, path in ipairs { "/refused", "/late", "/filter" } do s:get(path) end
        util.shell(("curl -s -m 20 -H 'Content-Length: 10' -d hel %sbody"):format(url))
        s:send "/left"
        util.shell(("curl -s -m 20 --http2-prior-knowledge %slate"):format(h2url))
      end
      local w
      s:wait(function()
        w = s:worker()
        return (w["requests:/left"] or 0) >= TIMES and w.known == (auto and 1 or 0) -- with auto, /worker itself is counted
      end)
      for path, times in pairs { refused = TIMES, late = 2 * TIMES, filter = TIMES, body = TIMES, left = TIMES } do
        assert.equal(times, w["requests:/" .. path], path)
        assert.equal(11 * times, w["route:/" .. path .. ":syscalls:sys_enter_getppid"], path)
        local lines = 0
        s:wait(function()
          lines = select(2, s:log():gsub("slow request: [%d.]+ s, /" .. path .. ",", ""))
          return lines >= times
        end)
        assert.equal(times, lines, path)
      end
    end)
  end
end)

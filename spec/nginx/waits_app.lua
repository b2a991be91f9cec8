--- Handlers that wait for known times at known places: spec/nginx/waits_spec.lua.
local ffi = require "ffi"
local app = require "spec.nginx.app"
local perf = require "resty.perf"
local semaphore = require "ngx.semaphore"

ffi.cdef "typedef struct { long s, ns; } waits_time; int clock_gettime(int clock, waits_time *at);"
local time = ffi.new "waits_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.ns) / 1e9
end

--- Keeps the worker busy.
function app.spin(seconds)
  local to = now() + seconds
  while now() < to do end
end

-- nginx counts a sleep from when it last read the clock. So if the handler has run since, and an event wakes nginx meanwhile, the
-- sleep is shorter.
function app.naps()
  ngx.update_time()
  ngx.sleep(0.03) -- the first line
  app.spin(0.01)
  ngx.update_time()
  ngx.sleep(0.02) -- the second line
  ngx.say "slept"
end

function app.slow_server()
  ngx.update_time()
  ngx.sleep(0.04)
  ngx.say "late"
end

function app.upstream()
  local sock = ngx.socket.tcp()
  assert(sock:connect("127.0.0.1", ngx.var.server_port))
  assert(sock:send "GET /slow_server HTTP/1.0\r\n\r\n")
  assert(sock:receive "*l")
  sock:close()
  ngx.say "answered"
end

function app.threads()
  local function child()
    ngx.update_time()
    ngx.sleep(0.02)
  end
  local a, b = ngx.thread.spawn(child), ngx.thread.spawn(child)
  assert(ngx.thread.wait(a) and ngx.thread.wait(b))
  ngx.say "joined"
end

function app.subrequest()
  assert(ngx.location.capture("/slow_server?x=1").status == 200)
  ngx.say "captured"
end

function app.semaphore()
  local sem = semaphore.new()
  ngx.update_time()
  ngx.timer.at(0.02, function() sem:post() end)
  assert(sem:wait(5))
  ngx.say "posted"
end

function app.many()
  for _ = 1, 100 do ngx.sleep(0.001) end
  ngx.say "often"
end

--- A request that is answered by another request of the same worker, which then runs for 50 ms.
function app.delayed()
  local sock = ngx.socket.tcp()
  assert(sock:connect("127.0.0.1", ngx.var.server_port))
  assert(sock:send "GET /answer_and_spin HTTP/1.0\r\n\r\n")
  assert(sock:receive "*l")
  ngx.say "at last"
end

function app.answer_and_spin()
  ngx.print "x"
  ngx.flush(true)
  app.spin(0.05)
end

function app.times()
  for name, r in pairs(perf.worker().routes) do
    if r.wall_ns then
      local turns = 0
      for _, counts in pairs(r.phases) do turns = turns + counts.wall_ns end
      ngx.say(("%s %.0f %.0f %.0f %.0f"):format(name, r.wall_ns, turns, r.waiting_ns, r.late_ns))
    end
  end
end

function app.rows()
  for _, r in ipairs(perf.waits().waits) do
    ngx.say(table.concat({ r.route, r.phase, r.kind, r.peer, r.line, r.count, r.lasted_ns, r.waiting_ns, r.late_ns }, "|"))
  end
end

function app.latencies()
  for _, r in ipairs(perf.waits().requests) do
    ngx.say(table.concat({ r.route, r.status, r.method, r.count, r.lasted_ns }, "|"))
  end
end

function app.graph()
  local prof = perf.wait_profile(ngx.var.arg_route)
  ngx.print(prof:folded())
end

return app

--- Every way to yield, with costs before and after it: the handlers of spec/nginx/yields_spec.lua.
local ffi = require "ffi"
local app = require "spec.nginx.app"
local balancer = require "ngx.balancer"
local kit = require "testkit"
local perf = require "resty.perf"
local has_pipe, pipe = pcall(require, "ngx.pipe")
local semaphore = require "ngx.semaphore"

-- The handler's code between the first 3 calls and the last 4; the number is the count of its own further calls.
local ways = {}

function ways.sleep() ngx.sleep(0.002) end

function ways.flush() -- more than fits into the socket's buffer
  ngx.print(("x"):rep(2 ^ 18))
  assert(ngx.flush(true))
end

function ways.read_body()
  ngx.req.read_body()
  assert(ngx.req.get_body_data() == "abcdef")
end

function ways.body_socket()
  local sock = assert(ngx.req.socket())
  assert(sock:receive(3) == "abc" and sock:receive(3) == "def")
end

local function ask(sock)
  assert(sock:send "GET /slow HTTP/1.0\r\n\r\n")
  assert(sock:receive "*l" == "HTTP/1.1 200 OK")
  assert(sock:receiveuntil "\r\n\r\n" ())
  assert(sock:receiveany(10))
  assert(sock:receive "*a" == "more")
  sock:close()
end

function ways.tcp()
  local sock = ngx.socket.tcp()
  assert(sock:connect("127.0.0.1", ngx.var.server_port))
  ask(sock)
end

function ways.connect() ask(assert(ngx.socket.connect("127.0.0.1", ngx.var.server_port))) end

function ways.tls()
  local sock = ngx.socket.tcp()
  assert(sock:connect(app.tls))
  assert(sock:sslhandshake(nil, nil, false))
  ask(sock)
end

-- A peer that never answers: a socket that is not read, on 127.0.0.1.
ffi.cdef [[struct udp_name { uint16_t family; uint8_t port[2], address[4], zero[8]; };
int socket(int family, int kind, int protocol); int bind(int fd, const struct udp_name *name, unsigned size);]]
local function silent(port)
  local name = ffi.new("struct udp_name", 2, { port / 256, port % 256 }, { 127, 0, 0, 1 })
  assert(ffi.C.bind(ffi.C.socket(2, 2, 0), name, ffi.sizeof(name)) == 0)
end

function ways.udp()
  local sock = ngx.socket.udp()
  assert(sock:setpeername("127.0.0.1", ngx.var.server_port))
  sock:settimeout(2)
  assert(sock:send "x")
  assert(select(2, sock:receive()) == "timeout")
  sock:close()
end

function ways.capture()
  assert(ngx.location.capture "/child".status == 200)
  return 10
end

function ways.capture_multi()
  local a, b, c = ngx.location.capture_multi { { "/child" }, { "/child", { ctx = {} } }, { "/slow" } }
  assert(a.status + b.status + c.status == 600)
  return 20
end

function ways.thread()
  local function child(n)
    kit.syscalls(n)
    ngx.sleep(0.001)
    kit.syscalls(n)
  end
  local a, b = ngx.thread.spawn(child, 1), ngx.thread.spawn(child, 2)
  ngx.thread.wait(a, b)
  ngx.thread.wait(b)
  return 6
end

function ways.killed_thread()
  local thread = ngx.thread.spawn(function()
    kit.syscalls(5)
    ngx.sleep(10)
    kit.syscalls(100)
  end)
  ngx.sleep(0.001)
  assert(ngx.thread.kill(thread))
  return 5
end

function ways.semaphore()
  local sem = semaphore.new()
  ngx.timer.at(0.001, function()
    kit.syscalls(50)
    sem:post()
  end)
  assert(sem:wait(5))
end

function ways.coroutine()
  local n = 0
  local gen = coroutine.wrap(function()
    for i = 1, 3 do
      kit.syscalls(1)
      ngx.sleep(0.001)
      coroutine.yield(i)
    end
  end)
  for _ = 1, 3 do n = n + gen() end
  assert(n == 6)
  return 3
end

function ways.yield() coroutine.yield() end

app.no_pipe = not has_pipe and pipe

function ways.pipe()
  local proc = assert(pipe.spawn { "sh", "-c", "read line; sleep 0.01; echo $line; echo more >&2; exit 3" })
  assert(proc:write "hello\n")
  assert(proc:stdout_read_line() == "hello")
  assert(proc:stderr_read_all() == "more\n")
  assert(select(3, proc:wait()) == 3)
end

function ways.worker_thread() -- another thread's calls are not this worker's
  local ok, n = ngx.run_worker_thread("pool", "spec.nginx.thread_work", "run", 30)
  assert(ok and n == 30, n)
end

--- At the start of a worker: tls is a socket's path, port is free for the UDP socket.
function app.begin(tls, port)
  app.tls = "unix:" .. tls
  silent(port)
  app.start()
end

--- Runs one of them.
function app.around(way)
  local before = perf.request()[app.event]
  kit.syscalls(3)
  local more = ways[way]() or 0
  kit.syscalls(4)
  app.judge(perf.request()[app.event] - before, 7 + more)
end

--- Sleeps as `around` does, but judges nothing and sends no answer.
function app.sleep()
  kit.syscalls(3)
  ngx.sleep(0.001)
  kit.syscalls(4)
end

--- No server listens at the first peer.
function app.balance()
  kit.syscalls(5)
  local again = ngx.ctx.again
  ngx.ctx.again = true
  if not again then assert(balancer.set_more_tries(1)) end
  assert(balancer.set_current_peer("127.0.0.1", again and ngx.var.server_port or 1))
end

--- A request that lasts until its client has disconnected.
function app.aborted()
  kit.syscalls(3)
  ngx.on_abort(function()
    kit.syscalls(4)
    ngx.exit(499)
  end)
  ngx.sleep(10)
end

--- A client that delays the body of its request.
function app.slow_client()
  local sock = ngx.socket.tcp()
  assert(sock:connect("127.0.0.1", ngx.var.server_port))
  assert(sock:send("POST " .. ngx.var.arg_to .. " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 6\r\n\r\na"))
  for _, piece in ipairs { "bc", "d", "ef" } do
    ngx.sleep(0.002)
    assert(sock:send(piece))
  end
  ngx.print((sock:receive "*a"))
end

--- A server that delays its answer.
function app.slow()
  ngx.send_headers()
  ngx.flush(true)
  ngx.sleep(0.002)
  ngx.print "0123456789"
  ngx.flush(true)
  ngx.sleep(0.002)
  ngx.print "more"
end

return app

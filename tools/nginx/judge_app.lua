-- The handlers of judge.lua. Each one notes what it has done in a file that all workers map, so the notes outlive every worker.
local ffi = require "ffi"
local app = require "spec.nginx.app"
local kit = require "testkit"

local M = setmetatable({}, { __index = app })

M.routes = { "/burst", "/socket", "/thread", "/error", "/abort", "/capture", "(timer)" }
M.ROWS, M.ROW = 65536, 16 -- doubles: a row for each process id, with two numbers for each route: requests, calls

ffi.cdef "int perf_judge_open(const char *path, int flags) __asm__(\"open\");"

local notes, at = nil, {}
for i, name in ipairs(M.routes) do at[name] = 2 * (i - 1) end

--- The notes of all workers.
function M.map(path)
  local fd = ffi.C.perf_judge_open(path, 2)
  local map = ffi.C.mmap(nil, 8 * M.ROWS * M.ROW, 3, 1, fd, 0)
  assert(fd >= 0 and map ~= ffi.cast("void *", -1))
  return ffi.cast("double *", map)
end

function M.begin(path, options)
  app.start(options)
  notes = M.map(path) + ngx.worker.pid() % M.ROWS * M.ROW
end

local function note(route) notes[at[route]] = notes[at[route]] + 1 end

local function spend(route, n)
  kit.syscalls(n)
  notes[at[route] + 1] = notes[at[route] + 1] + n
end

local function nap() ngx.sleep(0.001 + math.random() / 100) end

function M.gate()
  note "/burst"
  spend("/burst", 1)
end

function M.burst()
  for _ = 1, math.random(4) do
    spend("/burst", math.random(0, 20))
    nap()
  end
  spend("/burst", 3)
  ngx.say "x"
end

function M.socket()
  note "/socket"
  local sock = ngx.socket.tcp()
  spend("/socket", 2)
  if sock:connect("127.0.0.1", ngx.var.server_port) then
    spend("/socket", 3)
    sock:send "GET /tell HTTP/1.0\r\n\r\n"
    spend("/socket", 1)
    sock:receive "*a"
    sock:close()
  end
  spend("/socket", 5)
  ngx.say "x"
end

function M.thread()
  note "/thread"
  local threads = {}
  for i = 1, 3 do
    threads[i] = ngx.thread.spawn(function()
      spend("/thread", i)
      nap()
      spend("/thread", 2)
    end)
  end
  spend("/thread", 4)
  for i = 1, 3 do ngx.thread.wait(threads[i]) end
  ngx.say "x"
end

function M.fail()
  note "/error"
  spend("/error", 5)
  nap()
  kit.syscalls(7) -- in a turn that an error ends, so they belong to no request
  error "on purpose"
end

function M.abort()
  note "/abort"
  spend("/abort", 2)
  ngx.sleep(0.2) -- most clients do not wait so long
  spend("/abort", 3)
  ngx.say "x"
end

function M.capture()
  note "/capture"
  spend("/capture", 1)
  ngx.location.capture "/part"
  ngx.timer.at(0, function()
    note "(timer)"
    spend("(timer)", 4)
    nap()
    spend("(timer)", 2)
  end)
  ngx.say "x"
end

function M.part()
  spend("/capture", 6)
  nap()
  spend("/capture", 1)
  ngx.print "y"
end

return M

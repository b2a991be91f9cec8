--- Handlers that block their worker in known ways: spec/nginx/blocked_spec.lua.
local ffi = require "ffi"
local app = require "spec.nginx.app"
local perf = require "resty.perf"

ffi.cdef [[typedef struct { long s, ns; } blocked_time; int clock_gettime(int clock, blocked_time *at); int usleep(unsigned us);
int nanosleep(const blocked_time *wanted, blocked_time *rest); int poll(void *list, unsigned long n, int ms);
int open(const char *path, int flags, ...); long read(int fd, void *to, size_t n); int close(int fd);]]
local time = ffi.new "blocked_time"
local function now()
  ffi.C.clock_gettime(1, time)
  return tonumber(time.s) + tonumber(time.ns) / 1e9
end

local ways = {}

local function spin(seconds)
  local to, n = now() + seconds, 0
  while now() < to do n = n + 1 end -- the loop's line
  return n
end

function ways.spin()
  local n = spin(0.05) -- the caller's line
  return n > 0
end

-- Returns whether the sleep was not interrupted.
function ways.nap()
  local result = ffi.C.usleep(60000) -- the nap's line
  return result == 0
end

function ways.nanosleep()
  local result = ffi.C.nanosleep(ffi.new("blocked_time", { 0, 60000000 }), nil) -- the nanosleep's line
  return result == 0
end

function ways.poll()
  local result = ffi.C.poll(nil, 0, 60) -- the poll's line
  return result == 0
end

-- These three end by a signal, or by what the spec writes.
function ways.long_usleep() return ffi.C.usleep(600000000) == 0 end
function ways.long_poll() return ffi.C.poll(nil, 0, 600000) == 0 end
function ways.long_read()
  local fd = ffi.C.open(ngx.config.prefix() .. "input", 2)
  local n = ffi.C.read(fd, ffi.new "char[1]", 1)
  ffi.C.close(fd)
  return n == 1
end

function ways.late_nap()
  ngx.sleep(0.001)
  return ways.nap()
end

function ways.execute()
  local status = os.execute "sleep 0.06" -- the program's line
  return status == 0 or status == true
end

function ways.popen()
  local pipe = io.popen "sleep 0.06; echo x" local text = pipe:read "*l" -- the pipe's line
  pipe:close()
  return text == "x"
end

function ways.touch()
  local to = now() + 0.05
  local n = 0
  repeat
    app.touch(20)
    n = n + 1
  until n >= 100 and now() > to
  return true
end

-- Until the spec calls server:release().
function ways.long()
  while not io.open(ngx.config.prefix() .. "released") do end -- the long turn's line
  return true
end

function ways.quick() return true end

function app.block(way) ngx.say(ways[way]() and "whole" or "cut short") end

function app.found()
  local found = perf.blocked()
  for _, sum in ipairs(found.routes) do
    if sum.route == ngx.var.arg_route then ngx.say("count ", sum.count) end
  end
  for _, turn in ipairs(found.recent) do
    if turn.route == ngx.var.arg_route then
      ngx.say("phase ", turn.phase, "\nlines ", table.concat(turn.lines, " < "), "\ncall ", tostring(turn.call), "\nwall ",
        (turn.wall_ns or 0) / 1e6, "\nseen ", turn.seen_ns / 1e6, "\ncpu ", (turn.counts["task-clock"] or 0) / 1e6, "\nuri ",
        tostring(turn.uri), "\nfaults ", turn.counts["page-faults:u"] or 0)
      return
    end
  end
end

return app

-- make judge-nginx: an outside check of resty.perf. Handlers of known cost run under load, through reloads, a binary upgrade,
-- errors, aborts and killed workers, by HTTP/1.1 with connections that stay and by HTTP/2. Their notes (judge_app.lua) are
-- compared with /metrics.
--
--   SECONDS=30   for both parts together: first with reloads and an upgrade, when every count is exact; then with workers that
--                are killed, each of which loses what it counted since its last write
package.path = "./?.lua;./lua/?.lua;./lua/?/init.lua;" .. package.path
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local SECONDS = tonumber(os.getenv "SECONDS") or 30
local EVENT = "syscalls_sys_enter_getppid"
local ROUTES = { "/burst", "/socket", "/thread", "/error", "/abort", "/capture", "(timer)" }
local ROWS, ROW = 65536, 16

local truth = os.tmpname()
util.shell(("truncate -s %d %s"):format(8 * ROWS * ROW, truth))

local s = server.start { user = "root", workers = 4, app = "tools.nginx.judge_app",
  init_worker = ("app.begin('%s', {waits=true, slow=10})"):format(truth), server = [[
  location = /burst { access_by_lua_block { perf.access(app.gate) } content_by_lua_block { perf.content(app.burst) } }
  location = /socket { content_by_lua_block { perf.content(app.socket) } }
  location = /thread { content_by_lua_block { perf.content(app.thread) } }
  location = /error { content_by_lua_block { perf.content(app.fail) } }
  location = /abort { content_by_lua_block { perf.content(app.abort) } }
  location = /capture { content_by_lua_block { perf.content(app.capture) } }
  location = /part { internal; content_by_lua_block { perf.content(app.part) } } ]] }

local ffi = require "ffi"
local notes = ffi.new("double[?]", ROWS * ROW)

-- The notes of all workers, or of one: {[route] = {requests, calls}}.
local function noted(pid)
  local f = io.open(truth, "rb")
  ffi.copy(notes, f:read "*a", 8 * ROWS * ROW)
  f:close()
  local t = {}
  for i, name in ipairs(ROUTES) do
    t[name] = { 0, 0 }
    for row = pid and pid % ROWS or 0, pid and pid % ROWS or ROWS - 1 do
      for k = 0, 1 do t[name][1 + k] = t[name][1 + k] + notes[row * ROW + 2 * (i - 1) + k] end
    end
  end
  return t
end

-- The sums of /metrics: {[route] = {requests, calls}}; and the three numbers of the equation.
local function counted()
  local text = s:get "/metrics"
  local t, routes = {}, 0
  for _, name in ipairs(ROUTES) do t[name] = { 0, 0 } end
  for name, n in text:gmatch '\nlua_perf_requests_total{route="([^"]*)"} (%d+)' do
    if t[name] then t[name][1] = tonumber(n) end
  end
  for name, n in text:gmatch('\nlua_perf_request_' .. EVENT .. '_sum{route="([^"]*)"} (%d+)') do
    if t[name] then t[name][2] = tonumber(n) end
    routes = routes + tonumber(n)
  end
  local function of(what) return tonumber(text:match("\nlua_perf_" .. what .. " (%d+)") or 0) end
  return t, of("running_" .. EVENT), of("worker_" .. EVENT .. "_total"), of("unattributed_" .. EVENT .. "_total") + routes
end

-- Load the server for some seconds. happen(second) is called in each of them.
local function drive(seconds, happen)
  local done = s.dir .. "/done"
  local parts = {}
  for _, name in ipairs(ROUTES) do
    if name == "/abort" then
      local loop = "(to=$(($(date +%%s) + %d)); while [ $(date +%%s) -lt $to ]; do curl -s -m 0.05 127.0.0.1:%d/abort; done)"
      parts[#parts + 1] = loop:format(seconds, s.port)
    elseif name ~= "(timer)" then
      parts[#parts + 1] = ("nice -n 5 wrk -t1 -c4 -d%ds --timeout 5s http://127.0.0.1:%d%s"):format(seconds, s.port, name)
    end
  end
  parts[#parts + 1] = ("nice -n 5 h2load -D %d -c 2 -m 4 -t 1 http://127.0.0.1:%d/burst"):format(seconds, s.h2port)
  os.execute(("(%s & wait; touch %s) >/dev/null 2>&1 &"):format(table.concat(parts, " & "), done))
  for second = 1, seconds - 1 do
    util.shell "sleep 1"
    happen(second)
  end
  s:wait(function() return io.open(done) end)
  os.remove(done)
  s:wait(function() return select(2, counted()) == 0 end)
  util.shell "sleep 2.5" -- every worker has written its record
end

local bad = 0

-- Compare, and print a table.
-- @param[opt] most {[route] = {requests, calls}}: the most that may be missing
local function compare(title, most)
  local want, got = noted(), counted()
  local _, running, whole, sum = counted()
  print(title)
  for _, name in ipairs(ROUTES) do
    for k, what in ipairs { "requests", "calls" } do
      local missing = want[name][k] - got[name][k]
      local ok = missing >= 0 and missing <= (most and most[name][k] or 0)
      if not ok then bad = bad + 1 end
      print(("  %-10s %-8s %10d noted %10d counted %6d missing  %s"):format(name, what, want[name][k], got[name][k], missing,
        ok and (most and ("ok, at most %d"):format(most[name][k]) or "exact") or "WRONG"))
    end
  end
  local ok = whole == sum + running and running == 0
  if not ok then bad = bad + 1 end
  print(("  worker %d = unattributed + routes %d + running %d  %s"):format(whole, sum, running, ok and "balanced" or "WRONG"))
end

local function upgrade()
  local old = s:master()
  kit.kill(old, 12) -- SIGUSR2
  s:wait(function() return s:master() and s:master() ~= old and #s:workers() == 4 end)
  kit.kill(old, 28) -- SIGWINCH
  kit.kill(old, 3) -- SIGQUIT
  s:wait(function() return not io.open("/proc/" .. old .. "/stat") end)
end

local calm = math.floor(SECONDS * 2 / 3)
local ok, message = pcall(function()
  local reloads = 0
  drive(calm, function(second)
    if second == math.floor(calm / 2) then
      upgrade()
    elseif second % 3 == 0 then
      s:reload()
      reloads = reloads + 1
    end
  end)
  compare(("After %d s with %d reloads, an upgrade, errors and aborts:"):format(calm, reloads))

  local lost, before = {}, {}
  for _, name in ipairs(ROUTES) do lost[name] = { 0, 0 } end
  local kills = 0
  drive(SECONDS - calm, function(second)
    local pid = s:workers()[1]
    if second % 2 == 1 then
      for _, worker in ipairs(s:workers()) do before[worker] = noted(worker) end
    else
      for _, worker in ipairs(s:workers()) do
        if before[worker] then pid = worker end
      end
      kit.kill(pid, 9)
      kills = kills + 1
      util.shell "sleep 0.2"
      local now, earlier = noted(pid), before[pid]
      for _, name in ipairs(ROUTES) do
        for k = 1, 2 do lost[name][k] = lost[name][k] + now[name][k] - (earlier and earlier[name][k] or 0) end
      end
    end
  end)
  compare(("After %d s more, in which %d workers were killed:"):format(SECONDS - calm, kills), lost)
  for line in s:errors():gmatch "[^\n]+" do
    if line:find("resty.perf: ", 1, true) then
      bad = bad + 1
      print("  " .. line)
    end
  end
end)
if not ok then print(s:errors():sub(-3000)) end
s:stop()
os.remove(truth)
if not ok then error(message, 0) end
print(bad == 0 and "all right" or bad .. " wrong")
os.exit(bad == 0 and 0 or 1)

--- A real nginx for the specs, in a new directory under /tmp, on free loopback ports: Debian's, or that of PERF_NGINX (see
-- tools/nginx/test.sh).
local kit = require "testkit"
local busted = require "busted"
local util = require "spec.support.util"

local M = {}

local template = [[
$user
worker_processes $workers;
daemon on;
pid $dir/nginx.pid;
error_log $dir/error.log notice;
$load
worker_shutdown_timeout $shutdown;
$main
events { worker_connections 1024; }
http {
  access_log off;
  default_type text/plain;
  client_body_temp_path $dir/body;
  proxy_temp_path $dir/proxy;
  fastcgi_temp_path $dir/fastcgi;
  uwsgi_temp_path $dir/uwsgi;
  scgi_temp_path $dir/scgi;
  keepalive_requests 100000;
  lua_package_path "$tree/?.lua;$tree/lua/?.lua;$tree/lua/?/init.lua;$lua";
  lua_package_cpath "$build/luajit/?.so;$cpath";
  lua_shared_dict perf 10m;
  lua_shared_dict test 1m;
  init_by_lua_block { perf = require "resty.perf"; perf.install($install); app = require "$app" }
  init_worker_by_lua_block { $init_worker }
  $log
  $http
  server {
    listen 127.0.0.1:$port;
    $h2listen
    lua_check_client_abort on;
    location = /perf { content_by_lua_block { perf.status() } }
    location = /metrics { content_by_lua_block { perf.metrics() } }
    location = /begin_profile { content_by_lua_block {
      local page = ngx.thread.spawn(perf.status) -- returns when the profile runs in this worker, and the others can see it
      ngx.shared.test:incr("profiles", 1, 0)
      ngx.thread.wait(page) } }
    location = /begun_profiles { content_by_lua_block { ngx.print(ngx.shared.test:get "profiles" or 0) } }
    location = /worker { content_by_lua_block { app.worker() } }
    location = /tell { content_by_lua_block { app.tell() } }
    $server
  }
}
]]

local modules = "/usr/lib/nginx/modules"
local binary, libraries = os.getenv "PERF_NGINX", os.getenv "PERF_NGINX_LUA"

M.binary = binary or "/usr/sbin/nginx"

--- The needs of a spec.
M.needs = { lua = "luajit", root = true, nosan = true, cmd = { "curl", "wrk", "h2load" },
  file = { M.binary, not binary and modules .. "/ngx_http_lua_module.so" or nil }, perf_open = true }

local function shell(command)
  local text, status = util.shell(command)
  return text, status
end

-- The kernel gives such low ports to no client, but another suite's nginx may take them. The suites begin far from each other.
local last_port = 20000 + kit.getpid() * 367 % 10000

--- A port that is free now.
function M.new_port()
  local used = {}
  for port in io.open "/proc/net/tcp":read "*a":gmatch ":(%x%x%x%x) " do used[tonumber(port, 16)] = true end
  repeat last_port = last_port < 30000 and last_port + 1 or 20000 until not used[last_port]
  return last_port
end

local Server = {}
Server.__index = Server

-- From nginx 1.25.1 on, HTTP/2 is a directive of the server.
local function h2_listen(port)
  local major, minor, patch = shell((binary or "nginx") .. " -v"):match "/(%d+)%.(%d+)%.(%d+)" -- OpenResty says "openresty/"
  local version = major * 1e6 + minor * 1e3 + patch
  return ("listen 127.0.0.1:%d%s"):format(port, version >= 1025001 and "; http2 on;" or " http2;")
end

local function absolute(path) return path:sub(1, 1) == "/" and path or os.getenv "PWD" .. "/" .. path end

local running = {}

--- Starts an nginx.
-- @param opts {main=, log=, http=, server=, init_worker=, install=, app="spec.nginx.app", workers=1, user="www-data",
-- shutdown="2s"}: pieces of its configuration, in which $port is its port, and $dir its directory. shutdown: how long an ending
-- worker lets its requests go on; specs that release them wait longer. prepare(dir): called before it starts.
-- capability="ipc_lock": the master is www-data too, and both have that capability (and can read a tree that www-data cannot)
function M.start(opts)
  local dir = os.tmpname()
  os.remove(dir)
  util.execute("mkdir -m 755 " .. dir)
  local self = setmetatable({ dir = dir, opts = opts }, Server)
  if opts.prepare then opts.prepare(dir) end
  local nginx = (binary or "$(command -v nginx)") .. (" -p %s -c %s/nginx.conf -e %s/error.log"):format(dir, dir, dir)
  if opts.capability then
    local user = "--reuid=www-data --regid=www-data --clear-groups --inh-caps=%s --ambient-caps=%s"
    nginx = ("chown www-data %s; setpriv %s %s"):format(dir, (user:gsub("%%s", "+dac_read_search,+" .. opts.capability)), nginx)
  end
  local text, status
  repeat
    self.port, self.h2port = M.new_port(), M.new_port()
    self:configure()
    if text then shell(("find %s -type s -delete; rm %s/error.log"):format(dir, dir)) end -- the last try has left these
    text, status = shell(nginx)
  until status == 0 or not text:find("Address already in use", 1, true)
  if status ~= 0 then
    self:remove()
    error("nginx does not start: " .. text, 2)
  end
  running[#running + 1] = self
  self:wait(function() return self:get "/tell" ~= "" end)
  return self
end

--- Stops every nginx that still runs: for after_each.
function M.stop()
  for i = #running, 1, -1 do table.remove(running, i):stop() end
end

--- Writes the configuration, with the given pieces replaced.
function Server:configure(changed)
  for k, v in pairs(changed or {}) do self.opts[k] = v end
  local o = self.opts
  local own = { port = self.port, dir = self.dir }
  local function piece(name, default) return ((o[name] or default):gsub("%$(%w+)", own)) end
  local values = { user = o.capability and "" or ("user %s;"):format(o.user or "www-data"),
    workers = o.workers or 1, dir = self.dir,
    load = binary and "" or ("load_module $/ndk_http_module.so;\nload_module $/ngx_http_lua_module.so;"):gsub("%$", modules),
    lua = libraries and libraries .. "/?.lua;;" or ";", cpath = libraries and libraries .. "/?.so;;" or ";",
    tree = os.getenv "PWD", build = absolute(os.getenv "BUILD" or "build"), port = self.port, h2listen = h2_listen(self.h2port),
    log = piece("log", "log_by_lua_block { perf.log() }"), main = piece("main", ""), http = piece("http", ""),
    server = piece("server", ""), init_worker = piece("init_worker", "app.start()"), install = o.install or "",
    shutdown = o.shutdown or "2s", app = o.app or "spec.nginx.app" }
  util.write_file(self.dir .. "/nginx.conf", (template:gsub("%$([%w_]+)", values)))
end

--- Makes a certificate in a directory: cert.pem and key.pem.
function M.certificate(dir)
  local said, status = shell(("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 " ..
    "-subj /CN=localhost -keyout %s/key.pem -out %s/cert.pem"):format(dir, dir))
  assert(status == 0, said)
end

--- The body of an answer, and its status.
function Server:get(path, curl)
  local text = shell(("curl -s -m 60 -w '\\n%%{http_code}' %s 'http://127.0.0.1:%d%s'"):format(curl or "", self.port, path))
  local body, status = text:match "^(.*)\n(%d+)$"
  return body or "", tonumber(status)
end

--- Sends a request in the background. Returns the client's process id.
-- @param[opt] answer file for the answer
function Server:begin(path, answer)
  local curl = "curl -s -m 120 -o %s 'http://127.0.0.1:%d%s' >/dev/null 2>&1 & echo $!"
  return tonumber((shell(curl:format(answer or "/dev/null", self.port, path))))
end

--- Begins a profile of /perf?QUERY in the background, and waits until it runs. Returns the client's process id.
function Server:profile(query)
  local before = self:get "/begun_profiles"
  local pid = self:begin("/begin_profile?" .. query)
  self:wait(function() return self:get "/begun_profiles" ~= before end)
  return pid
end

-- The same as `begin`, and waits until the request is being handled in the one worker.
local function ask(self, path, answer)
  local pid = self:begin(path, answer)
  self:wait(function() return self:worker().known == 1 end)
  return pid
end

--- A request whose client disconnects while it is being handled.
function Server:leave(path)
  kit.kill(ask(self, path, "/dev/null"), 15)
  self:wait(function() return self:worker().known == 0 end)
end

--- A request whose client disconnects as soon as it is sent.
function Server:send(path)
  local text, status = shell(([[bash -c 'exec 3<>/dev/tcp/127.0.0.1/%d
    printf "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" >&3']]):format(self.port, path))
  assert(status == 0, text)
end

--- Two requests: the first one waits for the second, which is sent while the first is handled in the one worker. Returns both
-- answers.
function Server:get_both(first, second)
  local answer = self.dir .. "/answer"
  ask(self, first, answer)
  local got, text = self:get(second), nil
  self:wait(function()
    local f = io.open(answer)
    text = f and f:read "*a"
    return f and f:close() and text ~= ""
  end)
  os.remove(answer)
  return text, got
end

--- The answer of /worker: numbers by name, for the only worker.
function Server:worker()
  local t = {}
  for name, v in self:get "/worker":gmatch "([^\n]+) (%d+)\n" do t[name] = tonumber(v) end
  return t
end

--- Load by wrk; returns its output.
function Server:wrk(path, connections, seconds, more)
  local load = "nice -n 5 wrk -t1 -c%d -d%ds %s http://127.0.0.1:%d%s"
  return shell(load:format(connections, seconds, more or "", self.port, path))
end

--- n requests by h2load over HTTP/1.1 or, with h2, HTTP/2; how many succeeded.
function Server:load(path, n, connections, h2, more)
  local load = "nice -n 5 h2load %s -n %d -c %d -t 1 %s http://127.0.0.1:%d%s"
  local text = shell(load:format(h2 and "-m 8" or "--h1", n, connections, more or "", h2 and self.h2port or self.port, path))
  return tonumber(text:match "(%d+) 2xx" or "0")
end

--- The error log, without a line that is being written.
function Server:log() return (util.read_file(self.dir .. "/error.log"):match "^.*\n") or "" end

--- Leaves out lines of the error log about nginx's own affairs up to the level notice.
function Server:errors()
  local list = {}
  for line in self:log():gmatch "[^\n]+" do
    if not line:find "%[notice%]" and not line:find "%[info%]" then list[#list + 1] = line end
  end
  return table.concat(list, "\n")
end

--- Requests that wait in app.hold() continue, and later ones do not wait.
function Server:release() util.write_file(self.dir .. "/released", "") end

--- Requests wait in app.hold() again, as they do at first.
function Server:hold() os.remove(self.dir .. "/released") end

--- Waits until f() is true; returns its value.
function Server:wait(f)
  for _ = 1, 400 do
    local v = f()
    if v then return v end
    shell "sleep 0.05"
  end
  error("waited in vain; error.log:\n" .. self:log(), 2)
end

-- The process id in a file; nil if there is no file.
local function pid_in(name)
  local f = io.open(name)
  local text = f and f:read "*a"
  if f then f:close() end
  return text and tonumber((text:match "%d+"))
end

-- Whether a process is gone, or waits as a zombie for its parent, which may be a process that never asks.
local function has_ended(pid)
  local f = io.open("/proc/" .. pid .. "/stat")
  local text = f and f:read "*a"
  if f then f:close() end
  return not text or text:find "%) Z" ~= nil
end

--- The master's process id; nil for a moment while a binary upgrade begins.
function Server:master() return pid_in(self.dir .. "/nginx.pid") end

--- The process ids of the workers of a master, by default of the one that is in the file.
function Server:workers(pid)
  local list = {}
  pid = pid or assert(self:master(), "no master")
  for child in util.read_file(("/proc/%d/task/%d/children"):format(pid, pid)):gmatch "%d+" do
    list[#list + 1] = tonumber(child)
  end
  return list
end

--- Waits until these processes have ended.
function Server:ended(pids)
  self:wait(function()
    for _, pid in ipairs(pids) do
      if not has_ended(pid) then return false end
    end
    return true
  end)
end

--- Loads the configuration again and waits for the new workers.
function Server:reload()
  local before = {}
  for _, pid in ipairs(self:workers()) do before[pid] = true end
  kit.kill(self:master(), 1)
  self:wait(function()
    for _, pid in ipairs(self:workers()) do
      if before[pid] then return false end
    end
    return #self:workers() > 0 and self:get "/tell" ~= ""
  end)
end

function Server:remove() os.execute("rm -rf " .. self.dir) end

--- Stops it and removes its files. Idempotent.
function Server:stop()
  if self.stopped then return end
  self.stopped = true
  for _, name in ipairs { "/nginx.pid.oldbin", "/nginx.pid" } do
    local master = pid_in(self.dir .. name)
    if master then kit.kill(master, 15) end
    self:ended { master }
  end
  self:remove()
end

--- Prepares a describe block for specs of profiles from outside: checks their needs before each spec, and ends the profiler and
-- the server after it. Returns a function(server) that starts to profile the server's calls of getppid, and returns the Profiler.
function M.profiled_outside()
  local profiler
  busted.before_each(function()
    requires(M.needs)
    requires { ext = { "bpf", "outside" }, bpf = true, root = true, tracepoint = "syscalls:sys_enter_getppid" }
  end)
  busted.after_each(function()
    if profiler then profiler:close() end
    profiler = nil
    M.stop()
  end)
  return function(server)
    profiler = assert(require "perf".profiler { pid = server:master(), event = "syscalls:sys_enter_getppid" })
    assert(profiler:start())
    return profiler
  end
end

return M

-- Every phase, in a block or in a file, with or without a hook: its cost is counted in that phase of its request.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"
local TIMES = 20

-- hook.content(f, n) is perf.content(f, n), or f(n) without a hook.
local configuration = {
  user = "root",   log = "log_by_lua_block { hook.log(app.spend, 1) }",
  http = [[
    upstream chosen { server 0.0.0.1; balancer_by_lua_block { hook.balancer(app.balance) } }
    upstream chosen_by_file { server 0.0.0.1; balancer_by_lua_file $dir/balancer.lua; }
    server {
      listen unix:$dir/tls_file ssl;
      ssl_certificate $dir/cert.pem;
      ssl_certificate_key $dir/key.pem;
      ssl_protocols TLSv1.2;
      ssl_session_tickets off;
      ssl_session_cache none;
      ssl_client_hello_by_lua_file $dir/client_hello.lua;
      ssl_certificate_by_lua_file $dir/certificate.lua;
      location = /static { return 200 "x"; }
    }
    ssl_session_fetch_by_lua_block { hook.ssl_session_fetch(app.spend, 17) }
    ssl_session_store_by_lua_block { hook.ssl_session_store(app.spend, 18) }
    exit_worker_by_lua_block { perf.exit_worker(app.spend, 19) } ]],
  server = [[
    listen unix:$dir/tls ssl;
    ssl_certificate $dir/cert.pem;
    ssl_certificate_key $dir/key.pem;
    ssl_protocols TLSv1.2;
    ssl_session_tickets off;
    ssl_session_cache none;
    ssl_client_hello_by_lua_block { hook.ssl_client_hello(app.spend, 15) }
    ssl_certificate_by_lua_block { hook.ssl_certificate(function() app.spend(8) ngx.sleep(0.001) app.spend(8) end) }
    location = /static { return 200 "x"; }
    location = /block {
      set_by_lua_block $x { return hook.set(function() app.spend(11) return "set" end) }
      rewrite_by_lua_block { hook.rewrite(function() app.spend(6) ngx.sleep(0.001) app.spend(6) end) }
      access_by_lua_block { hook.access(app.spend, 13) }
      content_by_lua_block { return hook.content(function()
        app.spend(7) ngx.sleep(0.001) app.spend(7) ngx.say(ngx.var.x) end) }
      header_filter_by_lua_block { hook.header_filter(app.spend, 21) }
      body_filter_by_lua_block { hook.body_filter(function() if ngx.arg[1] ~= "" then app.spend(22) end end) }
    }
    location = /file {
      set_by_lua_file $x $dir/set.lua a b;
      rewrite_by_lua_file $dir/rewrite.lua;
      access_by_lua_file $dir/access.lua;
      content_by_lua_file $dir/content.lua;
      header_filter_by_lua_file $dir/header_filter.lua;
      body_filter_by_lua_file $dir/body_filter.lua;
      log_by_lua_file $dir/log.lua;
    }
    location = /same { rewrite_by_lua_file $dir/any.lua; access_by_lua_file $dir/any.lua; content_by_lua_file $dir/any.lua; }
    location = /boom { content_by_lua_block { local function f() error "boom" end f() } }
    location = /missing { content_by_lua_file $dir/missing.lua; }
    location = /broken { content_by_lua_file $dir/broken.lua; }
    location = /balanced { proxy_pass http://chosen/static; }
    location = /balanced_by_file { proxy_pass http://chosen_by_file/static; }
  ]],
}

local files = {
  set = 'return hook.set(function() app.spend(11) return ngx.arg[1] .. ngx.arg[2] end)',
  rewrite = 'hook.rewrite(function() app.spend(6) ngx.sleep(0.001) app.spend(6) end)',
  access = 'hook.access(app.spend, 13)',
  content = 'return hook.content(function() app.spend(7) ngx.sleep(0.001) app.spend(7) ngx.say(ngx.var.x) end)',
  header_filter = 'hook.header_filter(app.spend, 21)',
  body_filter = 'hook.body_filter(function() if ngx.arg[1] ~= "" then app.spend(22) end end)',
  log = 'hook.log(app.spend, 23)',
  balancer = 'hook.balancer(app.balance)',
  client_hello = 'hook.ssl_client_hello(app.spend, 15)',
  certificate = 'hook.ssl_certificate(function() app.spend(8) ngx.sleep(0.001) app.spend(8) end)',
  broken = 'return return',
  any = 'hook[ngx.get_phase()](app.spend, 9)',
}

local function prepare(dir)
  server.certificate(dir)
  for name, text in pairs(files) do util.write_file(("%s/%s.lua"):format(dir, name), text) end
end

-- nginx loads the code of a worker's end, a block or a file, without its cache: `auto` does not see it.
describe("the end of a worker", function()
  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
  end)
  after_each(server.stop)

  local forms = { block = "exit_worker_by_lua_block { TEXT }", file = "exit_worker_by_lua_file $dir/exit.lua;" }
  for form, directive in pairs(forms) do
    for _, install in ipairs { "", "{ auto = true }" } do
      for text, counted in pairs { ["perf.exit_worker(app.spend, 19)"] = true, ["app.spend(19)"] = false } do
        it(("in a %s: %s, install(%s)"):format(form, text, install), function()
          local s = server.start { user = "root", http = (directive:gsub("TEXT", text)), install = install,
            prepare = function(dir) util.write_file(dir .. "/exit.lua", text) end }
          for n = 1, 2 do
            local before = s:workers()
            s:reload()
            s:ended(before)
            local metrics = s:get "/metrics"
            local function has(line) assert.equal(counted, metrics:find(line, 1, true) ~= nil) end
            has(('requests_total{route="(exit_worker)"} %d\n'):format(n))
            has(('sys_enter_getppid_total{route="(exit_worker)",phase="exit_worker"} %d\n'):format(19 * n))
          end
          assert.is_nil(s:log():find("[error]", 1, true))
        end)
      end
    end
  end
end)

local modes = {
  ["with hooks"] = { install = "", hook = "perf" },
  ["without hooks"] = { install = "{ auto = true }", hook = "app.without" },
  ["with hooks in chunks that are counted already"] = { install = "{ auto = true }", hook = "perf" },
}

for label, mode in pairs(modes) do describe("phases " .. label .. ":", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT, cmd = "openssl" }
    if s then return end
    local o = { prepare = prepare, install = mode.install, app = "spec.nginx.phases_app",
      init_worker = ("hook = %s app.start()"):format(mode.hook) }
    for k, v in pairs(configuration) do o[k] = v end
    s = server.start(o)
  end)

  teardown(function() if s then s:stop() end end)

  -- The counts of a route, by phase, since `before`.
  local function since(before, route)
    local w = s:worker()
    local counts = { requests = (w["requests:" .. route] or 0) - (before["requests:" .. route] or 0) }
    for key, n in pairs(w) do
      local phase = key:match("^phase:" .. route:gsub("%p", "%%%0") .. ":([%l_]+):" .. EVENT .. "$")
      if phase then
        n = n - (before[key] or 0)
        counts[phase] = n ~= 0 and n or nil
      end
    end
    return counts
  end

  -- Sends requests, and checks what the route counted; also what the first run of each chunk cost.
  local function check(route, n, want, send)
    local before = s:worker()
    for _ = 1, n do send() end
    s:wait(function() return since(before, route).requests == n end)
    local counts = since(before, route)
    for phase, cost in pairs(want) do want[phase] = n * cost end
    want.requests = n
    assert.same(want, counts)
    local w = s:worker()
    assert.equal(w["whole:" .. EVENT], w["unattributed:" .. EVENT] + w["pending:" .. EVENT] + w["routes:" .. EVENT])
    assert.equal(before["unattributed:" .. EVENT], w["unattributed:" .. EVENT])
    assert.equal(before.abandoned, w.abandoned)
    assert.equal("", s:errors())
  end

  local function get(path, body)
    return function() assert.equal(body, (s:get(path))) end
  end

  for _, n in ipairs { 1, TIMES } do
    it("blocks, " .. n .. " times", function()
      check("/block", n, { set = 11, rewrite = 12, access = 13, content = 14, header_filter = 21, body_filter = 22, log = 1 },
        get("/block", "set\n"))
    end)

    it("files, " .. n .. " times", function()
      check("/file", n, { set = 11, rewrite = 12, access = 13, content = 14, header_filter = 21, body_filter = 22, log = 23 },
        get("/file", "ab\n"))
    end)

    it("one file for several phases, " .. n .. " times", function()
      check("/same", n, { rewrite = 9, access = 9, content = 9, log = 1 }, get("/same", ""))
    end)

    it("a balancer, " .. n .. " times", function()
      for _, path in ipairs { "/balanced", "/balanced_by_file" } do
        local before = s:worker()
        for _ = 1, n do assert.equal("x", (s:get(path))) end
        s:wait(function() return since(before, path).requests == n end)
        assert.same({ requests = n, balancer = 3 * n, log = n }, since(before, path))
      end
    end)
  end

  for _, socket in ipairs { "tls", "tls_file" } do
    it("a TLS handshake, " .. socket, function()
      local before = s:worker()
      for _ = 1, TIMES do
        local text = util.shell(("curl -s -k --unix-socket %s/%s https://localhost/static"):format(s.dir, socket))
        assert.equal("x", text)
      end
      for phase, n in pairs { ssl_client_hello = 15, ssl_certificate = 16, ssl_session_store = 18 } do
        assert.same({ requests = TIMES, [phase] = TIMES * n }, since(before, "(" .. phase .. ")"), phase)
      end
    end)
  end

  it("a TLS session that is resumed", function()
    local before = s:worker()
    util.shell(("echo | openssl s_client -tls1_2 -unix %s/tls -sess_out %s/session"):format(s.dir, s.dir))
    for _ = 1, TIMES do
      local text = util.shell(("echo | openssl s_client -tls1_2 -unix %s/tls -sess_in %s/session"):format(s.dir, s.dir))
      assert.truthy(text:find "CONNECTED", text)
    end
    assert.same({ requests = TIMES, ssl_session_fetch = TIMES * 17 }, since(before, "(ssl_session_fetch)"))
  end)

  it("the end of a worker", function()
    s:reload()
    check("/same", 1, { rewrite = 9, access = 9, content = 9, log = 1 }, get("/same", ""))
    s:wait(function() return s:get "/metrics":find('requests_total{route="(exit_worker)"} 1', 1, true) end)
    assert.truthy(s:get "/metrics":find('phase_syscalls_sys_enter_getppid_total{route="(exit_worker)",phase="exit_worker"} 19', 1,
      true))
  end)

  it("errors, and files that cannot be loaded", function()
    for _ = 1, 2 do
      assert.equal(500, select(2, s:get "/boom"))
      assert.equal(404, select(2, s:get "/missing"))
      assert.equal(500, select(2, s:get "/broken"))
    end
    local log = s:errors()
    assert.truthy(log:find("runtime error: content_by_lua%(nginx.conf:%d+%):1: boom\nstack traceback:\ncoroutine 0:\n"), log)
    assert.truthy(log:find("broken.lua:1: unexpected symbol near 'return'", 1, true), log)
  end)
end) end

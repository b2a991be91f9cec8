-- Every way to yield, one by one, while eight requests take turns: the costs before and after it are the request's own.
local server = require "spec.nginx.server"

local EVENT = "syscalls:sys_enter_getppid"
local REQUESTS = 40

local configuration = {
  app = "spec.nginx.yields_app", user = "root", prepare = server.certificate, init_worker = "app.begin('$dir/tls', $port)",
  main = "thread_pool pool threads=2;",
  http = [[
    lua_worker_thread_vm_pool_size 16;
    lua_socket_log_errors off;
    upstream chosen {
      server 0.0.0.1;
      balancer_by_lua_block { perf.balancer(app.balance) }
    } ]],
  server = [[
    location ~ ^/way/(.*)$ { content_by_lua_block { perf.content(app.around, ngx.var[1]) } }
    location /child { content_by_lua_block { perf.content(function() app.spend(5) ngx.sleep(0.001) app.spend(5) end) } }
    location /slow { content_by_lua_block { app.slow() } }
    location /slow_client { content_by_lua_block { app.slow_client() } }

    location /server_rewrite { content_by_lua_block { perf.content(app.around, "sleep") } }
    server_rewrite_by_lua_block { if ngx.var.uri == "/server_rewrite" then perf.server_rewrite(app.sleep) end }

    location /redirect { content_by_lua_block { perf.content(function() app.spend(7) ngx.redirect "/slow" end) } }
    location /exec { content_by_lua_block { perf.content(function() app.spend(1) ngx.exec "/way/sleep" end) } }
    location /jump { rewrite_by_lua_block { perf.rewrite(function() app.spend(2) ngx.req.set_uri("/way/sleep", true) end) } }
    location /named { content_by_lua_block { perf.content(function() app.spend(1) ngx.exec "@name" end) } }
    location @name { content_by_lua_block { perf.content(app.around, "sleep") } }
    location /page { error_page 404 = /way/sleep;
      access_by_lua_block { perf.access(function() app.sleep() ngx.exit(404) end) } }

    location /balanced { access_by_lua_block { perf.access(app.sleep) } proxy_pass http://chosen/child; }

    location /no_pipe { content_by_lua_block { ngx.say(tostring(app.no_pipe)) } }
    location /aborted { content_by_lua_block { perf.content(app.aborted) } }

    listen unix:$dir/tls ssl;
    ssl_certificate $dir/cert.pem;
    ssl_certificate_key $dir/key.pem; ]],
}

-- The number of calls that each request counts.
local ways = { sleep = 7, flush = 7, read_body = 7, body_socket = 7, tcp = 7, connect = 7, tls = 7, udp = 7, capture = 17,
  capture_multi = 27, thread = 13, killed_thread = 12, semaphore = 7, coroutine = 10, yield = 7, worker_thread = 7 }

describe("functions that yield:", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT, cmd = "openssl" }
    if s then return end
    s = server.start(configuration)
  end)

  teardown(function() if s then s:stop() end end)

  -- Sends requests for a path, and checks the counts of its route in each phase.
  local function check(path, route, phases)
    local earlier, wrong = s:worker(), s:get "/tell":match "wrong %d+"
    s:load(path, REQUESTS, 8)
    s:wait(function() return s:worker().known == 0 end)
    local w = s:worker()
    assert.equal(REQUESTS, w["requests:" .. route] - (earlier["requests:" .. route] or 0))
    for phase, n in pairs(phases) do
      local key = "phase:" .. route .. ":" .. phase .. ":" .. EVENT
      assert.equal(REQUESTS * n, w[key] - (earlier[key] or 0), phase)
    end
    assert.equal(w["whole:" .. EVENT], w["unattributed:" .. EVENT] + w["routes:" .. EVENT])
    assert.equal(earlier.abandoned, w.abandoned)
    assert.equal(wrong, (s:get "/tell":match "wrong %d+"), s:get "/tell")
  end

  for way, n in pairs(ways) do
    it(way, function()
      local path = "/way/" .. way
      check(way:find "body" and "/slow_client?to=" .. path or path, path, { content = n })
      assert.equal("", s:errors())
    end)
  end

  it("pipe", function()
    requires { nginx_lua = "pipe_spawn" }
    check("/way/pipe", "/way/pipe", { content = 7 })
  end)

  it("requiring a module that the host lacks gives the reason", function()
    local said = s:get "/no_pipe"
    assert.truthy(said == "false\n" or said:find "^pipe API is not supported", said)
  end)

  it("server_rewrite", function() check("/server_rewrite", "/server_rewrite", { server_rewrite = 7, content = 7 }) end)

  it("an internal redirect continues the request, and an external one ends it", function()
    check("/exec", "/exec", { content = 8 })
    check("/named", "/named", { content = 8 })
    check("/jump", "/jump", { rewrite = 2, content = 7 })
    check("/page", "/page", { access = 7, content = 7 })
    check("/redirect", "/redirect", { content = 7 })
    assert.equal("", s:errors())
  end)

  it("a balancer that runs again when its first choice does not answer", function()
    check("/balanced", "/balanced", { access = 7, balancer = 10 })
    for line in s:errors():gmatch "[^\n]+" do assert.truthy(line:find "while connecting to upstream", line) end
  end)

  it("a client that disconnects, and the handler for that", function()
    local before = s:worker()
    for _ = 1, 5 do s:leave "/aborted" end
    s:wait(function() return s:worker()["requests:/aborted"] == 5 end)
    local w = s:worker()
    assert.equal(5 * 7, w["phase:/aborted:content:" .. EVENT])
    assert.equal(before.abandoned, w.abandoned)
    assert.equal(0, w.known)
  end)
end)

-- Requests on their way through nginx: redirects, subrequests, aborts, errors, phases, HTTP/2, timers.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"

describe("resty.perf and requests", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
  end)
  after_each(server.stop)

  local function serve(locations, more)
    local opts = { server = locations, user = "root" }
    for k, v in pairs(more or {}) do opts[k] = v end
    s = server.start(opts)
  end

  local TIMES = 40
  local function many(path) assert.equal(TIMES, s:load(path, TIMES, 1)) end

  -- The worker's counts for a route in a phase, after the request.
  local function cost(route, phase, requests)
    s:wait(function() return (s:worker()["requests:" .. route] or 0) >= (requests or 1) end)
    local w = s:worker()
    assert.equal(w["whole:" .. EVENT], w["unattributed:" .. EVENT] + w["pending:" .. EVENT] + w["routes:" .. EVENT])
    return w["phase:" .. route .. ":" .. phase .. ":" .. EVENT] or 0
  end

  it("counts each phase by itself, also filters within the content phase", function()
    serve [[
      location /phases {
        rewrite_by_lua_block { perf.rewrite(app.spend, 11) }
        access_by_lua_block { perf.access(function() app.spend(12) ngx.sleep(0.001) app.spend(1) end) }
        content_by_lua_block { perf.content(function() app.spend(20) ngx.print("x") app.spend(30) ngx.eof() end) }
        header_filter_by_lua_block { perf.header_filter(app.spend, 14) }
        body_filter_by_lua_block { perf.body_filter(function() if ngx.arg[1] == "x" then app.spend(15) end end) }
        log_by_lua_block { perf.log(app.spend, 16) }
      }]]
    many "/phases"
    s:wait(function() return s:worker()["requests:/phases"] == TIMES end)
    local before = s:worker()
    s:get "/phases"
    for phase, n in pairs { rewrite = 11, access = 13, content = 50, header_filter = 14, body_filter = 15, log = 16 } do
      assert.equal(n, cost("/phases", phase, TIMES + 1) - before["phase:/phases:" .. phase .. ":" .. EVENT], phase)
    end
  end)

  it("takes an internal redirect as the same request, although ngx.ctx is cleared", function()
    serve [[
      location /from {
        rewrite_by_lua_block { perf.rewrite(function() app.spend(7) end) }
        content_by_lua_block { perf.content(function() app.spend(5) ngx.exec "/to" end) }
      }
      location /to {
        internal;
        rewrite_by_lua_block { perf.rewrite(function() app.spend(1) end) }
        content_by_lua_block { perf.content(function() app.spend(2) app.say() end) }
      }]]
    many "/from"
    assert.equal("15\n", (s:get "/from"))
    assert.equal(TIMES + 1, s:worker()["requests:/from"])
    assert.is_nil(s:worker()["requests:/to"])
  end)

  it("takes a subrequest as part of its parent, although it has its own log phase", function()
    serve [[
      log_subrequest on;
      location /parent { content_by_lua_block { perf.content(app.capture, "/child") } }
      location /child { content_by_lua_block { perf.content(function() app.spend(10) ngx.sleep(0.001) ngx.print "." end) } }]]
    many "/parent"
    assert.equal("... 33\n", (s:get "/parent"))
    assert.is_nil(s:worker()["requests:/child"])
    assert.equal(0, s:worker().known)
  end)

  it("counts coroutines within a request, and semaphores between two requests", function()
    serve [[
      location /generator { content_by_lua_block { perf.content(app.generator) } }
      location /wait { content_by_lua_block { perf.content(app.wait) } }
      location /post { content_by_lua_block { perf.content(function() app.spend(40) app.post() end) } }]]
    many "/generator"
    assert.equal("15\n", (s:get "/generator"))
    for _ = 1, 3 do
      assert.same({ "true\n", "posted\n" }, { s:get_both("/wait", "/post") })
    end
    local before = cost("/wait", "content", 3)
    s:get_both("/wait", "/post")
    assert.equal(before, cost("/wait", "content", 4))
  end)

  it("leaves nothing behind after errors and aborts", function()
    serve [[
      location /error { content_by_lua_block { perf.content(function() error "boom" end) } }
      location /thread { content_by_lua_block { perf.content(function()
        ngx.thread.spawn(function() error "bang" end) ngx.sleep(0.01) app.spend(6) app.say() end) } }
      location /long { content_by_lua_block { perf.content(function() ngx.sleep(10) end) } }
      location /exit { access_by_lua_block { perf.access(function() ngx.exit(403) end) } }]]
    assert.equal(500, select(2, s:get "/error"))
    assert.equal(403, select(2, s:get "/exit"))
    many "/thread"
    assert.equal("6\n", (s:get "/thread"))
    s:leave "/long"
    s:wait(function() return s:worker()["requests:/long"] == 1 end)
    local w = s:worker()
    assert.equal(1, w["requests:/error"])
    assert.equal(1, w["requests:/exit"])
    assert.equal(0, w.known)
    assert.equal(1, w.abandoned) -- the turn of /error; a thread's error does not end its parent's turn
    for line in s:errors():gmatch "[^\n]+" do
      assert.truthy(line:find "boom" or line:find "bang" or line:find "^stack" or line:find "^coroutine" or line:find "^\t")
    end
  end)

  it("ends a request without a log phase too, and never another one", function()
    serve([[
      location /one { log_by_lua_block { } content_by_lua_block { perf.content(function() app.spend(4) ngx.sleep(0.002)
        if ngx.var.arg_error then error "boom" end app.say() end) } }
      location /static { return 200 "x"; }]], { init_worker = "app.start{slow=0}" })
    assert.equal(50, s:load("/one", 50, 4))
    assert.equal(500, select(2, s:get "/one?error=1"))
    for _ = 1, 5 do -- on one connection, so that both have the same address
      util.shell(("curl -s http://127.0.0.1:%d/one http://127.0.0.1:%d/static"):format(s.port, s.port))
    end
    local w = s:worker()
    assert.equal(56, w["requests:/one"])
    assert.equal(56 * 4, cost("/one", "content"))
    assert.equal(0, w.known)
    assert.is_nil(s:log():find "slow request")
  end)

  it("separates the requests of one connection, with HTTP/2 and keep-alive", function()
    serve [[location /one { content_by_lua_block { perf.content(function() app.spend(4) ngx.sleep(0.001) app.spend(4)
      app.say() end) } }]]
    assert.equal(100, s:load("/one", 100, 4, true))
    assert.equal(100, s:load("/one", 100, 4))
    local before = cost("/one", "content", 200)
    assert.equal(200, s:load("/one", 200, 4, true))
    assert.equal(before + 8 * 200, cost("/one", "content", 400))
    assert.equal("8\n8\n8\n", (util.shell(("curl -s 'http://127.0.0.1:%d/one?[1-3]'"):format(s.port))))
  end)

  it("counts timers by themselves, not for the request that starts them", function()
    serve [[location /timer { content_by_lua_block { perf.content(function()
      ngx.timer.at(0, function(_, n) app.spend(n) ngx.sleep(0.001) app.spend(n) end, 9) app.say() end) } }]]
    many "/timer"
    s:wait(function() return s:worker()["requests:(timer)"] == TIMES end)
    local before = s:worker()["phase:(timer):timer:" .. EVENT]
    assert.equal("0\n", (s:get "/timer"))
    assert.equal(before + 18, cost("(timer)", "timer", TIMES + 1))
  end)

  it("counts timers by their function, or under the name that the callback gives", function()
    serve([[location /timers { content_by_lua_block { perf.content(function()
      ngx.timer.at(0, app.timer, 4)
      ngx.timer.at(0, function() app.spend(5) perf.route "sweep" app.spend(6) end)
      ngx.timer.at(0, print) end) } }]], { init_worker = "app.start{timers = true}" })
    many "/timers"
    s:wait(function() return s:worker().known == 0 end)
    local w, named = s:worker(), nil
    for key in pairs(w) do named = named or key:match "^requests:(%(timer%) .*app%.lua:%d+)$" end
    for route, n in pairs { [named] = 4, sweep = 11, ["(timer) [C]:-1"] = 0 } do
      assert.equal(TIMES, w["requests:" .. route], route)
      assert.equal(TIMES * n, w["phase:" .. route .. ":timer:" .. EVENT] or 0, route)
    end
    assert.equal(0, w["requests:(timer)"])
  end)

  it("adds a request to a route by its name, and has at most 100 routes", function()
    serve([[location / { content_by_lua_block { perf.content(function()
      if ngx.var.arg_name then perf.route(ngx.var.arg_name) end ngx.say "ok" end) } }]],
      { init_worker = [[app.start{routes={"/users/:id", "/static/*"}}]] })
    s:get "/users/7"
    s:get "/static/a/b.js"
    s:get "/else"
    s:get "/x?name=mine"
    for i = 1, 120 do s:get("/x?name=n" .. i) end
    local w = s:worker()
    for _, name in ipairs { "/users/:id", "/static/*", "mine", "n1" } do assert.equal(1, w["requests:" .. name], name) end
    assert.truthy(w["requests:(other)"] > 20)
    assert.is_nil(w["requests:n119"])
  end)
end)

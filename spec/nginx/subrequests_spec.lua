-- A subrequest belongs to its main request, whichever module made it.
local server = require "spec.nginx.server"

local EVENT = "syscalls:sys_enter_getppid"
local TIMES = 40

describe("a subrequest is part of its main request:", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
    if s then return end
    s = server.start { user = "root", init_worker = "shared = {} app.start()", server = [[
      location = /static { return 200 "x"; }
      location = /auth { internal; content_by_lua_block { perf.content(function()
        app.spend(5) ngx.sleep(0.001) app.spend(5) end) } }
      location = /no { internal; rewrite_by_lua_block { perf.rewrite(function() app.spend(4) ngx.exit(403) end) } }
      location = /auth_alone { auth_request /auth; proxy_pass http://127.0.0.1:$port/static; }
      location = /auth_refused { auth_request /no; proxy_pass http://127.0.0.1:$port/static; }
      location = /auth_and_content { auth_request /auth; content_by_lua_block { perf.content(function()
        app.spend(3) app.judge(perf.request()[app.event], 13) end) } }
      location = /rewrite_and_auth { rewrite_by_lua_block { perf.rewrite(app.spend, 6) } auth_request /auth;
        proxy_pass http://127.0.0.1:$port/static; }

      location = /copy { internal; content_by_lua_block { perf.content(function() ngx.sleep(0.002) app.spend(7) end) } }
      location = /mirrored { mirror /copy; content_by_lua_block { perf.content(app.spend, 2) } }
      location = /mirrored_static { mirror /copy; proxy_pass http://127.0.0.1:$port/static; }

      location = /after { internal; content_by_lua_block { perf.content(function() app.spend(8) ngx.say "y" end) } }
      location = /added { default_type text/html; addition_types *; add_after_body /after;
        proxy_pass http://127.0.0.1:$port/static; }

      location = /child { internal; content_by_lua_block { perf.content(function()
        app.spend(5) ngx.sleep(0.001 + math.random() / 1000) app.spend(5) end) } }
      location = /parent { content_by_lua_block { perf.content(function()
        local own = math.random(20)
        app.spend(own)
        ngx.location.capture("/child", { ctx = shared })
        ngx.sleep(0.001)
        ngx.location.capture_multi { { "/child", { ctx = shared } }, { "/child", { ctx = ngx.ctx } } }
        app.judge(perf.request()[app.event], own + 30) end) } }
      location = /inner { internal; content_by_lua_block { perf.content(function()
        app.spend(2)
        ngx.location.capture "/child" end) } }
      location = /outer { content_by_lua_block { perf.content(function()
        app.spend(1)
        ngx.location.capture "/inner"
        app.judge(perf.request()[app.event], 13) end) } }
      location = /unhooked { content_by_lua_block { ngx.location.capture "/inner" ngx.say "x" } }
      location = /named { content_by_lua_block { perf.content(function()
        ngx.print(ngx.location.capture("/naming").body) end) } }
      location = /naming { content_by_lua_block { perf.content(function()
        perf.route "/named_by_child" ngx.say(tostring(perf.request() ~= nil)) end) } } ]] }
  end)

  teardown(function() if s then s:stop() end end)

  local function value(w, key) return w[key] or 0 end

  -- Sends requests for a path, and checks what its route counted in each phase.
  local function check(path, phases, status)
    local before = s:worker()
    if status then
      for _ = 1, TIMES do assert.equal(status, select(2, s:get(path))) end
    else
      assert.equal(TIMES, s:load(path, TIMES, 8))
    end
    s:wait(function() return s:worker().known == 0 end)
    local w = s:worker()
    assert.equal(TIMES, value(w, "requests:" .. path) - value(before, "requests:" .. path))
    for phase, n in pairs(phases) do
      local key = "phase:" .. path .. ":" .. phase .. ":" .. EVENT
      assert.equal(TIMES * n, value(w, key) - value(before, key), phase)
    end
    for _, name in ipairs { "/auth", "/no", "/copy", "/after", "/child", "/inner" } do assert.is_nil(w["requests:" .. name]) end
    assert.equal(w["whole:" .. EVENT], w["unattributed:" .. EVENT] + w["pending:" .. EVENT] + w["routes:" .. EVENT])
    assert.equal(before["unattributed:" .. EVENT], w["unattributed:" .. EVENT])
    assert.equal(before.abandoned, w.abandoned)
    assert.equal("", s:errors())
    assert.truthy(s:get "/tell":find "wrong 0", s:get "/tell")
  end

  it("auth_request, without Lua in the main request", function() check("/auth_alone", { content = 10 }) end)

  it("auth_request that refuses", function() check("/auth_refused", { rewrite = 4 }, 403) end)

  it("auth_request, before and after Lua of the main request", function()
    check("/auth_and_content", { content = 13 })
    check("/rewrite_and_auth", { rewrite = 6 })
  end)

  it("mirror", function()
    check("/mirrored", { content = 9 })
    check("/mirrored_static", { content = 7 })
  end)

  it("add_after_body", function() check("/added", { content = 8 }) end)

  -- The story: a subrequest was attributed to its request by their ctx table, so requests that shared a table were counted for
  -- each other.
  it("captures of several requests that share one ctx", function() check("/parent", {}) end)

  it("a capture within a capture, also if the main request has no hook", function()
    check("/outer", { content = 13 })
    check("/unhooked", { content = 12 })
  end)

  it("which a hook of the subrequest can name", function()
    assert.equal("true\n", (s:get "/named"))
    s:wait(function() return s:worker()["requests:/named_by_child"] == 1 end)
  end)
end)

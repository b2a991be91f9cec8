-- Errors of functions that may yield, which the handler catches.
local server = require "spec.nginx.server"

describe("an error of a function that may yield", function()
  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- The story: the rest of such a request's Lua was counted for no route.
  it("does not end the turn", function()
    local s = server.start { init_worker = "perf.start{events='task-clock'}", server = [[
      location = /caught { content_by_lua_block { perf.content(function()
        local before = perf.request().wall_ns
        local failed = not pcall(ngx.location.capture, "/a\0b")
        ngx.say(tostring(failed), " ", tostring(before and perf.request().wall_ns > before))
      end) } } ]] }
    assert.equal("true true\n", (s:get "/caught"))
    s:wait(function() return s:worker().known == 0 end)
    assert.equal(0, s:worker().abandoned)
  end)

  -- The story: mistakes in a list of captures were errors inside of the library, only if the request was counted.
  it("has nginx's own message, with the program's line", function()
    local s = server.start { init_worker = [[perf.start{events='task-clock'}
      function mistakes()
        local sock = ngx.socket.tcp()
        local function say(ok, err) ngx.say(tostring(ok), " ", ok and "" or tostring(err)) end
        for _, list in ipairs { { { "/s", 5 } }, { { "/s", "abc" } }, { {} }, { { "/s", {}, 7 } }, { { 5 } }, { 7 }, { { {} } },
          { { "/s", { method = "x" } } }, {} } do
          say(pcall(ngx.location.capture_multi, list))
          say(pcall(function() local a = ngx.location.capture_multi(list) return a.status end))
        end
        say(pcall(function() local a = ngx.location.capture_multi() return a end))
        for _, args in ipairs { { "/s", 5 }, { {} }, {}, { "/s", {}, 7 }, { "/a\0b" }, { "/s", { method = "x" } } } do
          say(pcall(function() local a = ngx.location.capture(unpack(args)) return a.status end))
        end
        say(pcall(function() local a = ngx.sleep("x") return a end))
        say(pcall(function() local a = ngx.sleep(-1) return a end))
        say(pcall(function() local a = sock:connect() return a end))
        say(pcall(function() local a = sock:connect("127.0.0.1", {}) return a end))
        say(pcall(function() local a = sock.send() return a end))
        say(pcall(function() local a = sock:receive({}) return a end))
        say(pcall(function() local a = ngx.thread.wait(1) return a end))
        say(pcall(function() local a = require("ngx.semaphore").new().wait() return a end))
      end]], server = [[
      location = /s { content_by_lua_block { ngx.say "x" } }
      location = /plain { content_by_lua_block { mistakes() } }
      location = /counted { content_by_lua_block { perf.content(mistakes) } } ]] }
    local plain, counted = s:get "/plain", s:get "/counted"
    assert.truthy(#plain > 1000, plain)
    assert.equal(plain, counted)
  end)
end)

describe("resty.perf, when hooks meet within a request:", function()
  local EVENT = "syscalls:sys_enter_getppid"
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
  end)
  after_each(server.stop)

  -- Sends one request; returns its route's count in each phase, and the number of turns that were abandoned.
  -- @param[opt] how "leave": its client disconnects while it is handled
  local function counts(path, how)
    local before = s:worker()
    s[how or "get"](s, path)
    s:wait(function() return s:worker().known == 0 and s:worker()["requests:" .. path] end)
    local w, found = s:worker(), {}
    assert.equal(1, w["requests:" .. path])
    for key, n in pairs(w) do
      local phase = key:match("^phase:" .. path .. ":([%l_]+):" .. EVENT .. "$")
      if phase and n > 0 then found[phase] = n end
    end
    assert.equal(w["whole:" .. EVENT], w["unattributed:" .. EVENT] + w["pending:" .. EVENT] + w["routes:" .. EVENT])
    return found, w.abandoned - before.abandoned
  end

  -- The story: a hook within another one ended the outer one's turn, and the counts of both were unattributed.
  it("a hook within another one is part of it", function()
    s = server.start { user = "root", server = [[
      location /nested { content_by_lua_block { perf.content(function()
        app.spend(1)
        perf.content(function() app.spend(2) ngx.sleep(0.001) app.spend(3) end)
        perf.access(app.spend, 4)
        perf.set(function() return perf.content(app.spend, 5) end)
        app.spend(6) end) }
        log_by_lua_block { perf.log(function() app.spend(7) perf.log() perf.log(app.spend, 8) app.spend(9) end) } } ]] }
    local found, abandoned = counts "/nested"
    assert.same({ content = 21, log = 24 }, found)
    assert.equal(0, abandoned)
  end)

  -- The story: a thread has a stack of its own, on which the hook around it was not found. So a hook in a thread, in the callback
  -- of on_abort or of a timer ended the outer turn, whose counts were unattributed.
  it("a hook in a callback of a request is part of it", function()
    s = server.start { user = "root", server = [[
      location /thread { content_by_lua_block { perf.content(function()
        app.spend(1)
        local thread = ngx.thread.spawn(function()
          app.spend(2)
          perf.content(function() app.spend(3) ngx.sleep(0.001) app.spend(4) end)
          app.spend(5)
          perf.access(app.spend, 6)
          ngx.sleep(0.001)
          app.spend(7)
          perf.content(app.spend, 8)
        end)
        app.spend(9)
        ngx.thread.wait(thread) end) } }
      location /aborted { content_by_lua_block { perf.content(function()
        ngx.on_abort(function() app.spend(1) perf.content(app.spend, 2) app.spend(3) ngx.exit(499) end)
        app.spend(4)
        ngx.sleep(60) end) } }
      location /timed { content_by_lua_block { ngx.timer.at(0, function()
        perf.route "/timed"
        app.spend(1)
        perf.content(app.spend, 2)
        app.spend(3) end) } } ]] }
    local found, abandoned = counts "/thread"
    assert.same({ content = 45 }, found)
    assert.equal(0, abandoned)
    found, abandoned = counts("/aborted", "leave")
    assert.same({ content = 10 }, found)
    assert.equal(0, abandoned)
    found, abandoned = counts "/timed"
    assert.same({ timer = 6 }, found)
    assert.equal(0, abandoned)
  end)

  it("a phase that runs again after an error is not within the first", function()
    s = server.start { user = "root", server = [[
      location /failing { error_page 500 = /again;
        content_by_lua_block { perf.content(function() app.spend(3) error "boom" end) } }
      location /again { internal; content_by_lua_block { perf.content(function() app.spend(4) ngx.say "x" end) } } ]] }
    local found, abandoned = counts "/failing"
    assert.same({ content = 4 }, found)
    assert.equal(1, abandoned)
  end)

  -- The story: after an error in a filter, the content's later counts were the filter's.
  it("an error in a filter leaves no count in a wrong phase", function()
    s = server.start { user = "root", server = [[
      location /filter {
        content_by_lua_block { perf.content(function()
          app.spend(3) ngx.print "x" app.spend(40) ngx.print "y" app.spend(50) ngx.sleep(0.001) app.spend(6) end) }
        body_filter_by_lua_block { perf.body_filter(function() app.spend(7) error "bang" end) }
      }
      location /header {
        content_by_lua_block { perf.content(function()
          app.spend(3) ngx.print "x" app.spend(40) ngx.sleep(0.001) app.spend(6) end) }
        header_filter_by_lua_block { perf.header_filter(function() app.spend(7) error "bang" end) }
      }
      location /exit {
        content_by_lua_block { perf.content(function() app.spend(3) ngx.print "x" app.spend(4) end) }
        header_filter_by_lua_block { perf.header_filter(function() app.spend(5) ngx.exit(ngx.OK) end) }
      } ]] }
    local found, abandoned = counts "/filter"
    assert.same({ content = 9 }, found)
    assert.truthy(abandoned >= 2)
    found, abandoned = counts "/header"
    assert.same({ content = 9 }, found)
    assert.truthy(abandoned >= 1)
    found, abandoned = counts "/exit"
    assert.same({ content = 7, header_filter = 5 }, found)
    assert.equal(0, abandoned)
  end)
end)

describe("resty.perf's hooks", function()
  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- The story: the second call made the request known once more, so it was counted twice.
  it("count a request once, if perf.log is called twice", function()
    local s = server.start { log = " ", init_worker = "app.start{events='page-faults:u', sample=2, slow=1e-9}", server = [[
      location = /hooked {
        content_by_lua_block { perf.content(ngx.say, "x") }
        log_by_lua_block { perf.log(app.touch, 3) perf.log(app.touch, 20) perf.log() } }
      location = /static { return 200 x; log_by_lua_block { perf.log(app.touch, 5) perf.log(app.touch, 20) } }
      location = /unnamed { return 200 x; log_by_lua_block { perf.log() perf.log(app.touch, 7) perf.log(app.touch, 20) } } ]] }
    for _, path in ipairs { "/hooked", "/static", "/unnamed" } do
      local slow = select(2, s:log():gsub("slow request", ""))
      assert.equal(10, s:load(path, 10, 1))
      s:wait(function() return s:worker()["requests:" .. path] == 5 end)
      s:wait(function() return select(2, s:log():gsub("slow request", "")) >= slow + 10 end)
      assert.equal(slow + 10, (select(2, s:log():gsub("slow request", ""))), path)
    end
    assert.equal(30, tonumber(s:get "/metrics":match "\nlua_perf_seen_requests_total (%d+)"))
    for path, faults in pairs { ["/hooked"] = 3, ["/static"] = 5, ["/unnamed"] = 7 } do
      local name = ("phase:%s:log:page-faults:u"):format(path)
      assert.is_true(s:worker()[name] >= 5 * faults and s:worker()[name] < 5 * 20, path .. " " .. s:worker()[name])
    end
  end)

  -- The story: the request of exit_worker_by_lua was never closed after an error, and its turn was not counted as abandoned.
  it("count the end of a worker if its code raises an error", function()
    local s = server.start { http = 'exit_worker_by_lua_block { perf.exit_worker(function() app.touch(9) error "bang" end) }',
      init_worker = "app.start{events='page-faults:u'}" }
    s:reload()
    s:wait(function() return s:get "/metrics":find('requests_total{route="(exit_worker)"} 1', 1, true) end)
    local metrics = s:get "/metrics"
    assert.truthy(metrics:find("\nlua_perf_abandoned_turns_total 1\n", 1, true), metrics)
    s:wait(function() return s:log():find "exit_worker_by_lua%(nginx.conf:%d+%):1: bang" end)
  end)
end)

-- The story: after an error in the log phase of a request that had no other Lua, the next request at the same address was taken
-- for the same one, so two of five were counted.
describe("resty.perf counts each of some requests whose only Lua raises an error", function()
  local TIMES = 5
  local phases = { "rewrite", "access", "content", "header_filter", "body_filter", "log" }

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  for mode, form in pairs { ["with hooks"] = 'perf.PHASE(function() error "boom" end)', ["with auto"] = 'error "boom"' } do
    it(mode, function()
      local locations = { 'location = /set { set_by_lua_block $x { return perf.set(function() error "boom" end) } return 200; }' }
      for _, phase in ipairs(phases) do
        local answer = phase == "content" and "" or phase == "log" and "return 200 x;" or "alias $dir/nginx.conf;"
        local block = ("location = /PHASE { %s PHASE_by_lua_block { %s } }"):format(answer, form)
        locations[#locations + 1] = (block:gsub("PHASE", phase))
      end
      local s = server.start { log = " ", init_worker = "app.start{events='task-clock'}",
        install = mode == "with auto" and "{auto=true}" or "", server = table.concat(locations, "\n") }
      for _, phase in ipairs { "set", unpack(phases) } do
        for _ = 1, TIMES do s:get("/" .. phase) end
        s:get "/worker" -- this request closes the account of the one before
        s:wait(function() return s:worker()["requests:/" .. phase] end)
        assert.equal(TIMES, s:worker()["requests:/" .. phase], phase)
      end
      for _ = 1, TIMES do s:get "/log?1" s:get "/set" end
      assert.equal(2 * TIMES, s:worker()["requests:/log"])
      local seen = tonumber(s:get "/metrics":match "\nlua_perf_seen_requests_total (%d+)")
      local w, counted = s:worker(), 0
      for key, n in pairs(w) do counted = counted + (key:find "^requests:/" and n or 0) end
      assert.truthy(seen >= 9 * TIMES and seen <= counted, seen .. " " .. counted)
    end)
  end

  it("also if they are not sampled", function()
    local s = server.start { log = " ", init_worker = "app.start{events='task-clock', sample=3}", server = [[
      location = /log { return 200; log_by_lua_block { perf.log(function() perf.content(error, "boom") end) } } ]] }
    for _ = 1, 9 do s:get "/log" end
    assert.equal(9, tonumber(s:get "/metrics":match "\nlua_perf_seen_requests_total (%d+)"))
    assert.equal(3, s:worker()["requests:/log"])
  end)
end)

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

-- Clients may give the names of what a handler waits for: the path of a subrequest, a host, a route.
local server = require "spec.nginx.server"

describe("resty.perf's peers of waits", function()
  local s

  before_each(function()
    requires(server.needs)
    s = server.start { init_worker = "perf.start{events='task-clock', waits=true}", server = [[
      location /slow { content_by_lua_block { ngx.say "x" } }
      location = /subrequest { content_by_lua_block { perf.content(function()
        ngx.say(tostring(pcall(ngx.location.capture, "/slow/" .. ngx.req.get_uri_args().name))) end) } }
      location = /named { content_by_lua_block { perf.content(function()
        perf.route(ngx.req.get_uri_args().name) ngx.sleep(0.001) ngx.say "x" end) } }
      location = /socket { content_by_lua_block { perf.content(function()
        local sock, host = ngx.socket.tcp(), ngx.req.get_uri_args().name
        sock:settimeout(100)
        sock:connect(host == "long" and ("a"):rep(70000) or host, 9) ngx.say "x" end) } }
      location = /peers { content_by_lua_block { perf.content(function()
        for _, r in ipairs(perf.waits().waits) do ngx.say(r.route, " ", r.kind, " ", r.peer) end end) } } ]] }
  end)
  after_each(server.stop)

  -- The story: one such request broke the metrics and the pages for good: rows are joined with zero bytes, and Prometheus refuses
  -- a whole page that is not UTF-8.
  it("are valid, whatever bytes a client sends", function()
    for _, name in ipairs { "a%00b", "a%FFb", "a%0Ab", "a%1Bb", "a%7Fb" } do
      for _, path in ipairs { "/subrequest?name=", "/named?name=", "/socket?name=" } do s:get(path .. name) end
    end
    s:get "/socket?name=long"
    s:wait(function() return s:worker().known == 0 end)
    local metrics, status = s:get "/metrics"
    assert.equal(200, status)
    assert.is_nil(metrics:find "[%z\1-\9\11-\31\127]")
    assert.is_nil(metrics:find "\255")
    assert.truthy(metrics:find('route="a\239\191\189b"', 1, true), metrics)
    local json, json_status = s:get "/perf?format=json"
    assert.equal(200, json_status)
    assert.is_nil(json:find "\255")
    local peers = s:get "/peers"
    assert.truthy(peers:find("/socket connect a\239\191\189b:9\n", 1, true), peers)
    assert.truthy(peers:find("/socket connect (other)\n", 1, true), peers)
    assert.truthy(peers:find("/subrequest subrequest /slow/a\239\191\189b\n", 1, true), peers)
    assert.is_nil(s:errors():find("lua entry thread aborted", 1, true), s:errors())
  end)
end)

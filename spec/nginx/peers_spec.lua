-- Clients may give the names of what a handler waits for: the path of a subrequest, a host, a route.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

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

  -- The story: paths that clients made up became peers of any length, which never left. They filled the dictionary and took all
  -- places of call sites, so that later waits of real handlers were shown nowhere.
  it("have bounded names and a bounded number, and junk does not keep out real ones", function()
    local urls = {}
    for i = 1, 300 do
      local word = ""
      for k = 0, 2 do word = word .. string.char(97 + math.floor(i / 26 ^ k) % 26) end
      urls[i] = ('url = "http://127.0.0.1:%d/subrequest?name=%s%s"\noutput = "/dev/null"\n'):format(s.port, word,
        i > 200 and ("x"):rep(3000) or "/12")
    end
    util.write_file(s.dir .. "/urls", table.concat(urls))
    util.execute("curl -s -m 60 -K " .. s.dir .. "/urls")
    s:wait(function()
      s:load("/socket?name=127.0.0.1", 20, 2)
      return s:get "/peers":find("/socket connect 127.0.0.1:9\n", 1, true)
    end)
    local peers, number = {}, 0
    for peer in s:get "/peers":gmatch "/subrequest subrequest ([^\n]*)\n" do
      assert.truthy(#peer <= 200 and not peer:find "%d", peer)
      peers[peer], number = true, number + 1
    end
    assert.truthy(number <= 101, number)
    assert.truthy(peers["(other)"])
    assert.is_nil(s:errors():find("no memory", 1, true), s:errors())
  end)
end)

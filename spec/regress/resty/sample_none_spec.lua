-- The story: with `sample = 0` from the beginning, a worker did nothing until another perf.start. So the options `slow` and
-- `blocked`, which are about requests that are not counted too, had no effect, and the status page had no list of blocked turns.
local server = require "spec.nginx.server"

describe("sample = 0 from the beginning", function()
  local s
  before_each(function() requires(server.needs) end)
  after_each(function() if s then s:stop() end end)

  it("still reports requests that are slow and turns that block", function()
    s = server.start { app = "spec.nginx.blocked_app",
      init_worker = "app.start{events='page-faults:u', sample=0, blocked=0.02, slow=0.02}",
      server = "location ~ ^/block/(.*)$ { content_by_lua_block { perf.content(app.block, ngx.var[1]) } }" }
    s:wait(function() -- on a busy machine the watcher may be too late for some turns
      assert.equal(200, select(2, s:get "/block/nap"))
      return s:log():find "blocked: a turn of /block/nap, content, /block/nap, took [%d.]+m?s: not counted"
    end)
    s:wait(function() return s:log():find "slow request: [%d.]+ s, /block/nap, GET /block/nap 200: not counted" end)
    assert.is_nil(s:get "/metrics":match 'lua_perf_requests_total{route="/block/nap"}')
    s:get("/perf?do=start&sample=1", "-X POST")
    assert.equal(200, select(2, s:get "/block/quick"))
    s:wait(function() return s:get "/metrics":find('lua_perf_requests_total{route="/block/quick"} 1', 1, true) end)
  end)
end)

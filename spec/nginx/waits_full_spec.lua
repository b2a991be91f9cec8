-- Waits while the dictionary is full.
local server = require "spec.nginx.server"

describe("resty.perf's waits", function()
  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- The story: waits that the dictionary refused were lost, and a row that was announced meanwhile was never shown.
  it("that the dictionary refuses come later, and none is lost", function()
    local s = server.start { init_worker = "perf.start{events='task-clock', waits=true, routes={'/nap'}}", server = [[
      location = /nap { content_by_lua_block { perf.content(function() ngx.sleep(0.001) ngx.say "x" end) } }
      location = /fill { content_by_lua_block { local dict, n = ngx.shared.perf, 0
        for _, size in ipairs { 1000000, 60000, 4000, 1000, 200, 60, 1 } do
          while dict:safe_set("fill" .. n, ("x"):rep(size)) do n = n + 1 end
        end
        ngx.say(n) } }
      location = /empty { content_by_lua_block { local dict = ngx.shared.perf
        for _, key in ipairs(dict:get_keys(0)) do if key:find "fill" then dict:delete(key) end end
        dict:flush_expired() ngx.say "x" } }
      location = /naps { content_by_lua_block {
        for _, r in ipairs(perf.waits().waits) do if r.kind == "sleep" then ngx.say(r.route, " ", r.count) end end } } ]] }
    s:get "/fill"
    for _ = 1, 5 do s:get "/nap" end
    s:wait(function() return s:worker().known == 0 end)
    s:get "/naps" -- writes, and is refused
    s:get "/empty"
    assert.equal("/nap 5\n", (s:get "/naps"))
    for _ = 1, 3 do s:get "/nap" end
    s:wait(function() return s:worker().known == 0 end)
    assert.equal("/nap 8\n", (s:get "/naps"))
    local before = s:workers()
    s:reload()
    s:ended(before)
    s:get "/nap"
    s:wait(function() return s:worker().known == 0 end)
    assert.equal("/nap 9\n", (s:get "/naps"))
  end)
end)

-- Sampling by route and by a header in a real nginx: the share of each sampler is exact.
local server = require "spec.nginx.server"

describe("resty.perf's sampling", function()
  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  it("counts exactly its share of each route, and each request with the trusted header", function()
    local s = server.start { log = " ", init_worker = [[
      app.start{events = "page-faults:u",
        sample = {every = 5, header = 'X-Perf', secret = 's3same', routes = {['/a'] = 2, ['/never'] = 0}}}]], server = [[
      location /a { access_by_lua_block { perf.access(function() end) } content_by_lua_block { perf.content(ngx.print, "a") } }
      location / { content_by_lua_block { perf.content(ngx.print, "b") } log_by_lua_block { perf.log(function() end) } }
      location /to_a { rewrite ^ /a; }
      location /exec { content_by_lua_block { perf.content(ngx.exec, "/a") } } ]] }
    local function send(path, n, header)
      assert.equal(n, s:load(path, n, header and 1 or 4, nil, header and ("-H '%s'"):format(header)))
    end
    for _ = 1, 2 do -- the second time all paths are known
      send("/a", 60)
      send("/to_a", 20)
      send("/never", 40)
      send("/b", 70)
      send("/c", 30)
      send("/exec", 25) -- the first hook decides, so /exec does
      send("/b", 15, "X-Perf: wrong")
      send("/b", 12, "X-Perf: s3same")
      send("/never", 7, "X-Perf: s3same")
    end
    local w = s:worker()
    assert.equal(2 * (60 + 20) / 2, w["requests:/a"])
    assert.equal(2 * 7, w["requests:/never"])
    local others = (w["requests:/b"] or 0) + (w["requests:/c"] or 0) + (w["requests:/exec"] or 0)
    assert.equal(2 * ((70 + 30 + 25 + 15) / 5 + 12), others)
    assert.equal(2 * (60 + 20 + 40 + 70 + 30 + 25 + 15 + 12 + 7), tonumber(s:get "/metrics":match
      "\nlua_perf_seen_requests_total (%d+)"))
    assert.equal(0, w.known)
    assert.equal("", s:errors())
  end)
end)

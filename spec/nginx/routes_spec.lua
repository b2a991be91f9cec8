-- Routes that clients make up, and a dictionary that is too small.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

describe("resty.perf's routes", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local function serve(opts)
    s = server.start { workers = opts.workers or 1, http = opts.http, init_worker = opts.init_worker, server = [[
      location / { content_by_lua_block { perf.content(ngx.say, "x") } }
      location = /many { content_by_lua_block { for i = tonumber(ngx.var.arg_from), tonumber(ngx.var.arg_to) do
        ngx.location.capture("/subrequest")
      end } }]] }
  end

  -- Sends requests of different paths.
  local function junk(name, n)
    local urls = {}
    for i = 1, n do urls[i] = ('url = "http://127.0.0.1:%d/%s%dx"'):format(s.port, name, i) end
    local path = s.dir .. "/urls"
    local f = assert(io.open(path, "w"))
    f:write(table.concat(urls, "\noutput = /dev/null\n"), "\noutput = /dev/null\n")
    f:close()
    util.execute("curl -s -m 60 --config " .. path)
  end

  local function routes()
    local t, n, requests = {}, 0, 0
    for name, v in s:get "/metrics":gmatch '\nlua_perf_requests_total{route="([^"]*)"} (%d+)' do
      t[name], n, requests = tonumber(v), n + 1, requests + v
    end
    return t, n, requests
  end

  -- The story: each of four workers had a hundred names, and each reload added as many: 723 routes, and a page of 6 MB.
  it("are at most a hundred in the whole server, also after reloads, and contain every request", function()
    serve { workers = 3, init_worker = "perf.start{events='page-faults:u'}" }
    for round = 1, 3 do
      junk("junk" .. round .. "-", 200)
      local old = s:workers()
      s:reload()
      s:ended(old)
      local _, n, requests = routes()
      assert.truthy(n <= 101, n)
      assert.equal(200 * round, requests)
    end
    assert.equal("", s:errors())
  end)

  it("get a place although clients have made up a hundred before", function()
    serve { workers = 2, init_worker = "perf.start{events='page-faults:u', routes=function(uri) return uri end, " ..
      "sample={routes={['/configured']=1}}}" }
    junk("junk", 300)
    s:load("/configured", 10, 2)
    local all = 310
    s:wait(function()
      all = all + s:load("/real", 50, 4)
      return routes()["/real"]
    end)
    all = all + s:load("/real", 50, 4)
    local t, n, requests
    s:wait(function() -- until the other worker's record is there
      t, n, requests = routes()
      return requests == all
    end)
    assert.equal(10, t["/configured"])
    assert.truthy(n <= 102, n)
    assert.equal("", s:errors())
  end)
end)

describe("resty.perf with a dictionary that is full", function()
  -- The story: the pages were empty, with status 200, since the dictionary had dropped its oldest keys.
  it("reports it, and keeps the counts of the worker that answers", function()
    requires(server.needs)
    local s = server.start { http = "lua_shared_dict small 64k;", server = [[
      location / { content_by_lua_block { perf.content(ngx.say, "x") } }
      location = /fill { content_by_lua_block {
        local dict, i = ngx.shared.small, 0
        repeat i = i + 1 until not dict:safe_set("filler" .. i, ("x"):rep(3000))
        repeat i = i + 1 until not dict:safe_set("filler" .. i, "x")
        ngx.say(i) } }
      location = /drop { content_by_lua_block {
        for i = 1, 100000 do ngx.shared.small:delete("filler" .. i) end ngx.say "x" } } ]],
      init_worker = [[local names = {}
        for i = 1, 40 do names[i] = "/route" .. ("x"):rep(i) end
        perf.start{events='page-faults:u', dict='small', routes=names}]] }
    finally(function() s:stop() end)
    s:get "/metrics" -- writes the record
    s:get "/fill"
    for i = 1, 40 do s:get("/route" .. ("x"):rep(i)) end -- the record has to grow, since these names always have a place
    s:wait(function() return s:log():find "lua_shared_dict small: no memory; make it larger" end)
    local text, status = s:get "/metrics"
    assert.equal(200, status)
    local refused = tonumber(text:match "\nlua_perf_dict_refused_total (%d+)")
    assert.truthy(refused > 0)
    assert.truthy(tonumber(text:match "\nlua_perf_dict_capacity_bytes (%d+)") == 65536)
    local requests = 0
    for n in text:gmatch "\nlua_perf_requests_total{[^}]*} (%d+)" do requests = requests + n end
    assert.equal(40, requests)
    assert.truthy(s:get "/perf?format=json":find('"refused":"no memory"', 1, true))
    -- The story: workers that had ended were forgotten, so the counter went back.
    s:reload()
    assert.truthy(tonumber(s:get "/metrics":match "\nlua_perf_dict_refused_total (%d+)") >= refused)
    s:get "/drop"
    s:wait(function() return not s:get "/perf?format=json":find('"refused"', 1, true) end)
  end)

  it("answers with an error if there are no counts", function()
    requires(server.needs)
    local s = server.start { init_worker = "pcall(perf.start, {events='nosuch'})" }
    finally(function() s:stop() end)
    local text, status = s:get "/metrics"
    assert.equal(503, status)
    assert.truthy(text:find "nothing is counted")
  end)
end)

-- Workers: reload, crash, starting and stopping while they run, sampling, and machines that refuse.
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

describe("resty.perf and workers", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local hello = [[location /hello { content_by_lua_block { perf.content(ngx.say, "hello") } }]]

  -- The sum over all workers of the requests of /hello, once they are published.
  local function requests() return tonumber(s:get "/metrics":match 'lua_perf_requests_total{route="/hello"} (%d+)') or 0 end

  it("keeps its sums over a reload and a killed worker, and leaves nothing open", function()
    s = server.start { workers = 2, server = hello, init_worker = "app.start{events='page-faults:u'}" }
    local function descriptors()
      local n = {}
      for _, pid in ipairs(s:workers()) do
        n[#n + 1] = select(2, util.shell("ls -l /proc/" .. pid .. "/fd"):gsub("perf_event", ""))
      end
      return table.concat(n, " ")
    end
    s:load("/hello", 500, 8)
    s:wait(function() return requests() == 500 end)
    s:wait(function() return descriptors() == "1 1" end)
    for _ = 1, 3 do s:reload() end
    s:wait(function() return descriptors() == "1 1" end) -- not of the old workers, nor twice
    s:load("/hello", 500, 8)
    s:wait(function() return requests() == 1000 end)
    kit.kill(s:workers()[1], 9)
    s:wait(function() return #s:workers() == 2 and s:get "/hello" == "hello\n" end)
    s:wait(function() return descriptors() == "1 1" end)
    s:load("/hello", 500, 8)
    s:wait(function() return requests() >= 1500 end)
    for line in s:errors():gmatch "[^\n]+" do assert.truthy(line:find "exited on signal 9", line) end
  end)

  -- A page used to show counts of its worker that were not published yet: the worker's death took them back.
  it("does not lose what a page has shown, even if the page's worker is killed", function()
    s = server.start { server = hello, init_worker = "app.start{events='page-faults:u'}" }
    for n = 1, 3 do
      s:get "/hello"
      assert.equal(2 * n - 1, requests())
      local worker = s:workers()[1]
      kit.kill(worker, 9)
      s:wait(function() return s:workers()[1] ~= worker and s:get "/hello" == "hello\n" end)
      assert.equal(2 * n, requests())
    end
  end)

  it("samples one of n requests, by a header and by route", function()
    s = server.start { server = hello .. [[
      location /all { content_by_lua_block { perf.content(ngx.say, "all") } }]],
      init_worker = [[app.start{events='page-faults:u', sample={every=10, header="X-Perf", secret="1", routes={["/all"]=1}}}]] }
    assert.equal(200, s:load("/hello", 200, 4))
    assert.equal(20, s:worker()["requests:/hello"])
    assert.equal(50, s:load("/all", 50, 4))
    assert.equal(50, s:worker()["requests:/all"])
    for _ = 1, 7 do s:get("/hello", "-H 'X-Perf: 1'") end
    assert.equal(27, s:worker()["requests:/hello"])
    assert.equal("", s:errors())
  end)

  it("samples only by header or route, or nothing until it is started", function()
    local function count(sample)
      if s then s:stop() end
      s = server.start { init_worker = "app.start{events='page-faults:u', sample=" .. sample .. "}",
        server = hello .. [[location /all { content_by_lua_block { perf.content(ngx.say, "all") } }]] }
      s:get "/hello"
      s:get("/hello", "-H 'X-Perf: 0'")
      s:get("/hello", "-H 'X-Perf: 1'")
      s:get "/all"
      local w = s:worker()
      return ("%d %d"):format(w["requests:/hello"] or 0, w["requests:/all"] or 0)
    end
    assert.equal("1 0", count [[{every=0, header="X-Perf", trust=function(v) return v == "1" end}]])
    assert.equal("0 1", count [[{every=0, routes={["/all"]=1}}]])
    assert.equal("0 0", count "0")
    assert.truthy(s:get "/worker":find "running 0")
    assert.equal(200, select(2, s:get("/perf?do=start", "-X POST")))
    s:get "/hello"
    assert.equal(1, s:worker()["requests:/hello"])
    assert.equal("", s:errors())
  end)

  it("stops and starts in all workers, also in those that are started later", function()
    s = server.start { workers = 2, server = hello, init_worker = "app.start{events='page-faults:u'}" }
    local function states()
      local seen = {}
      for _ = 1, 20 do
        local pid = s:get "/tell":match "pid (%d+)"
        seen[pid] = s:get "/worker":find "running 0" and "off" or "on"
      end
      local list = {}
      for _, v in pairs(seen) do list[v] = true end
      return (list.on and "on" or "") .. (list.off and "off" or "")
    end
    assert.equal("on", states())
    assert.equal(403, select(2, s:get("/perf?do=stop", "-X POST -H 'Origin: http://elsewhere'")))
    assert.equal(200, select(2, s:get("/perf?do=stop", "-X POST")))
    s:wait(function() return states() == "off" end)
    assert.equal("hello\n", (s:get "/hello"))
    kit.kill(s:workers()[1], 9)
    s:wait(function() return #s:workers() == 2 end)
    assert.equal("off", states())
    assert.equal(200, select(2, s:get("/perf?do=start&sample=5", "-X POST")))
    s:wait(function() return states() == "on" end)
    assert.equal(400, select(2, s:get("/perf?do=start&sample=5.5", "-X POST")))
    assert.equal(400, select(2, s:get("/perf?do=start&events=pagefalts", "-X POST")))
    s:wait(function() -- twenty answers may all have come from one worker
      for _ = 1, 20 do
        if not s:get "/perf?format=json":find('"running":true,"sample":5', 1, true) then return false end
      end
      return true
    end)
  end)

  -- It used to stop first and check afterwards: with a wrong event this worker counted nothing any more while the others went on.
  it("changes nothing for a wrong or refused setting while nginx runs", function()
    s = server.start { server = hello .. [[
      location /call { content_by_lua_block {
        ngx.say(tostring(select(2, pcall(perf.start, {[ngx.var.arg_key] = tonumber(ngx.var.arg_v) or ngx.var.arg_v})))) } }
      location /again { content_by_lua_block { ngx.say(tostring(perf.start())) } }]],
      init_worker = "app.start{events='page-faults:u'}" }
    local function counts(n)
      s:get "/hello"
      local w = s:worker()
      assert.equal(n, w["requests:/hello"])
      assert.truthy(w["whole:page-faults:u"])
      assert.truthy(s:get "/perf?format=json":find '"sample":1,', 1, true)
    end
    counts(1)
    for i, wrong in ipairs { "key=events&v=nosuch", "key=sample&v=-1", "key=slow&v=1", "key=sample&v=nan" } do
      assert.truthy(s:get("/call?" .. wrong):find("bad argument #1 to 'start'", 1, true))
      counts(i + 1)
    end
    for i, wrong in ipairs { "sample=-1", "sample=1.5", "sample=nan", "sample=inf", "events=nosuch", "events=", "events=,",
      "events=page-faults:k" } do
      local text, status = s:get("/perf?do=start&" .. wrong, "-X POST")
      assert.equal(wrong == "events=page-faults:k" and 500 or 400, status, text)
      counts(i + 5)
    end
    assert.equal("true\n", (s:get "/again"))
    counts(14)
    assert.equal("", s:errors())
  end)

  it("counts by the kernel's accounting if perf_event_open is refused", function()
    requires { seccomp = true }
    s = server.start { server = hello, init_worker = [[require("testkit").refuse("perf_event_open", 1) perf.start()]] }
    s:load("/hello", 10, 1)
    local text = s:get "/perf?format=json"
    assert.truthy(text:find '"source":"rusage"', 1, true)
    local w = s:worker()
    assert.equal(10, w["requests:/hello"])
    for _, event in ipairs { "task-clock", "page-faults", "lua" } do
      assert.equal(w["whole:" .. event], w["unattributed:" .. event] + w["pending:" .. event] + w["routes:" .. event])
    end
  end)

  it("serves requests if the events are refused, and logs the reason", function()
    s = server.start { server = hello, init_worker = [[perf.start{events="page-faults:k"}]] }
    assert.equal("hello\n", (s:get "/hello"))
    assert.truthy(s:errors():find "page%-faults:k: perf_event_open: Permission denied", s:errors())
    assert.truthy(s:get "/worker":find "running 0")
  end)

  it("reports lua_code_cache off once, and serves requests", function()
    for _, start in ipairs { "perf.start()", "perf.start{dict='test'}" } do
      -- Each request loads the modules, which www-data may not be able to read.
      s = server.start { user = "root", server = hello, http = "lua_code_cache off;", init_worker = start }
      for _ = 1, 3 do
        local answer = s:get "/hello"
        assert.equal("hello\n", answer, s:errors())
      end
      assert.equal(1, select(2, s:errors():gsub("lua_code_cache is off: each request", "")), start)
      s:stop()
    end
  end)

  it("reports mistakes in nginx.conf", function()
    for call, message in pairs {
      ["perf.start{event='x'}"] = "unknown option 'event'",
      ["perf.start{events='cyclse'}"] = "unknown event; did you mean 'cycles'",
      ["perf.start{sample=-1}"] = "sample: every",
      ["perf.start{routes={'x'}}"] = "a path begins with '/'",
      ["perf.start{dict='none'}"] = "lua_shared_dict none",
      ["perf.start{slow='x'}"] = "slow: seconds or table expected",
      ["perf.start{slow={['page-fault']=1}}"] = "(page-fault: unknown event; did you mean 'page-faults'?)",
      ["perf.start{events='task-clock', slow={['page-faults']=1}}"] = "slow: 'page-faults' is not one of the events",
      ["perf.start{routes={['/x']='y'}}"] = "routes: unknown field '/x' in a list",
      ["perf.start{events={}}"] = ":1: bad argument #1 to 'start' (events: the list has no event)",
      ["perf.start{events='nosuch'}"] = ":1: bad argument #1 to 'start' (nosuch: unknown event",
      ["perf.start{events='page-faults:u,page-faults:u'}"] = "events: 'page-faults:u' and 'page-faults:u' have the same metric",
      ["perf.start() perf.start{events=''}"] = ":1: bad argument #1 to 'start' (",
      ["perf.start() perf.start{sample=-1}"] = ":1: bad argument #1 to 'start' (sample: every",
    } do
      s = server.start { server = hello, init_worker = call }
      assert.truthy(s:errors():find(message, 1, true), call .. ": " .. s:errors())
      assert.falsy(s:errors():find("resty/perf[%w/.]*:%d+: bad argument"), call) -- the caller's line, not a line of the library
      assert.equal("hello\n", (s:get "/hello"))
      s:stop()
    end
  end)
end)

-- The pages, read by their users: promtool, Prometheus, a JSON parser, Chromium.
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local function perf_json(s) return require "cjson".decode((s:get "/perf?format=json")) end

describe("resty.perf's pages", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local function serve(more)
    s = server.start { server = [[
      location /work { content_by_lua_block { perf.content(function()
        app.spend(3) ngx.update_time() ngx.sleep(0.01) ngx.say "x" end) } }
      location /private { content_by_lua_block { perf.status{from = function(address) return address == "1.2.3.4" end} } }
      location /open { content_by_lua_block { perf.status{from = "any"} } }]],
      init_worker = "app.start{events='page-faults:u,task-clock', slow={time=0.005}" .. (more or "") .. "}" }
    s:load("/work", 20, 2)
    s:get "/work/%22%3Cb%3E?\\%22x"
  end

  it("are available as JSON", function()
    requires { module = "cjson" }
    serve()
    local json = require "cjson".decode((s:get "/perf?format=json"))
    assert.equal(true, json.running)
    local by = {}
    for _, r in ipairs(json.routes) do by[r.name] = r end
    assert.equal(20, by["/work"].requests)
    assert.equal(by["/work"].sum["task-clock"], by["/work"].phases.content["task-clock"])
    assert.equal(21, #json.slow)
    assert.equal("/work", json.slow[2].uri)
    assert.truthy(s:log():find("slow request: 0%.%d+ s, /work, GET /work 200: " ..
      "lua [%d.]+%a+, page%-faults:u %d+, task%-clock [%d.]+%a+"))
  end)

  -- They once loaded their modules at the first request, as a user who may not be allowed to read them.
  it("load no module during a request", function()
    s = server.start { init_worker = [[
      app.start { events = "page-faults:u", waits = true, heap = 65536, slow = { time = 0 } }
      package.path, package.cpath, before = "", "", {}
      for name in pairs(package.loaded) do before[name] = true end]],
      server = [[location /loaded { content_by_lua_block {
        for name in pairs(package.loaded) do if not before[name] then ngx.say(name) end end } }]] }
    for path, start in pairs { ["/perf"] = "^<!DOCTYPE html>", ["/perf?format=json"] = "^{", ["/metrics"] = "^# HELP",
      ["/perf?format=jsn"] = "did you mean 'json'", ["/perf?flame=nonsense"] = "unknown event" } do
      assert.matches(start, (s:get(path)))
    end
    for _, form in ipairs { "flamegraph", "folded", "pprof", "speedscope" } do
      for _, what in ipairs { "flame=task-clock:u&seconds=0.1&as=", "flame=alloc&seconds=0.1&as=", "waits=", "heap=" } do
        local _, status = s:get("/perf?" .. what .. form)
        assert.equal(200, status)
      end
    end
    for _, what in ipairs { "snapshot", "snapshot&as=html", "snapshot&as=json", "start&events=task-clock:u", "stop" } do
      local _, status = s:get("/perf?do=" .. what, "-X POST")
      assert.equal(200, status)
    end
    assert.equal("", (s:get "/loaded"))
  end)

  it("give metrics that pass promtool and add up", function()
    requires { cmd = "promtool" }
    serve()
    local text = s:get "/metrics"
    local path = s.dir .. "/metrics.txt"
    util.write_file(path, text)
    local said, status = util.shell("promtool check metrics <" .. path)
    assert.equal(0, status, said)
    assert.equal("", said)
    assert.truthy(text:find('lua_perf_requests_total{route="/work"} 20\n', 1, true))
    assert.truthy(text:find('lua_perf_request_page_faults_u_count{route="/work"} 20\n', 1, true))
    assert.truthy(text:find('lua_perf_request_task_clock_seconds_bucket{route="/work",le="+Inf"} 20\n', 1, true))
    local function value(name) return tonumber(text:match("\n" .. name .. " (%S+)")) end
    local sum = 0
    for v in text:gmatch '\nlua_perf_request_page_faults_u_sum{[^}]*} (%S+)' do sum = sum + v end
    assert.equal(value "lua_perf_worker_page_faults_u_total", sum + value "lua_perf_unattributed_page_faults_u_total")
  end)

  it("can be read whatever bytes a client sends", function()
    requires { cmd = "promtool" }
    serve()
    for _, path in ipairs { "/work%ff%fe", "/work%c0%80", "/work/%00x", "/work/%0a%0d%09%22", "/work?\255\254" } do
      s:get(path, "--path-as-is")
    end
    local file = s.dir .. "/page.txt"
    local utf8 = "iconv -f utf-8 -t utf-8 >/dev/null "
    for page, check in pairs { ["/metrics"] = "promtool check metrics <", ["/perf?format=json"] = utf8 } do
      util.write_file(file, (s:get(page)))
      local said, status = util.shell(check .. file)
      assert.equal(0, status, said)
    end
    assert.truthy(s:get "/metrics":find('lua_perf_requests_total{route="/work\239\191\189\239\191\189"} 2\n', 1, true))
  end)

  it("can be scraped by Prometheus", function()
    requires { cmd = "prometheus" }
    serve()
    util.write_file(s.dir .. "/prometheus.yml", ([[
global: { scrape_interval: 1s }
scrape_configs:
  - job_name: nginx
    static_configs: [ { targets: [ "127.0.0.1:%d" ] } ]
]]):format(s.port))
    local pid, query
    local function runs() return pid and io.open("/proc/" .. pid .. "/exe") ~= nil end
    local ok, err = pcall(s.wait, s, function()
      if not runs() then -- also if another process took its port first
        local port = server.new_port()
        pid = tonumber((util.shell(("prometheus --config.file=%s/prometheus.yml --storage.tsdb.path=%s/tsdb " ..
          "--web.listen-address=127.0.0.1:%d >>%s/prometheus.log 2>&1 & echo $!"):format(s.dir, s.dir, port, s.dir))))
        query = ("curl -s -m 5 -G http://127.0.0.1:%d/api/v1/query --data-urlencode 'query=%s'"):format(port,
          'lua_perf_requests_total{route="/work"}')
      end
      return util.shell(query):find('"20"', 1, true)
    end)
    kit.kill(pid, 15)
    s:wait(function() return not runs() end)
    assert.truthy(ok, tostring(err))
  end)

  it("are drawn by Chromium, with the content of requests as text", function()
    requires { cmd = "chromium" }
    serve()
    local dom = util.shell(("chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=%s/chromium " ..
      "--virtual-time-budget=4000 --dump-dom http://127.0.0.1:%d/perf 2>/dev/null"):format(s.dir, s.port))
    assert.truthy(dom:find('>counting every request, from software events; answered by worker %d+<'), dom)
    assert.truthy(dom:find('>/work</td>', 1, true))
    assert.truthy(dom:find('>20</td>', 1, true))
    assert.is_nil(dom:find('<b>', 1, true))
  end)

  -- The story: at the width of a phone, totals and shares lay outside the page; later, so did a choice of routes with long names.
  it("fit a phone", function()
    requires { cmd = "chromium", module = "dkjson" }
    serve ", waits=true"
    s:get("/work/" .. ("long/"):rep(30))
    local path = s.dir .. "/phone.html"
    util.write_file(path, (s:get "/perf"))
    local json = s:get "/perf?format=json":gsub("<", "\\u003c")
    local r = require "spec.support.browser".run(path, "data = " .. json .. [[; draw(); drawWaits();
      const cells = [...document.querySelectorAll("#shares td, #routes td")].filter(c => c.textContent);
      const whole = c => c.getBoundingClientRect().right <= innerWidth && c.scrollWidth <= c.clientWidth;
      result.push(cells.length > 6, cells.every(whole),
        cells.map(c => c.dataset.head).includes("task-clock p99"), document.documentElement.scrollWidth <= innerWidth,
        [...document.querySelectorAll("select")].every(whole));]],
      { width = 500 })
    assert.same({ "true", "true", "true", "true", "true" }, r)
  end)

  it("have where requests wait and what blocked the worker, as tables and as a flame graph", function()
    requires { module = "cjson", cmd = "chromium" }
    s = server.start { init_worker = "app.start{events='page-faults:u,task-clock', waits=true, blocked=0.02}", server = [[
      location /sub { return 200 x; }
      location /nap { content_by_lua_block { perf.content(function()
        ngx.update_time()
        ngx.sleep(0.03)
        ngx.location.capture "/sub<b>"
        ngx.say "x" end) } }
      location /spin { content_by_lua_block { perf.content(function()
        local to = os.clock() + 0.1
        while os.clock() < to do end
        ngx.say "x" end) } } ]] }
    for _ = 1, 3 do s:get "/nap" end
    local function row(list, key, value)
      for _, r in ipairs(list) do
        if r[key] == value then return r end
      end
    end
    local json
    s:wait(function() -- the watcher may come after a turn; and other turns may be blocked by other processes
      s:get "/spin?secret=1"
      json = perf_json(s)
      return row(json.blocked, "route", "/spin") and row(json.blocked_routes, "route", "/spin")
    end)
    local slept = row(json.waits, "kind", "sleep")
    assert.same({ "/nap", "content", 3 }, { slept.route, slept.phase, slept.count })
    assert.is_true(slept.waiting_ns + slept.late_ns >= 80e6 and slept.longest_ns >= 25e6)

    local dom = util.shell(("chromium --headless=new --no-sandbox --disable-gpu --user-data-dir=%s/chromium " ..
      "--virtual-time-budget=4000 --dump-dom http://127.0.0.1:%d/perf 2>/dev/null"):format(s.dir, s.port))
    for _, text in ipairs { ">sleep</td>", "subrequest /sub&lt;b&gt;</td>", '<option value="/nap">/nap</option>',
      'href="?waits=speedscope"' } do
      assert.truthy(dom:find(text, 1, true), text)
    end
    assert.is_nil(dom:find('<b>', 1, true))
    assert.is_nil(dom:find('hidden=""><h2>Where requests wait', 1, true))

    assert.matches("^<!DOCTYPE html>.*sleep", (s:get "/perf?waits=flamegraph&route=/nap"))
    local folded, status = s:get "/perf?waits=folded&route=/nap"
    assert.equal(200, status)
    assert.truthy(folded:find("/nap;content;", 1, true) and folded:find("(waiting) sleep", 1, true), folded)
    assert.is_nil(folded:find("/spin", 1, true))
    assert.equal("", (s:get "/perf?waits=folded&route=/none"))
    assert.truthy(s:get("/perf?waits=pprof", "-sI -X GET"):find('filename="waits.pb.gz"', 1, true))
    assert.is_table(require "cjson".decode((s:get "/perf?waits=speedscope")))
    assert.equal(400, select(2, s:get "/perf?waits=nonsense"))
    assert.equal(400, select(2, s:get "/perf?waits"))
    assert.equal(403, select(2, s:get("/perf?waits=folded", "-H 'Sec-Fetch-Site: cross-site'")))
  end)

  it("say that no waits are counted", function()
    serve()
    assert.equal(503, select(2, s:get "/perf?waits=folded"))
    assert.is_nil(s:get "/perf?format=json":find('"waits"', 1, true))
  end)

  it("are shown only to this machine by default", function()
    serve()
    assert.equal(403, select(2, s:get "/private"))
    assert.equal(200, select(2, s:get "/open"))
    assert.equal(200, select(2, s:get "/perf"))
  end)

  it("accept known commands, and say why others are refused", function()
    serve()
    local all = "expected do=stop, do=snapshot with as=html or json, "
      .. "or do=start with sample=N, events=LIST and heap=BYTES, each once\n"
    local number = "sample: number expected\n"
    for args, reason in pairs { ["do=start&sample=abc"] = number, ["do=start&sample="] = number,
      ["do=start&sample"] = all, ["do=start&sample=2&sample=3"] = all, ["do=start&bogus=1"] = all, ["do=stop&sample=1"] = all,
      ["do=bogus"] = all, ["do=start&do=stop"] = all, [""] = all, ["do=start&events=nosuch"] = "nosuch: unknown event\n" } do
      local text, status = s:get("/perf?" .. args, "-X POST")
      assert.equal(400, status, args)
      assert.equal(reason, text, args)
    end
    assert.truthy(s:get "/perf?format=json":find '"running":true,"sample":1', 1, true)
    assert.equal(200, select(2, s:get("/perf?do=start&sample=2", "-X POST")))
    assert.truthy(s:get "/perf?format=json":find('"sample":2', 1, true))
  end)

  it("say which parameter of an address is wrong", function()
    serve()
    for args, reason in pairs { ["frmat=json"] = "unknown parameter 'frmat'; did you mean 'format'?",
      ["format=jsn"] = "format: json or metrics expected; did you mean 'json'?", ["format"] = "format: json or metrics expected",
      ["seconds=1"] = "unknown parameter 'seconds'; this page has format",
      ["flame=task-clock&sceonds=1"] = "unknown parameter 'sceonds'; did you mean 'seconds'?",
      ["flame=task-clock&format=json"] =
        "unknown parameter 'format'; this page has as, flame, period, route, seconds, survived or workers",
      ["flame=task-clock&route=a&route=b"] = "parameter 'route' is given more than once",
      ["waits=folded&rout=/work"] = "unknown parameter 'rout'; did you mean 'route'?",
      ["%3Cb%3E%0a=1"] = "unknown parameter '<b>?'; this page has format" } do
      local text, status = s:get("/perf?" .. args)
      assert.equal(400, status, args)
      assert.equal(reason .. "\n", text, args)
      assert.equal(400, select(2, s:get("/perf?" .. args, "-I")), args)
    end
  end)

  -- The story: the pages had kept ngx.sleep from before it was wrapped, so other requests' turns interrupted theirs.
  it("end their turn when they pause", function()
    s = server.start { server = [[
      location /route { content_by_lua_block { perf.content(function() perf.route(ngx.var.arg_name) end) } }
      location /counted { content_by_lua_block { perf.content(perf.metrics) } }
      location /shown { content_by_lua_block { ngx.req.set_uri_args "format=json" perf.content(perf.status) } }]],
      init_worker = [[ app.start{events='page-faults:u,task-clock', waits=true}
        local sleep = ngx.sleep
        function ngx.sleep(...) ngx.shared.test:incr("sleeps", 1, 0) return sleep(...) end]],
      http = [[server { listen unix:$dir/sleeps; location / { content_by_lua_block {
        ngx.say(ngx.shared.test:get "sleeps" or 0) } } }]] }
    local function sleeps() return tonumber((util.shell(("curl -s --unix-socket %s/sleeps http://x/"):format(s.dir)))) end
    for i = 1, 60 do s:get("/route?name=r" .. i) end
    for _, path in ipairs { "/counted", "/shown" } do
      local before = sleeps()
      s:wait(function()
        assert.equal(8, s:load(path, 8, 4))
        return sleeps() > before
      end)
    end
    s:wait(function() return s:worker().known == 0 end)
    assert.equal(0, s:worker().abandoned)
  end)

  it("raise mistakes of profile at the caller's line", function()
    s = server.start { init_worker = "app.start{events='page-faults:u'}", server = [[
      location /call { content_by_lua_block {
        for _, call in ipairs {
          function() local prof = perf.profile("page-faults:u") return prof end,
          function() local prof = perf.profile("page-faults:u", "1") return prof end,
          function() local prof = perf.profile("nosuch", 1) return prof end } do
          ngx.say((select(2, pcall(call)):gsub("%(nginx.conf:%d+%)", "")))
        end } }]] }
    local text = s:get "/call"
    for i, message in ipairs { "2 to 'profile' (number expected, got nil)", "2 to 'profile' (number expected, got string)",
      "1 to 'profile' (nosuch: unknown event" } do
      local at = ("content_by_lua:%d: bad argument #"):format(i + 2)
      assert.truthy(text:find(at .. message, 1, true), text)
    end
  end)

  it("show a flame graph of the worker, by any event, one at a time", function()
    serve()
    local text, status = s:get "/perf?flame=task-clock&seconds=0.3"
    assert.equal(200, status)
    assert.truthy(text:find "<html" and text:find "task%-clock")
    assert.equal(200, select(2, s:get "/perf?flame=page-faults:u&seconds=0.1"))
    assert.equal(400, select(2, s:get "/perf?flame=nonsense"))
    assert.equal("nonsense: unknown event\n", (s:get "/perf?flame=nonsense"))
    for _, seconds in ipairs { "1000", "61", "0", "-1", "nan", "x", "", "1&seconds=2" } do
      assert.equal(400, select(2, s:get("/perf?flame=task-clock&seconds=" .. seconds)), seconds)
    end
    assert.equal(403, select(2, s:get("/perf?flame=task-clock", "-H 'Sec-Fetch-Site: cross-site'")))
    assert.truthy(not s:errors():find "%[error%]")
  end)

  -- The story: a profile whose client had disconnected went on until its end, and further ones were refused until then.
  for _, workers in ipairs { 1, 3 } do
    it(("drop a profile of %d when its client disconnects"):format(workers), function()
      s = server.start { workers = workers, init_worker = "app.start{events='page-faults:u'}" }
      local function status() return select(2, s:get "/perf?flame=task-clock:u&seconds=0.01&workers=all") end
      for _ = 1, 2 do
        local client = s:profile "flame=task-clock:u&seconds=60&workers=all"
        assert.equal(409, status())
        kit.kill(client, 15)
        s:wait(function() return status() == 200 end)
      end
      assert.equal("", s:errors())
    end)
  end

  -- The story: after the worker that had asked the others for a profile was killed, their profiles went on, and further ones
  -- were refused until ten seconds after the profile's end.
  for name, signal in pairs { SIGKILL = 9, SIGTERM = 15 } do
    it("drop a profile of all workers when " .. name .. " ends the worker that answers", function()
      s = server.start { workers = 3, init_worker = "app.start{events='page-faults:u'}",
        server = [[ location = /job { content_by_lua_block { ngx.print(ngx.shared.perf:get "profile" or "") } } ]] }
      s:profile "flame=task-clock:u&seconds=60&workers=all"
      local from = s:wait(function() return s:get("/job"):match '"from":(%d+)' end)
      kit.kill(tonumber(from), signal)
      s:wait(function() return select(2, s:get "/perf?flame=task-clock:u&seconds=0.01&workers=all") == 200 end)
    end)
  end
end)

describe("resty.perf's spans", function()
  it("are sent with their counts, as children of the traceparent", function()
    requires(server.needs)
    requires { module = "cjson", tracepoint = "syscalls:sys_enter_getppid" }
    local s = server.start { user = "root", server = [[
      location /v1/traces { content_by_lua_block { app.collector() } }
      location /work { content_by_lua_block { perf.content(function()
        app.spend(5) ngx.update_time() ngx.sleep(0.02) app.spend(6)
        local headers = perf.span():inject({})
        if ngx.var.arg_fail then ngx.exit(500) end
        ngx.say(headers.traceparent) end) } }]],
      init_worker = [[
        local perf = require "perf"
        app.start{waits = 0.005, spans = perf.tracer{service = "shop", events = false, delay = 0.2,
          exporter = perf.exporter.otlp{endpoint = "http://127.0.0.1:$port"}}}]] }
    finally(function() s:stop() end)
    local trace, parent = ("ab"):rep(16), ("cd"):rep(8)
    local said = s:get("/work", ("-H 'traceparent: 00-%s-%s-01'"):format(trace, parent))
    s:get "/work?fail=1"
    local json = require "cjson"
    local all = {}
    s:wait(function()
      all = {}
      for line in s:get "/v1/traces":gmatch "[^\n]+" do
        for _, span in ipairs(json.decode(line).resourceSpans[1].scopeSpans[1].spans) do all[#all + 1] = span end
      end
      return #all == 2
    end)
    local span, failed = all[1], all[2]
    local attributes = {}
    for _, a in ipairs(span.attributes) do attributes[a.key] = a.value.stringValue or a.value.intValue end
    assert.equal("/work", span.name)
    assert.equal(trace, span.traceId)
    assert.equal(parent, span.parentSpanId)
    assert.equal(("00-%s-%s-01\n"):format(trace, span.spanId), said)
    assert.equal("11", attributes["perf.syscalls:sys_enter_getppid"])
    assert.equal("200", attributes["http.response.status_code"])
    assert.truthy(span.endTimeUnixNano - span.startTimeUnixNano >= 10e6)
    assert.equal(1, #span.events, "the sleep is longer than 5 ms")
    assert.equal("wait sleep", span.events[1].name)
    assert.truthy(span.events[1].timeUnixNano - span.startTimeUnixNano >= -1e6, "the start is rounded to ms")
    assert.truthy(span.endTimeUnixNano - span.events[1].timeUnixNano >= 10e6)
    assert.not_equal(trace, failed.traceId)
    assert.equal(2, failed.status.code)
  end)

  it("are sent for requests that end after their worker began to exit", function()
    requires(server.needs)
    local s = server.start { shutdown = "1m", server = [[
      location /v1/traces { content_by_lua_block { app.collector() } }
      location /slow { content_by_lua_block { perf.content(function() app.hold() ngx.say "slow" end) } }]],
      init_worker = [[
        local perf = require "perf"
        app.start{events = "page-faults:u", spans = perf.tracer{service = "shop", events = false, delay = 0.2,
          exporter = perf.exporter.otlp{endpoint = "http://127.0.0.1:$port"}}}]] }
    finally(function() s:stop() end)
    for _ = 1, 5 do s:begin "/slow" end
    s:wait(function() return s:worker().known == 5 end)
    kit.kill(s:master(), 1)
    s:wait(function() return s:log():find("gracefully shutting down", 1, true) end)
    s:release()
    s:wait(function() return select(2, s:get "/v1/traces":gsub('"spanId"', "")) == 5 end)
    assert.equal("", s:errors())
  end)

  -- The sender pauses between two slices of a batch, for 0 seconds, and nginx wrote a line for each pause.
  it("are sent in batches, and write nothing to the error log", function()
    requires(server.needs)
    local s = server.start { server = [[
      location /v1/traces { client_body_buffer_size 1m; content_by_lua_block { app.collector() } }
      location /work { content_by_lua_block { perf.content(ngx.say, "x") } }]],
      init_worker = [[
        local perf = require "perf"
        app.start{events = "page-faults:u", spans = perf.tracer{service = "shop", events = false, delay = 0.2,
          exporter = perf.exporter.otlp{endpoint = "http://127.0.0.1:$port"}}}]] }
    finally(function() s:stop() end)
    assert.equal(200, s:load("/work", 200, 4))
    s:wait(function() return select(2, s:get "/v1/traces":gsub('"spanId"', "")) == 200 end)
    assert.equal("", s:errors())
  end)
end)

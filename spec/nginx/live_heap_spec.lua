-- The live memory of a worker's Lua state, with the option `heap`: by line and route, in all formats, while it serves requests.
local kit = require "testkit"
local load_profile = require "perf.profile.load"
local server = require "spec.nginx.server"

local PERIOD = 16384 -- 4 MB have 244 samples on average, so six standard errors are 38 %

describe("resty.perf's live heap", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { registers = true }
  end)
  after_each(server.stop)

  local function serve(more)
    local o = { init_worker = ("app.start{events='page-faults:u', heap=%d}"):format(PERIOD), server = [[
      location /cached { content_by_lua_block { perf.content(app.cached) } }
      location /garbage { content_by_lua_block { perf.content(app.garbage) } }
      location /finalizers { content_by_lua_block {
        for _ = 1, 20 do getmetatable(newproxy(true)).__gc = function() perf.live_heap() end end } } ]] }
    for k, v in pairs(more or {}) do o[k] = v end
    s = server.start(o)
  end

  -- A cache that grows by 4 MB, and ten times as much garbage, whose requests collect it.
  local function work()
    assert.equal(2000, s:load("/cached", 2000, 8))
    assert.equal(40, s:load("/garbage", 40, 4))
  end

  local function live(query)
    local text, status = s:get("/perf?heap=speedscope" .. (query or ""))
    assert.equal(200, status, text)
    return assert(load_profile.decode(text))
  end

  local function command(query) return select(2, s:get("/perf?do=" .. query, "-X POST")) end

  -- Checks that the cache is first, and that about so many megabytes of it are alive.
  local function has_leak(prof, megabytes)
    local top, bytes = prof:top(), 0
    assert.equal("M.cached", top.lines[1].func)
    assert.equal("/cached", top.zones[1].name)
    for _, sample in ipairs(prof:samples()) do bytes = bytes + (sample.zone == "/cached" and sample.weight or 0) end
    assert.is_true(math.abs(bytes / (megabytes * 1e6) - 1) < 0.6, tostring(top))
  end

  it("shows a cache that grows with each request first, by line and route", function()
    serve()
    work()
    has_leak(live(), 4)
    work()
    has_leak(live(), 8)
    local of_route = live "&route=/cached"
    for _, sample in ipairs(of_route:samples()) do assert.equal("/cached", sample.zone) end
    has_leak(of_route, 8)
    assert.matches("^/cached;[^\n]*M%.cached[^\n]* %d+\n", (s:get "/perf?heap=folded"))
    assert.matches("^<!DOCTYPE html>.*M.cached", (s:get "/perf?heap=flamegraph"))
    assert.truthy(s:get("/perf?heap=pprof", "-sI -X GET"):find('filename="heap.pb.gz"', 1, true))
    assert.equal("", s:errors())
  end)

  it("shows by what a line has grown, without the memory of the Profiles themselves", function()
    serve()
    work()
    local answer, seconds = s.dir .. "/growth", 1
    s:wait(function() -- the page may begin and end before the work does: so each next one lasts longer
      seconds = math.min(2 * seconds, 60)
      local client = s:begin("/perf?heap=folded&seconds=" .. seconds, answer)
      assert.equal(2000, s:load("/cached", 2000, 8))
      assert.equal(40, s:load("/garbage", 40, 4))
      s:wait(function() return not io.open("/proc/" .. client .. "/exe") end)
      local text = io.open(answer):read "*a"
      assert.is_nil(text:find("live_heap.lua", 1, true), text)
      return text:find "^/cached;[^\n]*M%.cached"
    end)
  end)

  it("goes on after a change of events, and after further starts with the same period", function()
    serve()
    assert.equal(2000, s:load("/cached", 2000, 8))
    for _, query in ipairs { "start", "start&heap=" .. PERIOD, "start&events=task-clock", "start&sample=1" } do
      assert.equal(200, command(query), query)
    end
    work()
    has_leak(live(), 8)
  end)

  it("ends with counting or with a period of 0, and begins anew", function()
    serve { init_worker = "app.start{events='page-faults:u'}" }
    local function is_off() assert.equal(503, select(2, s:get "/perf?heap=folded")) end
    is_off()
    for _, query in ipairs { "start&heap=0", "stop", "stop" } do
      assert.equal(200, command("start&heap=" .. PERIOD))
      assert.equal(200, command("start&heap=" .. PERIOD))
      work()
      has_leak(live(), 4)
      for _ = 1, 2 do assert.equal(200, command(query)) end
      is_off()
      assert.equal(200, command "start&heap=0")
    end
    for query, reason in pairs { ["start&heap=4095"] = "heap: 0, or at least 4096 bytes expected",
      ["start&heap="] = "heap: number expected" } do
      assert.same({ reason .. "\n", 400 }, { s:get("/perf?do=" .. query, "-X POST") })
    end
    is_off()
    for query, reason in pairs { ["heap=svg"] = "heap: expected", ["heap=folded&seconds=61"] = "seconds: ",
      ["heap=folded&secnds=1"] = "did you mean 'seconds'" } do
      local text, status = s:get("/perf?" .. query)
      assert.equal(400, status)
      assert.truthy(text:find(reason, 1, true), text)
    end
    assert.equal(403, select(2, s:get("/perf?heap=folded", "-H 'Sec-Fetch-Site: cross-site'")))
    assert.equal("", s:errors())
  end)

  it("is one of each worker, also after a reload, and ends with it", function()
    serve()
    for _, signal in ipairs { 1, 15, 3 } do
      work()
      has_leak(live(), 4)
      local before = s:workers()
      if signal == 1 then s:reload() else kit.kill(before[1], signal) end
      s:ended(before)
      s:wait(function() return #s:workers() == 1 and s:get "/tell" ~= "" end)
    end
    work()
    has_leak(live(), 4)
    assert.equal("", s:errors())
  end)

  it("has a snapshot that names what holds the memory", function()
    serve { workers = 1, server = [[
      location /kept { content_by_lua_block { perf.content(function()
        package.loaded.app.kept = package.loaded.app.kept or {}
        for i = 1, 1000 do table.insert(package.loaded.app.kept, ("k"):rep(1000) .. i) end
        ngx.say "x" end) } }
      location /learn { content_by_lua_block {
        local learned, known = require "perf.core".heap_learn()
        ngx.say(tostring(known or not learned)) } } ]],
      init_worker = "package.loaded.app = app app.start{events='page-faults:u'}" }
    -- The story: the first snapshot stopped the worker for 40 ms of CPU time, to learn the structures.
    assert.equal("true\n", (s:get "/learn"))
    assert.equal("x\n", (s:get "/kept"))
    local text, status = s:get("/perf?do=snapshot", "-X POST")
    if status == 501 then return pending(text) end -- another LuaJIT
    assert.equal(200, status, text)
    assert.matches("^worker %d+: [%d,]+ bytes in [%d,]+ objects\n", text)
    assert.matches("\n *1,[%d,]+ +%d+ +_G%.app%.kept ", text) -- a megabyte
    assert.equal(403, select(2, s:get("/perf?do=snapshot", "-X POST -H 'Sec-Fetch-Site: cross-site'")))
    for _, wrong in ipairs { "heap=1", "as=svg", "as", "as=html&as=json" } do
      assert.equal(400, select(2, s:get("/perf?do=snapshot&" .. wrong, "-X POST")), wrong)
    end
    text, status = s:get("/perf?do=snapshot&as=html", "-X POST")
    assert.equal(200, status, text)
    assert.matches("^<!DOCTYPE html>", text)
    assert.matches("_G%.app%.kept", text)
    assert.matches("</html>%s*$", text)
    text, status = s:get("/perf?do=snapshot&as=json", "-X POST")
    assert.equal(200, status, text)
    assert.matches('^{.*"path":"_G%.app%.kept".*}\n$', text)
    for _ = 1, 3 do -- its client leaves
      kit.kill(s:begin "/perf?do=snapshot", 15)
      assert.equal("x\n", (s:get "/kept"))
    end
    assert.equal("", s:errors())
  end)

  it("is not disturbed by finalizers that ask for it", function()
    serve()
    s:get "/finalizers"
    work()
    s:wait(function() return select(2, s:get "/perf?heap=folded") == 200 end)
    has_leak(live(), 4)
    assert.equal("", s:errors())
  end)
end)

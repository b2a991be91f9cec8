-- Sums over generations of workers: no count of a request is lost when workers end, and at any time the workers' counter equals
-- the sum of unattributed code, running requests and all routes.
--
-- The story: a worker published its counts when it began to exit, and requests that ended later were lost. If a worker was
-- killed, the sums contained only a part of its last publication.
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"

describe("resty.perf over generations of workers", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
  end)
  after_each(server.stop)

  local function serve(workers, options)
    s = server.start { user = "root", workers = workers, init_worker = ("app.start{%s}"):format(options or ""), shutdown = "1m",
      server = [[
      location /slow { content_by_lua_block { perf.content(function()
        app.spend(3) app.hold() app.spend(4) ngx.say "slow" end) } }
      location /quick { content_by_lua_block { perf.content(function() app.spend(2) ngx.say "quick" end) } }
      location = /slots { content_by_lua_block {
        local n = ngx.shared.perf:get "slots"
        ngx.say(n)
        for i = 1, n do
          local text = ngx.shared.perf:get("slot " .. i) or "0 "
          ngx.say(text:match "%d+", " ", ngx.crc32_long(text))
        end } } ]] }
  end

  -- The calls that /metrics shows, added up by metric and by route.
  local function sums()
    local text = s:get "/metrics"
    local t = { routes = 0 }
    for name, v in text:gmatch "\nlua_perf_(%a+)_syscalls_sys_enter_getppid%a* (%d+)" do t[name] = tonumber(v) end
    for name, v in text:gmatch "\nlua_perf_(%a+)_syscalls_sys_enter_getppid_total (%d+)" do t[name] = tonumber(v) end
    for route, v in text:gmatch '\nlua_perf_request_syscalls_sys_enter_getppid_sum{route="([^"]*)"} (%d+)' do
      t[route], t.routes = tonumber(v), t.routes + tonumber(v)
    end
    for route, v in text:gmatch '\nlua_perf_requests_total{route="([^"]*)"} (%d+)' do t["n" .. route] = tonumber(v) end
    return t
  end

  local function assert_balanced()
    local t = sums()
    assert.equal(t.worker, t.unattributed + t.running + t.routes)
    return t
  end

  -- Sends n requests of /slow in the background, and waits until all are open and are published. Returns a function that releases
  -- them, waits for their answers, and returns how many there were.
  local function begin(n)
    local out = s.dir .. "/answers"
    local curl = ("curl -s -m 120 'http://127.0.0.1:%d/slow' >>%s"):format(s.port, out)
    os.execute(("(for i in $(seq %d); do %s & done; wait; touch %s.done) >/dev/null 2>&1 &"):format(n, curl, out))
    s:wait(function() return sums().running >= 3 * n end)
    return function()
      s:release()
      s:wait(function() return io.open(out .. ".done") end)
      s:hold()
      local text = util.read_file(out)
      os.execute(("rm -f %s %s.done"):format(out, out))
      return select(2, text:gsub("slow\n", ""))
    end
  end

  local function ended(pids) s:ended(pids) end

  -- Waits until these workers have begun to exit.
  local function exiting(pids)
    s:wait(function()
      local log = s:log()
      for _, pid in ipairs(pids) do
        if not log:find(("%d#%d: gracefully shutting down"):format(pid, pid), 1, true) then return false end
      end
      return true
    end)
  end

  it("counts every request that ends after its worker began to exit", function()
    serve(2)
    local slow, quick = 0, 0
    for _ = 1, 3 do
      local old = s:workers()
      local answers = begin(20)
      quick = quick + s:load("/quick", 100, 4)
      kit.kill(s:master(), 1) -- SIGHUP
      exiting(old)
      assert_balanced()
      slow = slow + answers()
      ended(old)
      assert_balanced()
    end
    assert.equal(60, slow)
    local t = assert_balanced()
    assert.equal(slow, t["n/slow"])
    assert.equal(7 * slow, t["/slow"])
    assert.equal(quick, t["n/quick"])
    assert.equal(2 * quick, t["/quick"])
    assert.equal(0, t.running)
    assert.equal("", s:errors())
  end)

  it("is balanced after workers were killed or terminated with open requests", function()
    serve(2)
    for _, signal in ipairs { 9, 15, 9 } do
      local old = s:workers()
      local answers = begin(10)
      s:load("/quick", 100, 4)
      for _, pid in ipairs(old) do kit.kill(pid, signal) end
      ended(old)
      s:wait(function() return #s:workers() == 2 and s:get "/quick" == "quick\n" end)
      assert_balanced()
      answers()
    end
    -- New workers have taken over the records of the old ones, whose open requests never ended.
    s:wait(function() return sums().running == 0 end)
    assert_balanced()
  end)

  it("keeps as many records as there were workers at a time", function()
    serve(2)
    s:load("/quick", 10, 1)
    for _ = 1, 5 do
      local old = s:workers()
      s:reload()
      ended(old)
    end
    local t = assert_balanced()
    assert.equal(20, t["/quick"])
    -- An old worker and its successor may run at the same time. If two workers add a record at once, the number may be too large.
    assert.truthy(tonumber(s:get "/slots":match "%d+") <= 6)
  end)

  -- Returns a function that tells whether a worker has written its record since the first call.
  local function written(pid)
    local first
    return function()
      local now = s:get "/slots":match("\n" .. pid .. " (%d+)")
      first = first or now
      return now and now ~= first -- the old master's workers have another dictionary
    end
  end

  -- Executes nginx anew; returns the old master, the new one, and the workers of both.
  local function upgrade()
    local old, workers = s:master(), s:workers()
    kit.kill(old, 12) -- SIGUSR2
    local new
    s:wait(function()
      new = s:master() -- nil at times: nginx renames the old one's file, and writes the new one's later
      return new and new ~= old and #s:workers(new) == #workers
    end)
    return old, new, workers, s:workers(new)
  end

  -- The story: a new master has a new dictionary, so a binary upgrade began new sums.
  it("are the same after a binary upgrade", function()
    serve(2, "waits = true")
    local quick = s:load("/quick", 100, 4)
    local answers = begin(20)
    local old, _, workers = upgrade()
    quick = quick + s:load("/quick", 100, 4)
    kit.kill(old, 28) -- SIGWINCH
    exiting(workers)
    assert.equal(20, answers())
    ended(workers)
    kit.kill(old, 3) -- SIGQUIT
    ended { old }
    quick = quick + s:load("/quick", 100, 4)
    -- The counts of the ended workers may be on their way to a worker that has not written them yet.
    s:wait(function()
      local t = sums()
      return t.running == 0 and t["n/quick"] >= quick and t["n/slow"] >= 20
    end)
    local t = assert_balanced()
    assert.same({ quick, 2 * quick, 20, 140 }, { t["n/quick"], t["/quick"], t["n/slow"], t["/slow"] })
    s:wait(function()
      return s:get "/metrics":match 'duration_seconds_count{route="/slow",status="200",method="GET"} (%d+)' == "20"
    end)
    assert.equal("", s:errors())
  end)

  it("are the same after an upgrade that was taken back, whose workers had been killed", function()
    serve(2)
    local quick = s:load("/quick", 100, 4)
    local _, new, _, workers = upgrade()
    quick = quick + s:load("/quick", 200, 4)
    s:wait(written(workers[1])) -- a worker that is killed loses its last second
    s:wait(written(workers[1]))
    kit.kill(workers[1], 9)
    ended { workers[1] }
    kit.kill(new, 3)
    ended { new }
    s:wait(function() return sums()["n/quick"] >= quick end)
    local t = assert_balanced()
    assert.equal(quick, t["n/quick"])
    assert.equal(2 * quick, t["/quick"])
    assert.equal(0, t.running)
  end)
end)

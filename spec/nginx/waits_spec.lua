-- Handlers with known waits, at known lines, for known peers. No bound is an upper one: load makes waits longer.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local function split(line, separator)
  local parts = {}
  for part in (line .. separator):gmatch("(.-)" .. (separator == "|" and "%|" or separator)) do parts[#parts + 1] = part end
  return parts
end

local function line_of(text) return util.line_of("spec/nginx/waits_app.lua", text) end

describe("resty.perf counts where requests wait:", function()
  local s

  local names = { "naps", "upstream", "threads", "subrequest", "semaphore", "many", "delayed" }
  local handlers = { [[
    location = /slow_server { content_by_lua_block { app.slow_server() } }
    location = /answer_and_spin { content_by_lua_block { perf.content(app.answer_and_spin) } }
    location = /times { content_by_lua_block { app.times() } }
    location = /rows { content_by_lua_block { app.rows() } }
    location = /latencies { content_by_lua_block { app.latencies() } }
    location = /graph { content_by_lua_block { app.graph() } }
    location = /missing { content_by_lua_block { perf.content(function() ngx.exit(404) end) } }
    location = /renamed { content_by_lua_block { perf.content(function()
      ngx.update_time() ngx.sleep(0.01) perf.route "new" ngx.say "x" end) } }
    location = /proxied { access_by_lua_block { perf.access(function() end) }
      proxy_pass http://127.0.0.1:$server_port/slow_server; log_by_lua_block { perf.log() } }
    location = /error { content_by_lua_block { perf.content(function() ngx.sleep(0.01) app.spin(0.01) error "x" end) } } ]] }
  for _, name in ipairs(names) do
    handlers[#handlers + 1] = ("location = /%s { content_by_lua_block { perf.content(app.%s) } }"):format(name, name)
  end

  before_each(function()
    requires(server.needs)
    if s then return end
    s = server.start { app = "spec.nginx.waits_app", init_worker = "app.start{events='task-clock', waits=true}",
      server = table.concat(handlers, "\n"), log = " " }
  end)
  teardown(function() if s then s:stop() end end)

  -- {wall, turns, waiting, late} of a route, in ms.
  local function times(route)
    for line in s:get "/times":gmatch "[^\n]+" do
      local parts = split(line, " ")
      if parts[1] == route then
        local t = {}
        for i, name in ipairs { "wall", "turns", "waiting", "late" } do t[name] = tonumber(parts[i + 1]) / 1e6 end
        return t, parts
      end
    end
    return { wall = 0, turns = 0, waiting = 0, late = 0 }, { 0, 0, 0, 0, 0 }
  end

  local function rows(route, kind)
    local list = {}
    for line in s:get "/rows":gmatch "[^\n]+" do
      local p = split(line, "|")
      if p[1] == route and (not kind or p[3] == kind) then
        list[#list + 1] = { phase = p[2], kind = p[3], peer = p[4], line = p[5], count = tonumber(p[6]),
          lasted = tonumber(p[7]) / 1e6, waiting = tonumber(p[8]) / 1e6, late = tonumber(p[9]) / 1e6 }
      end
    end
    return list
  end

  -- Sends requests, and checks that their times add up, to the nanosecond.
  local function serve(path, route, n)
    for _ = 1, n or 3 do s:get(path) end
    s:wait(function() return s:worker().known == 0 end)
    local t, exact = times(route or path)
    assert.equal(tonumber(exact[2]), exact[3] + exact[4] + exact[5], path)
    return t
  end

  it("in sleeps, by line", function()
    local t = serve "/naps"
    local list = rows("/naps", "sleep")
    assert.equal(2, #list)
    local first, second = list[1], list[2]
    if first.line > second.line then first, second = second, first end
    assert.equal(line_of "the first line", first.line:match "^%S+")
    assert.equal(line_of "the second line", second.line:match "^%S+")
    assert.equal(3, first.count)
    assert.equal("content", first.phase)
    assert.truthy(first.lasted >= 3 * 29 and second.lasted >= 3 * 19, first.lasted .. " " .. second.lasted)
    assert.truthy(first.waiting + first.late <= first.lasted + 0.001)
    assert.truthy(t.turns >= 30, "the handler ran for 10 ms: " .. t.turns)
    assert.truthy(t.wall >= 3 * 59)
  end)

  it("for a slow server, by peer and line", function()
    serve "/upstream"
    local received = rows("/upstream", "receive")
    assert.equal(1, #received)
    assert.equal("127.0.0.1:" .. s.port, received[1].peer)
    assert.equal(line_of 'sock:receive "*l"', received[1].line:match "^%S+")
    assert.truthy(received[1].lasted >= 3 * 39)
    assert.equal(3, rows("/upstream", "connect")[1].count)
    assert.equal(3, rows("/upstream", "send")[1].count)
  end)

  it("in threads, whose overlapping waits count once", function()
    local t = serve "/threads"
    local slept = rows("/threads", "sleep")
    assert.equal(1, #slept)
    assert.equal(6, slept[1].count)
    assert.truthy(slept[1].lasted >= 6 * 19)
    -- The story: the line was in resty/perf/yields.lua, which has the function that runs the thread's function.
    assert.truthy(slept[1].line:find "^[%w_]+%.lua:%d+$", slept[1].line)
    assert.truthy(slept[1].waiting <= t.wall)
    assert.truthy(slept[1].lasted > slept[1].waiting + slept[1].late + 5, "each lasted, but only one of two at a time")
  end)

  it("for subrequests and semaphores", function()
    serve "/subrequest"
    assert.equal("/slow_server", rows("/subrequest", "subrequest")[1].peer)
    assert.truthy(rows("/subrequest", "subrequest")[1].lasted >= 3 * 39)
    serve "/semaphore"
    assert.truthy(rows("/semaphore", "semaphore")[1].lasted >= 3 * 18)
  end)

  it("in a request with more waits than are kept", function()
    serve "/many"
    assert.equal(300, rows("/many", "sleep")[1].count)
  end)

  -- The story: all of this time was late ("the worker was busy"), since nothing was read between the last turn and the end.
  it("for nginx, until a proxied server responds", function()
    serve "/proxied"
    local host = rows("/proxied", "nginx")
    local waited = 0
    for _, r in ipairs(host) do waited = waited + r.waiting end
    assert.truthy(waited >= 3 * 39, waited)
  end)

  it("in a request that fails or changes its route", function()
    serve "/error"
    local t = serve("/renamed", "new")
    assert.truthy(t.wall >= 27)
    assert.equal(0, times "/renamed".wall)
    assert.equal(3, rows("new", "sleep")[1].count)
  end)

  it("and calls it late if the request could continue but other Lua ran", function()
    local t = serve("/delayed", nil, 1)
    assert.truthy(t.late >= 49 and t.late <= t.waiting + t.late, t.late)
    assert.truthy(rows("/delayed", "receive")[1].late >= 49)
  end)

  it("and the wall time, by status and method", function()
    serve "/missing"
    s:get("/missing", "-X POST")
    s:wait(function() return s:worker().known == 0 end)
    local text = s:get "/latencies"
    assert.truthy(text:find("/missing|404|GET|3|", 1, true), text)
    assert.truthy(text:find("/missing|404|POST|1|", 1, true), text)
    assert.truthy(text:find("/naps|200|GET|3|", 1, true), text)
  end)

  it("and shows them as metrics and as a flame graph", function()
    local text = s:get "/metrics"
    assert.truthy(text:find('lua_perf_request_duration_seconds_count{route="/naps",status="200",method="GET"} 3', 1, true), text)
    assert.truthy(text:find('lua_perf_wait_duration_seconds_count{route="/naps",kind="sleep",peer=""} 6', 1, true), text)
    local graph = s:get "/graph?route=/naps"
    local sum = 0
    for n in graph:gmatch " (%d+)\n" do sum = sum + n end
    local _, exact = times "/naps"
    assert.equal(tonumber(exact[2]), sum)
    assert.truthy(graph:find "/naps;content;[^\n]*waits_app.lua[^\n]*;%(waiting%) sleep %d+", graph)
  end)

  it("and writes nothing else to the error log", function()
    for line in s:errors():gmatch "[^\n]+" do
      assert.truthy(not line:find "%[%l+%]" or line:find "runtime error: content_by_lua%(nginx.conf:%d+%):1: x", line)
    end
  end)
end)

-- Commands reach all workers.
local server = require "spec.nginx.server"

describe("resty.perf's commands", function()
  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local function start(setup)
    return server.start { workers = 2, init_worker = setup .. "perf.start{events='task-clock'}", server = [[
      location = /fill { content_by_lua_block { local dict, n = ngx.shared.perf, 0
        for _, size in ipairs { 1000000, 60000, 4000, 1000, 200, 60, 1 } do
          while dict:safe_set("fill" .. n, ("x"):rep(size)) do n = n + 1 end
        end
        ngx.say(n) } } ]] }
  end

  -- Waits until each of the two workers has shown this text on its page.
  local function wait_for(s, text)
    local follows = {}
    s:wait(function()
      local json = s:get "/perf?format=json"
      local pid = json:match '"worker":(%d+)'
      if pid and json:find(text, 1, true) then follows[pid] = true end
      local n = 0
      for _ in pairs(follows) do n = n + 1 end
      return n == 2
    end)
  end

  -- The story: a number of 16 digits was written rounded. The other workers refused it, and their timer failed.
  it("have their numbers exactly", function()
    local s = start ""
    assert.equal(200, select(2, s:get("/perf?do=start&sample=9007199254740991", "-X POST")))
    wait_for(s, '"sample":9007199254740991')
    assert.is_nil(s:errors():find("runtime error", 1, true), s:errors())
  end)

  -- The story: the answer was "done", but the other workers never stopped.
  it("are followed although the dictionary is full", function()
    local s = start ""
    wait_for(s, '"running":true')
    s:get "/fill"
    assert.equal(200, select(2, s:get("/perf?do=stop", "-X POST")))
    wait_for(s, '"running":false')
  end)

  -- The story: the newest command replaced the commands before it. A worker that started later did not know the events of an
  -- earlier command, so it counted other events than the other workers. Workers look into the dictionary once a second, and so
  -- they missed the first of two commands within a second.
  it("have the changes of earlier commands", function()
    local s = start ""
    local function send(query) assert.equal(200, select(2, s:get("/perf?" .. query, "-X POST")), query) end
    local function has_all(n)
      for _, text in ipairs { '"page-faults:u"', '"sample":' .. n .. "," } do wait_for(s, text) end
    end
    wait_for(s, '"running":true')
    for _, query in ipairs { "events=page-faults:u", "sample=7" } do send("do=start&" .. query) end
    has_all(7)
    local before = tonumber(s:get "/metrics":match "\nlua_perf_seen_requests_total (%d+)")
    s:reload()
    wait_for(s, '"running":true')
    has_all(7)
    assert.is_true(tonumber(s:get "/metrics":match "\nlua_perf_seen_requests_total (%d+)") >= before)
    for _, query in ipairs { "do=start&sample=9", "do=stop" } do send(query) end
    wait_for(s, '"running":false')
    s:reload()
    wait_for(s, '"running":false')
    send "do=start"
    has_all(9)
  end)

  -- The story: a worker that could not open another's events gave its next command without them, so workers that started later
  -- counted the events of nginx.conf. It did not log the mistake either if a command of its own came first.
  it("have the changes that a worker could not follow", function()
    local s = server.start { workers = 2, init_worker = [[
      local events = require "resty.perf.worker_events"
      local open = events.open
      function events.open(list)
        if ngx.worker.id() == 1 and list:find "page" then return nil, "refused by a worker" end
        return open(list)
      end
      perf.start{events='task-clock'}]], server = [[
      location = /change { content_by_lua_block { local perf = require "resty.perf"
        if ngx.worker.id() == tonumber(ngx.var.arg_by) then
          assert(perf.start(ngx.var.arg_sample and { sample = 7 } or { events = "page-faults:u" }))
          ngx.say("changed " .. ngx.shared.perf:get "command")
        end } } ]] }
    local function change(query)
      local answer
      s:wait(function()
        answer = s:get("/change?" .. query)
        return answer:find("changed", 1, true)
      end)
      return answer
    end
    change "by=0"
    assert.truthy(change("by=1&sample=7"):find(" 7 - page-faults:u", 1, true))
    assert.truthy(s:errors():find("refused by a worker", 1, true))
  end)

  -- The story: each start that found a request open counted it once more in lua_perf_seen_requests_total.
  for command, sums in pairs { ["do=start"] = { 1, 2, 2 }, ["do=start&events=page-faults:u"] = { 0, 1, 2 } } do
    it("leave a request that is open meanwhile one request: " .. command, function()
      local s = server.start { shutdown = "1m", init_worker = "perf.start{events='task-clock'}", server = [[
        location /held {
          content_by_lua_block { perf.content(function() app.hold() ngx.say "x" end) }
          header_filter_by_lua_block { perf.header_filter(function() end) } }
        location /other { content_by_lua_block { perf.content(ngx.say, "x") } } ]] }
      local function has_seen(n) assert.equal(n, tonumber(s:get "/metrics":match "\nlua_perf_seen_requests_total (%d+)")) end
      s:begin "/held"
      s:wait(function() return s:worker().known == 1 end)
      has_seen(1)
      for _, query in ipairs { "do=stop", command } do assert.equal(200, select(2, s:get("/perf?" .. query, "-X POST"))) end
      has_seen(sums[1])
      s:get "/other"
      has_seen(sums[2])
      s:release()
      s:wait(function() return s:get "/metrics":find('requests_total{route="/held"} 1', 1, true) end)
      has_seen(sums[3])
    end)
  end

  it("say so if the dictionary refuses them", function()
    local s = start [[local commands = require "resty.perf.commands"
      commands.prepare = function() end ]]
    s:get "/fill"
    local text, status = s:get("/perf?do=stop", "-X POST")
    assert.equal(500, status)
    assert.truthy(text:find("the other workers do not follow", 1, true), text)
  end)
end)

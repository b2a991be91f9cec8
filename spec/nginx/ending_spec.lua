-- The story: nginx does not call the timers of a worker that SIGTERM ends. So the counts since the last tick, up to a second of
-- requests, were lost: of 100 requests there were 0. With SIGQUIT and with a reload nothing was lost, and a running profile was
-- finished.
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

describe("a worker that ends while it is profiled", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local app = [[
    location /hello { content_by_lua_block { perf.content(ngx.say, "hello") } }
    location /profile { content_by_lua_block {
      local prof, message
      repeat -- while the short profile runs with which the spec checks whether this one does
        prof, message = perf.profile("cpu-clock:u", 60)
        if not prof then ngx.sleep(0.02) end
      until prof or not message:find("profiled already", 1, true)
      ngx.say(prof and prof.total > 0 and prof.event or message)
    } }
    location /busy { content_by_lua_block {
      local till, n = os.clock() + 0.1, 0 -- CPU time: other processes may take the CPU meanwhile
      while os.clock() < till do
        for i = 1, 1e4 do n = n + i % 7 end
      end
      ngx.say "busy"
    } }]]

  local function requests() return tonumber(s:get "/metrics":match 'lua_perf_requests_total{route="/hello"} (%d+)') or 0 end

  for name, signal in pairs { QUIT = 3, TERM = 15, HUP = 1 } do
    it(("by %s ends well, and its counts are kept"):format(name), function()
      s = server.start { server = app, shutdown = "1m", init_worker = "app.start{events='page-faults:u'}" }
      local out = s.dir .. "/out"
      os.execute(("(curl -s -m 120 -o %s http://127.0.0.1:%d/profile; touch %s.done) >/dev/null 2>&1 &"):format(out, s.port, out))
      s:wait(function()
        local body = s:get "/perf?flame=cpu-clock:u&seconds=0.01"
        return body:find("profiled already", 1, true)
      end)
      for _ = 1, 3 do s:get "/busy" end
      local worker = s:workers()[1]
      assert.equal(100, s:load("/hello", 100, 4))
      kit.kill(name == "HUP" and s:master() or worker, signal)
      s:wait(function() return s:log():find(("worker process %d exited"):format(worker), 1, true) end)
      s:wait(function() return s:get "/hello" == "hello\n" end)
      s:wait(function() return requests() >= 101 end)
      assert.truthy(s:log():find("worker process " .. worker .. " exited with code 0", 1, true), s:log())
      assert.equal("", s:errors())
      -- SIGTERM closes the connection of the request that waits for the profile.
      s:wait(function() return io.open(out .. ".done") end)
      if name ~= "TERM" then assert.equal("cpu-clock:u\n", util.read_file(out)) end
    end)
  end
end)

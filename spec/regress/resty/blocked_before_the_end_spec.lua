-- The story: when a worker got SIGTERM, it wrote its pending lines to the error log before it looked for the last blocked turns.
-- So these were counted, but had no line.
--
-- Later, when a turn blocked in a worker that had begun to exit, the worker found it when its Lua state closed, and called
-- ngx.timer.at for its line. Requests are freed by then, so nginx read freed memory: the worker crashed, without the line.
local kit = require "testkit"
local server = require "spec.nginx.server"

describe("a turn that blocks just before its worker", function()
  local s
  before_each(function()
    requires(server.needs)
    s = server.start { app = "spec.nginx.blocked_app", shutdown = "1m",
      init_worker = "app.start{events='task-clock,page-faults:u', blocked=0.02, slow=0.01}",
      server = [[location ~ ^/block/(.*)$ { content_by_lua_block { perf.content(app.block, ngx.var[1]) } }
        location = /last { content_by_lua_block { perf.content(function() app.hold() app.block "spin" end) } }]] }
  end)
  after_each(function() if s then s:stop() end end)

  local function wait_for_exit(worker)
    s:wait(function() return s:log():find(("worker process %d exited"):format(worker), 1, true) end)
    assert.truthy(s:log():find(("worker process %d exited with code 0"):format(worker), 1, true), s:log())
  end

  it("gets SIGTERM has a line in the error log", function()
    local worker = s:workers()[1]
    assert.equal(200, select(2, s:get "/block/spin"))
    kit.kill(worker, 15)
    wait_for_exit(worker)
    assert.matches("blocked: a turn of /block/spin, content, /block/spin, took [%d.]+m?s: task%-clock", s:log())
  end)

  it("exits after a reload has a line in the error log", function()
    local worker = s:workers()[1]
    s:begin "/last"
    s:wait(function() return s:worker().known == 1 end)
    kit.kill(s:master(), 1)
    s:wait(function() return s:log():find(("%d#%d: gracefully shutting down"):format(worker, worker), 1, true) end)
    s:release()
    wait_for_exit(worker)
    assert.matches("blocked: a turn of /last, content, /last, took [%d.]+m?s: task%-clock", s:log())
  end)
end)

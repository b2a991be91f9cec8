-- The countable cost of resty.perf: readings of the worker's events, each a read(2); nginx itself makes none. They are counted
-- from outside, since the worker's own counts exclude them.
local perf = require "perf"
local server = require "spec.nginx.server"

local EVENT = "syscalls:sys_enter_read"

describe("resty.perf reads its events", function()
  local s

  before_each(function()
    requires(server.needs)
    requires { tracepoint = EVENT }
  end)
  after_each(server.stop)

  -- The number of readings for a request of each path.
  local function readings(paths, sample, log)
    local start = ("app.start{events='%s', sample=%d}"):format(EVENT, sample)
    s = server.start { user = "root", log = log, init_worker = start, server = [[
      location /one { content_by_lua_block { perf.content(ngx.print, "x") } }
      location /phases {
        access_by_lua_block { perf.access(ngx.now) }
        content_by_lua_block { perf.content(ngx.print, "x") }
      }
      location /yields { content_by_lua_block { perf.content(function() ngx.sleep(0.001) ngx.sleep(0.001) ngx.print "x" end) } }
      location /threads { content_by_lua_block { perf.content(function()
        for _ = 1, 5 do ngx.thread.wait(ngx.thread.spawn(ngx.now)) end coroutine.yield() ngx.print "x" end) } }
      location /sleepers { content_by_lua_block { perf.content(function()
        ngx.thread.wait(ngx.thread.spawn(ngx.sleep, 0.001)) ngx.print "x" end) } } ]] }
    local n, from_outside = 100, assert(perf.open(EVENT, { pid = s:workers()[1] }))
    from_outside:enable()
    for path, times in pairs(paths) do
      local before, begun = from_outside:read().raw, os.time()
      assert.equal(n, s:load(path, n, 4))
      -- The worker also reads once a second, when its timer publishes the sums; once more if the last time was late.
      local by_timer = from_outside:read().raw - before - n * times
      local seconds = os.time() - begun + 2
      assert.is_true(by_timer >= 0 and by_timer <= seconds, ("%s: %d readings too many in %d s"):format(path, by_timer, seconds))
    end
    from_outside:close()
    assert.equal(0, s:worker()["whole:" .. EVENT])
    assert.equal("", s:errors())
  end

  it("twice for each phase and each yield, but not for a thread that ends without a yield", function()
    readings({ ["/one"] = 2, ["/phases"] = 4, ["/yields"] = 6, ["/threads"] = 2, ["/sleepers"] = 8 }, 1)
  end)

  it("equally often without a log phase", function() readings({ ["/one"] = 2, ["/yields"] = 6 }, 1, " ") end)

  it("never for a request that is not sampled", function() readings({ ["/phases"] = 0, ["/yields"] = 0 }, 1000000) end)
end)

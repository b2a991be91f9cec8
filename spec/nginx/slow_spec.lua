-- A slow request is logged once, whether it was sampled or not.
local server = require "spec.nginx.server"

describe("slow requests", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- Starts with these options, sends n slow requests and n quick ones, and returns the lines about the slow ones.
  local function lines(opts, n)
    s = server.start { app = "spec.nginx.waits_app", init_worker = "app.start{events='task-clock', slow=0.1, " .. opts .. "}",
      server = [[
        location = /slow { content_by_lua_block { perf.content(function() ngx.sleep(0.15) ngx.say "x" end) } }
        location = /quick { content_by_lua_block { perf.content(function() ngx.say "x" end) } } ]] }
    for _ = 1, n do
      s:get "/slow"
      s:get "/quick"
    end
    local found = {}
    s:wait(function()
      found = {}
      for line in s:log():gmatch "slow request: [^\n]+" do found[#found + 1] = line end
      return #found >= n
    end)
    return found
  end

  -- The story: with sample = 100, none of 60 was logged.
  it("are logged even if they were not sampled", function()
    local found = lines("sample=100", 5)
    local without = 0
    for _, line in ipairs(found) do
      if line:find("/slow, GET /slow 200: not counted", 1, true) then without = without + 1 end
    end
    assert.truthy(without >= 4, table.concat(found, "\n"))
    s:wait(function() return s:get "/metrics":find "lua_perf_seen_requests_total 1%d" end)
  end)

  it("name the place where they waited", function()
    local found = lines("waits=true", 2)
    for _, line in ipairs(found) do
      assert.truthy(line:find "waited 1%d%d[.%d]*ms in sleep at content_by_lua%(nginx.conf:%d+%):1" or
        line:find "waited [%d.]+m?s in sleep at content_by_lua", line)
    end
  end)
end)

-- Many requests, through reloads, aborts and a worker that is killed. SOAK=1000000 is make soak-nginx.
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local REQUESTS = tonumber(os.getenv "SOAK") or 20000

describe("resty.perf in the long run", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  local function descriptors(pid) return tonumber((util.shell("ls /proc/" .. pid .. "/fd | wc -l"))) end

  it("does not use more memory", function()
    s = server.start { init_worker = "perf.start{events='page-faults:u,task-clock'}", server = [[
      location /cost { content_by_lua_block { perf.content(app.cost, "page-faults") } }
      location /plain { content_by_lua_block { perf.content(ngx.say, "x") } }
      location /collect { content_by_lua_block { jit.flush() for _ = 1, 3 do collectgarbage() end ngx.say "done" } }]] }
    -- Without the traces of the compiler: during a million requests it made a hundred more, which were 110 KiB of Lua's heap.
    local function size()
      s:wait(function() return s:worker().known == 0 end)
      s:get "/collect"
      local pid = s:workers()[1]
      local text = util.read_file("/proc/" .. pid .. "/smaps_rollup")
      local function kib(name) return tonumber(text:match("\n" .. name .. ":%s+(%d+) kB")) end
      -- The kernel may replace pages by a huge one at any time, which has pages that nobody uses.
      return s:worker().memory, kib "Rss" - kib "AnonHugePages", descriptors(pid)
    end
    s:load("/cost", 2000, 64)
    s:load("/plain", 3000, 64)
    local lua, resident, open = size()
    s:load("/cost", math.floor(REQUESTS / 10), 64)
    s:load("/plain", REQUESTS, 64)
    local lua2, resident2, open2 = size()
    assert.truthy(lua2 <= lua + 64, ("Lua's heap: %d KiB, %d before"):format(lua2, lua))
    assert.truthy(resident2 <= resident + 1024, ("resident: %d KiB, %d before"):format(resident2, resident))
    -- A connection that was just closed may still have been counted, before or after.
    local pid = s:workers()[1]
    s:wait(function() return descriptors(pid) <= open end)
    assert.truthy(descriptors(pid) <= open, ("%d descriptors, %d before"):format(open2, open))
    assert.equal("", s:errors())
  end)

  -- By HTTP/1 and HTTP/2 in turn.
  it("leaves no line in the log, no descriptor and no key after reloads, aborts and a killed worker", function()
    s = server.start { workers = 2, init_worker = "perf.start{events='page-faults:u,task-clock'}", server = [[
      location /cost { content_by_lua_block { perf.content(function()
        local thread = ngx.thread.spawn(ngx.sleep, 0.002)
        ngx.sleep(0.001)
        ngx.thread.wait(thread)
        ngx.say "done" end) } }]] }
    -- Whether no worker has a connection of a client, which may have closed it already.
    local function is_idle()
      local ports = { [("%04X"):format(s.port)] = true, [("%04X"):format(s.h2port)] = true }
      for port, state in util.read_file("/proc/net/tcp"):gmatch "\n%s*%d+: %x+:(%x+) %x+:%x+ (%x+)" do
        if ports[port] and (state == "01" or state == "08") then return false end -- ESTABLISHED, CLOSE_WAIT
      end
      return true
    end
    local function count() -- descriptors of the workers that stay
      s:wait(function() return #s:workers() == 2 and is_idle() end)
      local n = {}
      for i, pid in ipairs(s:workers()) do n[i] = descriptors(pid) end
      table.sort(n)
      return table.concat(n, " ")
    end
    local function metric(text, name) return tonumber(text:match("\nlua_perf_" .. name .. " (%S+)")) end
    s:load("/cost", 200, 4)
    local before, free = count(), metric(s:get "/metrics", "dict_free_bytes")
    local each = math.floor(REQUESTS / 50)
    for round = 1, 5 do
      local done = s.dir .. "/done" .. round
      local h2 = round % 2 == 0
      os.execute(("(nice -n 5 h2load %s -n %d -c 16 -t 1 http://127.0.0.1:%d/cost >/dev/null 2>&1; touch %s) &"):format(
        h2 and "-m 8" or "--h1", each, h2 and s.h2port or s.port, done))
      for _ = 1, 5 do s:get("/cost", "-m 0.002") end
      if round == 3 then
        kit.kill(s:workers()[1], 9)
        s:wait(function() return #s:workers() == 2 end)
      else
        s:reload()
      end
      s:wait(function() return io.open(done) ~= nil end)
    end
    s:wait(function() return count() == before end)
    for line in s:errors():gmatch "[^\n]+" do
      assert.falsy(line:find "[Ll]ua" or line:find "on signal" and not line:find "on signal 9", line)
    end
    local text = s:get "/metrics"
    assert.truthy(tonumber(text:match 'lua_perf_requests_total{route="/cost"} (%d+)') > 0)
    local sum = metric(text, "unattributed_task_clock_seconds_total") + metric(text, "running_task_clock_seconds")
    for v in text:gmatch "\nlua_perf_phase_task_clock_seconds_total{[^}]*} (%S+)" do sum = sum + v end
    assert.near(metric(text, "worker_task_clock_seconds_total"), sum, 1e-6)
    local left = metric(text, "dict_free_bytes")
    assert.truthy(left >= free - 65536, ("free bytes of the dictionary: %d, %d before"):format(left, free))
  end)
end)

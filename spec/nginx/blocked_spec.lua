-- A turn that blocks its worker is caught while it runs, with its line, whether it computes or sleeps in a system call.
local kit = require "testkit"
local server = require "spec.nginx.server"
local util = require "spec.support.util"

-- A pipe for a log that nobody reads, and a process that keeps it open.
local reader
local function begin_reader(dir)
  util.execute(("mkfifo -m 666 %s/pipe %s/input"):format(dir, dir))
  reader = tonumber((util.shell(("sleep 600 <>%s/pipe >/dev/null 2>&1 & echo $!"):format(dir))))
end

describe("resty.perf, while a turn blocks the worker,", function()
  local s

  before_each(function()
    requires(server.needs)
    if s then return end
    s = server.start { app = "spec.nginx.blocked_app", init_worker = "app.start{events='task-clock,page-faults:u', blocked=0.02}",
      prepare = begin_reader, server = [[
        location = /bare { content_by_lua_block { app.block "spin" } }
        location = /logged { access_log $dir/pipe; return 200 x; }
        location = /failing { return 200 x; log_by_lua_block { perf.log(function() error "boom" end) } }
        location ~ ^/block/(.*)$ { content_by_lua_block { perf.content(app.block, ngx.var[1]) } }
        location = /found { content_by_lua_block { app.found() } } ]] }
  end)
  teardown(function()
    if reader then kit.kill(reader, 9) end
    if s then s:stop() end
  end)

  -- The properties of the newest blocked turn of this kind: {[name] = text}.
  local function newest(way)
    local found = {}
    for line in s:get("/found?route=/block/" .. way):gmatch "[^\n]+" do
      local key, value = line:match "^(%S+) (.*)$"
      if key then found[key] = value end
    end
    return found
  end

  local function line_of(text) return util.line_of("spec/nginx/blocked_app.lua", text) end

  -- Sends requests until the watcher has seen one (at this line, and in one of these system calls), and returns its properties.
  -- On a busy machine, the watcher may get a CPU only after the turn or at its end, or while another program is being started.
  local function blocked(way, text, calls)
    local line, found = text and line_of(text) or "", nil
    s:wait(function()
      local before = newest(way).count
      assert.equal(200, select(2, s:get("/block/" .. way .. "?token=secret")))
      found = newest(way)
      return found.count ~= before and tonumber(found.seen) > 0 and found.lines:find(line, 1, true) and
        (not calls or calls[found.call])
    end)
    return found
  end

  it("finds the line of a loop", function()
    local f = blocked("spin", "the loop's line", { ["nil"] = true }) -- some machines' clocks need a system call
    assert.equal("content", f.phase)
    assert.truthy(f.lines:find(line_of "the caller's line", 1, true), f.lines)
    assert.truthy(tonumber(f.wall) >= 50 and tonumber(f.cpu) <= tonumber(f.wall) + 1)
    assert.truthy(tonumber(f.seen) >= 20)
    assert.equal("/block/spin?...", f.uri)
  end)

  it("names a system call that sleeps, and does not interrupt it", function()
    local sleeps = { nanosleep = true, clock_nanosleep = true, wait4 = true, read = true, poll = true, ppoll = true }
    for way, text in pairs { nap = "the nap's line", nanosleep = "the nanosleep's line", poll = "the poll's line",
      execute = "the program's line", popen = "the pipe's line" } do
      local f = blocked(way, text, sleeps)
      assert.truthy(tonumber(f.wall) >= 50, way .. ": " .. f.wall)
      assert.truthy(tonumber(f.cpu) < tonumber(f.wall) / 2, way .. ": " .. f.cpu)
    end
    for _, way in ipairs { "nap", "nanosleep", "poll" } do assert.equal("whole\n", (s:get("/block/" .. way)), way) end
  end)

  -- The signal arrives in a system call if a turn that computed has begun the call in the meantime.
  it("has a signal that ends sleeps, and after which reads go on", function()
    local answer, worker = s.dir .. "/answer", s:workers()[1]
    for way, want in pairs { long_usleep = "cut short\n", long_poll = "cut short\n", long_read = "whole\n" } do
      local client, signals = s:begin("/block/" .. way, answer), 0
      s:wait(function()
        kit.kill(worker, 23) -- SIGURG
        signals = signals + 1
        if signals == 10 and way == "long_read" then util.shell(("printf x >%s/input"):format(s.dir)) end
        return not io.open("/proc/" .. client .. "/exe")
      end)
      assert.equal(want, util.read_file(answer), way)
      os.remove(answer)
    end
  end)

  it("counts the page faults", function()
    local f = blocked "touch"
    assert.truthy(tonumber(f.faults) >= 20 * 100, f.faults)
  end)

  it("writes a line about a turn that goes on and on before it ends", function()
    local found, line = 0, line_of "the long turn's line"
    s:wait(function() -- without its place, if the turn got no CPU while the watcher waited for its answer
      s:hold()
      local client, goes_on = s:begin "/block/long?token=secret", nil
      s:wait(function()
        local list = {}
        for text in s:log():gmatch "#%d+: blocked: a turn of /block/long, content, has run for [%d.]+s and goes on([^\n]*)\n" do
          list[#list + 1] = text
        end
        goes_on = list[found + 1]
        return goes_on
      end)
      found = found + 1
      s:release()
      s:wait(function() return not io.open("/proc/" .. client .. "/exe") end)
      return goes_on:find(line, 1, true)
    end)
    assert.is_true(tonumber(newest "long".wall) >= 1000)
    assert.is_nil(s:log():find("secret", 1, true))
  end)

  it("does not report a turn within the limit", function()
    s:get "/block/quick"
    s:wait(function() return s:get "/metrics":find('requests_total{route="/block/quick"} 1', 1, true) end)
    local wall = newest "quick".wall
    assert.is_true(not wall or tonumber(wall) > 20) -- another process may have taken the CPU for so long
  end)

  it("catches turns of requests that sampling leaves out too, also after a yield", function()
    s:get("/perf?do=start&sample=0", "-X POST")
    local f = blocked("spin", "the loop's line")
    assert.equal("content", f.phase)
    assert.truthy(tonumber(f.wall) >= 50)
    assert.equal("/block/spin?...", f.uri)
    blocked("late_nap", "the nap's line")
    s:wait(function()
      return s:log():find "blocked: a turn of /block/spin, content, /block/spin%?..., took [%d.]+m?s: not counted; after "
    end)
    local metrics = s:get "/metrics"
    assert.matches('\nlua_perf_blocked_turns_total{route="/block/late_nap"} [1-9]', metrics)
    assert.is_nil(metrics:find('requests_total{route="/block/late_nap"}', 1, true))
    s:get("/perf?do=start&sample=1", "-X POST")
  end)

  it("catches Lua that no hook runs", function()
    local found
    s:wait(function() -- no hook tells of a turn that the watcher did not see: another one is sent
      s:get "/bare"
      found = s:get "/found?route=(nginx)"
      return found:find(line_of "the loop's line", 1, true)
    end)
    assert.matches("\nphase between turns\n", found)
    assert.matches("\nuri nil\n", found)
  end)

  it("catches nginx's own code", function()
    local pipe, line = s.dir .. "/pipe", "blocked: a turn of %(nginx%), between turns, "
    local goes_on = line .. "has run for [%d.]+s and goes on([^\n]*)"
    local took = line .. "took [%d.]+m?s: not counted; after [%d.]+m?s it was at ([^\n]*)"
    -- How many lines of a kind there are, and what the last one says at its end.
    local function lines(pattern)
      local number, last = 0, nil
      for text in s:log():gmatch(pattern) do last, number = text, number + 1 end
      return number, last
    end
    local function next_line(pattern, before)
      s:wait(function() return lines(pattern) > before end)
      return select(2, lines(pattern))
    end
    s:wait(function() -- the watcher may look while the worker waits for a CPU and writes nothing yet: then once more
      util.shell(("dd if=/dev/zero of=%s bs=4096 oflag=nonblock"):format(pipe)) -- until it is full
      local going, taken = lines(goes_on), lines(took)
      s:begin("/logged?" .. ("x"):rep(3000))
      local there = next_line(goes_on, going)
      util.shell(("dd if=%s of=/dev/null bs=64k iflag=nonblock"):format(pipe))
      local at = next_line(took, taken)
      return there == ", in the system call write" and at:find(there, 1, true)
    end)
    assert.matches('\nlua_perf_blocked_turns_total{route="%(nginx%)"} [1-9]', (s:get "/metrics"))
  end)

  it("does not report a worker that waits for events after an error in the log phase", function()
    for _ = 1, 3 do
      s:get "/failing"
      s:wait(function() return s:log():find "boom" end)
      os.execute "sleep 0.2"
    end
    local function lines() return select(2, s:log():gsub("blocked: a turn of /block/spin", "")) end
    local before = lines()
    blocked("spin", "the loop's line") -- it is reported after those
    s:wait(function() return lines() > before end)
    assert.is_nil(s:log():find("system call epoll_", 1, true))
  end)

  it("writes a line in the error log and metrics for each turn", function()
    blocked("spin", "the loop's line")
    local line = "blocked: a turn of /block/spin, content, /block/spin%?..., took [%d.]+m?s: task%-clock"
    s:wait(function() return s:log():find(line) end)
    assert.matches('\nlua_perf_blocked_turns_total{route="/block/spin"} [1-9]', (s:get "/metrics"))
  end)
end)

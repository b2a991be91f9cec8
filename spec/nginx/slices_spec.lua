-- The pages serve other requests between two slices of work.
--
-- The story: with 100 routes and 4,000 places where requests wait, `?waits=` was made in one piece, which took 35 to 160 ms,
-- and `/metrics` had slices of 9 ms. Later both had a first slice of 5 to 15 ms, in which the worker wrote its own record. Then
-- the worker added up its 100 routes in one piece of 0.6 to 1.1 ms. And a profile of many stacks was made in one piece, and the
-- tables of a snapshot, which took 3 ms for a heap of 90 MB.
--
-- The work between two pauses is measured in instructions of Lua and in bytes that it allocates, which are the same on every
-- machine: 10,000 instructions take about 0.1 ms in the interpreter, and loops that are compiled are ten times faster.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local EVENT = "syscalls:sys_enter_getppid"
local MOST, MOST_BYTES = 35000, 600000 -- of a slice; the record of a worker's waits is a text of 350,000 bytes

-- measure(run) calls run(), which makes a page, and writes the instructions and bytes of each slice; begin() forgets those since
-- the last pause.
local MEASURE = [=[
  local slices = require "resty.perf.slices"
  local pausing, counts, n, bytes = slices.pausing, {}, 0, 0
  local function now() return collectgarbage "count" * 1024 end
  function begin() n, bytes = 0, now() end
  local function pause()
    counts[#counts + 1] = ("%d:%d"):format(n, now() - bytes)
    begin()
  end
  function measure(run)
    slices.pausing = function() return pause end
    jit.off()
    jit.flush()
    collectgarbage()
    collectgarbage "stop"
    debug.sethook(function() n = n + 100 end, "", 100)
    counts = {}
    begin()
    run()
    pause()
    debug.sethook()
    collectgarbage "restart"
    jit.on()
    slices.pausing = pausing
    ngx.say("\nslices ", table.concat(counts, " "))
  end ]=]

describe("resty.perf's pages", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  -- Checks each slice of a page, and returns how many there are.
  local function check(query, curl)
    local text, status = s:get("/measured?" .. query, curl)
    assert.equal(200, status, query)
    local n = 0
    for instructions, bytes in text:match "\nslices ([-%d: ]+)\n$":gmatch "(%d+):(-?%d+)" do -- "-": a rehash shrank a table
      n = n + 1
      assert.is_true(tonumber(instructions) < MOST and tonumber(bytes) < MOST_BYTES,
        ("%s, slice %d: %s instructions, %s bytes"):format(query, n, instructions, bytes))
    end
    return n
  end

  it("pause often, also with 100 routes and all rows of waits", function()
    s = server.start { init_worker = [=[
      perf.start{events='page-faults:u,task-clock', waits=true, blocked=0.001}
      local lines = {}
      for i = 1, 40 do lines[i] = "ngx.location.capture [[/sub]]" end
      local text = table.concat(lines, "\n")
      wait_often = assert(loadstring("return function()\n" .. text .. "\nend", "=places.lua"))() ]=] .. MEASURE,
      server = [[
      location = /sub { return 200 x; }
      location /route { content_by_lua_block { perf.content(function()
        perf.route("route " .. ngx.var.arg_name)
        wait_often()
        local to = os.clock() + 0.0015
        while os.clock() < to do end
        ngx.say "x" end) } }
      location /rows { content_by_lua_block { perf.waits() ngx.say(require "resty.perf.accounting".waits.rows) } }
      location = /measured { content_by_lua_block {
        measure(ngx.var.arg_metrics and perf.metrics or perf.status) } } ]] }
    -- Every row changes, and every route blocks the worker.
    local function change_all() util.shell(("curl -s 'http://127.0.0.1:%d/route?name=[1-99]'"):format(s.port)) end
    change_all()
    s:wait(function() return s:worker().known == 0 end)
    assert.is_true(tonumber((s:get "/rows")) > 3900)
    for _, query in ipairs { "metrics=1", "format=json", "waits=folded", "waits=flamegraph", "waits=pprof",
      "waits=speedscope" } do
      change_all()
      check(query)
    end
    assert.is_nil(s:log():find("[error]", 1, true))
  end)

  it("pause often, also for a profile of many stacks", function()
    requires { tracepoint = EVENT }
    s = server.start { user = "root", init_worker = [=[
      perf.start{events='page-faults:u'}
      local text = { "local spend = ..." }
      for i = 1, 500 do text[i + 1] = "do local function f() spend(1) return 1 end f() end" end
      spend_often = assert(loadstring(table.concat(text, "\n"), "@many.lua")) ]=] .. MEASURE, server = [[
      location = /measured { content_by_lua_block { measure(function()
        local work = ngx.thread.spawn(function()
          ngx.sleep(0.01)
          spend_often(app.spend)
          begin()
        end)
        perf.status()
        ngx.thread.wait(work)
      end) } } ]] }
    for _, form in ipairs { "flamegraph", "folded", "pprof", "speedscope" } do
      assert.is_true(check(("flame=%s&seconds=0.5&as=%s"):format(EVENT, form)) > 1500)
    end
    assert.is_nil(s:log():find("[error]", 1, true))
  end)

  -- See spec/live/heap/pieces_spec.lua for the pieces of the core's work.
  it("pause often, also for a snapshot", function()
    s = server.start { init_worker = "perf.start{events='page-faults:u'}" .. MEASURE,
      server = "location = /measured { content_by_lua_block { measure(perf.status) } }" }
    local text, status = s:get("/perf?do=snapshot", "-X POST")
    if status == 501 then return pending(text) end -- another LuaJIT
    for _, form in ipairs { "", "&as=json", "&as=html" } do
      assert.is_true(check("do=snapshot" .. form, "-X POST") > 100)
    end
  end)
end)

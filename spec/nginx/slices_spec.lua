-- The pages serve other requests between two slices of work.
--
-- The story: with 100 routes and 4,000 places where requests wait, `?waits=` was made in one piece, which took 35 to 160 ms, and
-- `/metrics` had slices of 9 ms; later both had a first slice of 5 to 15 ms, in which the worker wrote its own record. The work
-- between two pauses is measured in instructions of Lua, which are the same on every machine; 10,000 take about 0.1 ms in the
-- interpreter, and loops that are compiled are ten times faster.
local server = require "spec.nginx.server"
local util = require "spec.support.util"

describe("resty.perf's pages", function()
  local s

  before_each(function() requires(server.needs) end)
  after_each(server.stop)

  it("pause often, also with 100 routes and all rows of waits", function()
    s = server.start { init_worker = [=[
      perf.start{events='page-faults:u,task-clock', waits=true, blocked=0.001}
      local lines = {}
      for i = 1, 40 do lines[i] = "ngx.location.capture [[/sub]]" end
      wait_often = assert(loadstring("return function()\n" .. table.concat(lines, "\n") .. "\nend", "=places.lua"))()]=],
      server = [[
      location = /sub { return 200 x; }
      location /route { content_by_lua_block { perf.content(function()
        perf.route("route " .. ngx.var.arg_name)
        wait_often()
        local to = os.clock() + 0.0015
        while os.clock() < to do end
        ngx.say "x" end) } }
      location /rows { content_by_lua_block { perf.waits() ngx.say(require "resty.perf.accounting".waits.rows) } }
      location /instructions { content_by_lua_block {
        local slices, counts, n = require "resty.perf.slices", {}, 0
        local pausing = slices.pausing
        local function pause() counts[#counts + 1], n = n, 0 end
        slices.pausing = function() return pause end
        jit.off()
        jit.flush()
        debug.sethook(function() n = n + 100 end, "", 100)
        if ngx.var.arg_metrics then perf.metrics() else perf.status() end
        debug.sethook()
        jit.on()
        pause()
        slices.pausing = pausing
        table.sort(counts, function(a, b) return a > b end)
        ngx.say("\nslices ", table.concat(counts, " ", 1, math.min(5, #counts))) } }]] }
    -- Every row changes, and every route blocks the worker.
    local function change_all() util.shell(("curl -s 'http://127.0.0.1:%d/route?name=[1-99]'"):format(s.port)) end
    change_all()
    s:wait(function() return s:worker().known == 0 end)
    assert.is_true(tonumber((s:get "/rows")) > 3900)
    for _, query in ipairs { "metrics=1", "format=json", "waits=folded", "waits=flamegraph", "waits=pprof",
      "waits=speedscope" } do
      change_all()
      local text, status = s:get("/instructions?" .. query)
      assert.equal(200, status, query)
      local slices = {}
      for n in text:match "\nslices ([%d ]+)\n$":gmatch "%d+" do slices[#slices + 1] = tonumber(n) end
      -- A simple loop over all rows, or all routes, that sees one moment.
      assert.is_true(slices[1] < 300000, query .. ": " .. table.concat(slices, " "))
      assert.is_true(slices[2] < 60000, query .. ": " .. table.concat(slices, " "))
    end
    assert.is_nil(s:log():find("[error]", 1, true))
  end)
end)

-- make bench-nginx: the cost of resty.perf in a real nginx.
--
-- Three servers take turns: one without resty.perf, one that counts, and the floor: one whose handlers only make the necessary
-- readings, by FFI. All have the same events.
--
--   throughput   paired runs of wrk: a handler of about 100 us counted, and 1 of 100 counted, against none. A row is the median
--                of the pairs' ratios, with the least and the most of them. The worker's CPU time for a request, of the same
--                runs, says the same where other programs share the machine.
--   CPU time     of the worker (schedstat) for the same number of requests, more than without resty.perf: an empty handler, and a
--                yield (ngx.sleep(0)). Least and median of the rounds; beside it the floor's, and the share that is left.
--   synopsis     a hook in the content phase, `slow` and perf.log, as in the manual's synopsis, against none: for all requests
--                and for 1 of 100, with a handler that only answers, and with one that decodes JSON. Bare requests, counted ones
--                and those of the floor take turns in one worker, SLICE requests each time. So another program's load, the
--                memory and the compiled code are the same for all. The floor has an empty log phase, and readings if all
--                requests are counted. A row has the difference of the least slices, and the median of the turns' differences.
--   memory       Lua's heap and the process's resident pages before and after many requests.
--
--   ROUNDS=5 SECONDS=3 REQUESTS=30000 SLICES=60 SLICE=2000 MEMORY=1000000
package.path = "./?.lua;./lua/?.lua;./lua/?/init.lua;" .. package.path
local server = require "spec.nginx.server"
local stats = require "perf.bench.statistics"
local util = require "spec.support.util"

local YIELDS = 16 -- app.yields yields so many times

local function setting(name, default) return tonumber(os.getenv(name)) or default end
local rounds, seconds = setting("ROUNDS", 5), setting("SECONDS", 3)
local requests, memory = setting("REQUESTS", 30000), setting("MEMORY", 1000000)
local slices, slice = setting("SLICES", 60), setting("SLICE", 2000)

local function serve(init_worker, call, more, log)
  local handlers = ([[
    location /work { content_by_lua_block { @(app.work) } }
    location /empty { content_by_lua_block { @(app.empty) } }
    location /json { content_by_lua_block { @(app.json) } }
    location /yield { content_by_lua_block { @(app.yields) } }
    location /collect { content_by_lua_block { app.collect() } } ]]):gsub("@", call)
  return server.start { app = "bench.nginx_app", log = log or " ", init_worker = init_worker, server = handlers .. more }
end

-- A server with three locations for each handler: of bare requests, of counted ones and of the floor's.
local function alternate(opts, floor)
  local locations = {}
  for _, handler in ipairs { "empty", "json" } do
    for path, code in pairs { bare = { "app.call", "" }, counted = { "perf.content", "log_by_lua_block { perf.log() }" },
      floor = { floor, "log_by_lua_block { local nothing }" } } do
      locations[#locations + 1] = ("location /%s/%s { content_by_lua_block { %s(app.%s) } %s }"):format(path, handler, code[1],
        handler, code[2])
    end
  end
  return server.start { app = "bench.nginx_app", log = " ", init_worker = "app.open(true) perf.start" .. opts,
    server = table.concat(locations, "\n") }
end

local servers = {
  without = serve("", "app.call", ""),
  counted = serve("perf.start()", "perf.content", [[
    location /readings { content_by_lua_block { perf.content(app.readings) } } ]]),
  floor = serve("app.open()", "app.read_around", ""),
  synopsis = alternate("{slow = 0.5}", "app.read_around"),
  of_100 = alternate("{slow = 0.5, sample = 100}", "app.call"),
}
local s = servers.counted

local function cpu(which)
  return tonumber(util.read_file(("/proc/%d/schedstat"):format(servers[which]:workers()[1])):match "%d+")
end

-- Requests a second, and the worker's CPU time for each, in ns.
local function rate(which, path)
  local before = cpu(which)
  local text = servers[which]:wrk(path, 16, seconds)
  return tonumber(text:match "Requests/sec:%s+([%d.]+)"), (cpu(which) - before) / tonumber(text:match "(%d+) requests in")
end

local function sample(n)
  s:get("/perf?do=start&sample=" .. n, "-X POST")
end

local function percent(name, list, bar)
  local middle, least, most = stats.median(list), math.min(unpack(list)), math.max(unpack(list))
  print(("  %-32s %6.1f %%   (%.1f .. %.1f %%; bar %d %%)"):format(name, 100 * middle, 100 * least, 100 * most, bar))
end

local function ratio(name, bar)
  local by_rate, by_cpu = {}, {}
  for i = 1, rounds do
    local result = {}
    for k = 1, 2 do
      local which = (i + k) % 2 == 0 and "counted" or "without"
      result[which] = { rate(which, "/work") }
    end
    by_rate[i] = result.counted[1] / result.without[1]
    by_cpu[i] = result.without[2] / result.counted[2]
  end
  print(name)
  percent("requests a second", by_rate, bar)
  percent("by the worker's CPU time", by_cpu, bar)
end

local function each(which, path, n)
  n = n or requests
  local before = cpu(which)
  assert(servers[which]:load(path, n, 8) == n)
  return (cpu(which) - before) / n
end

-- The additional cost of a request, in ns: {least, median} of the rounds, of two servers; and its least cost without.
local function differences(path, which_counted, which_floor)
  local all = { without = {}, [which_counted] = {}, [which_floor] = {} }
  local more = { [which_counted] = {}, [which_floor] = {} }
  for i = 1, rounds do
    for which, list in pairs(all) do list[i] = each(which, path) end
    for which, list in pairs(more) do list[i] = all[which][i] - all.without[i] end
  end
  local least = {}
  for which, list in pairs(all) do least[which] = math.min(unpack(list)) end
  local function of(which) return { least[which] - least.without, stats.median(more[which]) } end
  return of(which_counted), of(which_floor), least.without
end

local function row(name, counted, floor, bar)
  print(("%-28s %5.2f %5.2f us   floor %5.2f %5.2f   own %5.2f %5.2f   bar %.1f"):format(name, counted[1] / 1e3, counted[2] / 1e3,
    floor[1] / 1e3, floor[2] / 1e3, (counted[1] - floor[1]) / 1e3, (counted[2] - floor[2]) / 1e3, bar))
end

print "Throughput against none counted, handler of about 100 us, 16 connections"
ratio("every request counted", 95)
sample(100)
ratio("1 of 100", 99)
sample(1)

print "\nCPU time of the worker, more than without resty.perf: least and median; the floor is two readings, nothing else"
print(("%-28s %5.2f us"):format("a reading, in a loop", tonumber((s:get "/readings":match "[%d.]+")) / 1e3))
local request, floor = differences("/empty", "counted", "floor")
row("a request without a yield", request, floor, 2.5)
local function a_yield(with, without)
  return { (with[1] - without[1]) / YIELDS, (with[2] - without[2]) / YIELDS }
end
local yields, yields_floor = differences("/yield", "counted", "floor")
row("a yield", a_yield(yields, request), a_yield(yields_floor, floor), 1.5)

-- Slices of requests in turns, in one worker. Returns by how much a counted request costs more than a bare one, the same for the
-- floor, and the ratio of bare to counted, each by the least slices and as the median of the turns; then the cost of a bare one.
local function turns(which, handler)
  local paths, times = { "bare", "counted", "floor" }, { bare = {}, counted = {}, floor = {} }
  for _, path in ipairs(paths) do each(which, "/" .. path .. "/" .. handler, 5 * slice) end
  for i = 1, slices do
    for k = 1, 3 do
      local path = paths[(i + k) % 3 + 1]
      times[path][i] = each(which, "/" .. path .. "/" .. handler, slice)
    end
  end
  local bare = math.min(unpack(times.bare))
  local function more(path)
    local list = {}
    for i, t in ipairs(times[path]) do list[i] = t - times.bare[i] end
    return { math.min(unpack(times[path])) - bare, stats.median(list) }
  end
  local rates = {}
  for i, t in ipairs(times.counted) do rates[i] = times.bare[i] / t end
  return more "counted", more "floor", { bare / math.min(unpack(times.counted)), stats.median(rates) }, bare
end

print(("\nThe synopsis's set-up, %d slices of %d requests in one worker: more CPU time than bare, and the rate"):format(
  slices, slice))
for _, handler in ipairs { "empty", "json" } do
  for _, which in ipairs { "synopsis", "of_100" } do
    local all, decodes = which == "synopsis", handler == "json"
    local more, least, rates, bare = turns(which, handler)
    row((decodes and "decodes JSON, " or "only answers, ") .. (all and "all" or "1 of 100"), more, least,
      not all and 0.2 or decodes and 2.5 or 2.2)
    print(("%-28s %5.3f %5.3f (bar %.2f); bare %.2f us"):format("  rate", rates[1], rates[2],
      not all and 0.99 or decodes and 0.96 or 0.85, bare / 1e3))
  end
end
local idle = cpu "synopsis"
util.execute "sleep 5"
print(("An idle worker that counts: %.0f us of CPU time a second"):format((cpu "synopsis" - idle) / 5e3))

print(("\nMemory, %d requests"):format(memory))
local function size()
  s:get "/collect"
  local rss = util.read_file(("/proc/%d/status"):format(s:workers()[1])):match "VmRSS:%s+(%d+)"
  return ("%d KiB of Lua, %d KiB resident"):format(s:worker().memory, rss)
end
s:load("/yield", math.min(memory, 20000), 32)
print(("%-34s %s"):format("before", size()))
s:load("/yield", memory, 32)
print(("%-34s %s"):format("after", size()))
for _, each_one in pairs(servers) do each_one:stop() end

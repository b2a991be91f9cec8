-- make bench-nginx: what resty.perf costs a real nginx.
--
--   throughput   paired runs of wrk, in turns: a handler of about 100 us without resty.perf, counted, and 1 of 100 counted.
--                A row is the median of the pairs' ratios, with the least and the most of them. The worker's CPU time for a
--                request, of the same runs, says the same where other programs share the machine.
--   CPU time     of the worker (schedstat) for the same number of requests, with the empty handler counted and not, with and
--                without yields; beside it what the readings alone cost there, by a loop within the worker.
--   memory       Lua's heap and the process's resident pages before and after many requests.
--
--   ROUNDS=5 SECONDS=3 REQUESTS=30000 MEMORY=1000000
package.path = "./?.lua;./lua/?.lua;./lua/?/init.lua;" .. package.path
local server = require "spec.nginx.server"
local util = require "spec.support.util"

local function setting(name, default) return tonumber(os.getenv(name)) or default end
local rounds, seconds = setting("ROUNDS", 5), setting("SECONDS", 3)
local requests, memory = setting("REQUESTS", 30000), setting("MEMORY", 1000000)

local handlers = [[
  location /@/work { content_by_lua_block { @(app.work) } }
  location /@/empty { content_by_lua_block { @(app.empty) } }
  location /@/yield { content_by_lua_block { @(app.yields) } }
]]

local counted = handlers:gsub("@%(", "perf.content("):gsub("@", "counted")
local plain = handlers:gsub("@%((.-)%)", "%1()"):gsub("@", "plain")
local s = server.start { app = "bench.nginx_app", init_worker = "perf.start()", server = counted .. plain .. [[
  location /readings { content_by_lua_block { perf.content(app.readings) } }
  location /collect { content_by_lua_block { app.collect() } } ]] }

local function median(list)
  table.sort(list)
  return list[math.floor(#list / 2) + 1]
end

local function cpu()
  return tonumber(util.read_file(("/proc/%d/schedstat"):format(s:workers()[1])):match "%d+")
end

-- Requests a second, and the worker's CPU time for each, in ns.
local function rate(path)
  local before = cpu()
  local text = s:wrk(path, 16, seconds)
  return tonumber(text:match "Requests/sec:%s+([%d.]+)"), (cpu() - before) / tonumber(text:match "(%d+) requests in")
end

local function sample(n)
  s:get("/perf?do=start&sample=" .. n, "-X POST")
end

local function percent(name, list, bar)
  local m = median(list)
  print(("  %-32s %6.1f %%   (%.1f .. %.1f %%; bar %d %%)"):format(name, 100 * m, 100 * list[1], 100 * list[#list], bar))
end

local function ratio(name, bar)
  local by_rate, by_cpu = {}, {}
  for i = 1, rounds do
    local result = {}
    for k = 1, 2 do
      local which = (i + k) % 2 == 0 and "counted" or "plain"
      result[which] = { rate("/" .. which .. "/work") }
    end
    by_rate[i] = result.counted[1] / result.plain[1]
    by_cpu[i] = result.plain[2] / result.counted[2]
  end
  print(name)
  percent("requests a second", by_rate, bar)
  percent("by the worker's CPU time", by_cpu, bar)
end

local function each(path)
  local before = cpu()
  s:load(path, requests, 8)
  return (cpu() - before) / requests
end

local function difference(path)
  local list = {}
  for i = 1, rounds do list[i] = each("/counted" .. path) - each("/plain" .. path) end
  return median(list)
end

print "Throughput against none counted, handler of about 100 us, 16 connections"
ratio("every request counted", 95)
sample(100)
ratio("1 of 100", 99)
sample(1)

print "\nCPU time of the worker"
local reading = tonumber((s:get "/readings":match "[%d.]+"))
local empty, yields = difference "/empty", difference "/yield"
print(("%-34s %5.2f us  (of which 2 readings at %.2f us: %.2f; bar 2.5)"):format("a request without a yield", empty / 1e3,
  reading / 1e3, 2 * reading / 1e3))
print(("%-34s %5.2f us  (of which 2 readings: %.2f; bar 1.5)"):format("a yield", (yields - empty) / 16 / 1e3, 2 * reading / 1e3))

print(("\nMemory, %d requests"):format(memory))
local function size()
  s:get "/collect"
  local rss = util.read_file(("/proc/%d/status"):format(s:workers()[1])):match "VmRSS:%s+(%d+)"
  return ("%d KiB of Lua, %d KiB resident"):format(s:worker().memory, rss)
end
s:load("/counted/yield", math.min(memory, 20000), 32)
print(("%-34s %s"):format("before", size()))
s:load("/counted/yield", memory, 32)
print(("%-34s %s"):format("after", size()))
s:stop()

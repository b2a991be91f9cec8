-- make bench-nginx: what resty.perf costs a real nginx.
--
--   throughput   paired runs of wrk, in turns: a handler of about 100 us without resty.perf, counted, and 1 of 100 counted.
--                A row is the median of the pairs' ratios, with the least and the most of them.
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

local function rate(path) return tonumber(s:wrk(path, 16, seconds):match "Requests/sec:%s+([%d.]+)") end

local function sample(n)
  s:get("/perf?do=start&sample=" .. n, "-X POST")
end

local function ratio(name, bar)
  local list, without, with = {}, {}, {}
  for i = 1, rounds do
    if i % 2 == 0 then with[i] = rate "/counted/work" end
    without[i] = rate "/plain/work"
    with[i] = with[i] or rate "/counted/work"
    list[i] = with[i] / without[i]
  end
  local m = median(list)
  local line = "%-34s %5.1f %%   (%.1f .. %.1f %%; %.0f of %.0f requests/s; bar %d %%)"
  print(line:format(name, 100 * m, 100 * list[1], 100 * list[#list], median(with), median(without), bar))
end

local function cpu()
  return tonumber(util.read_file(("/proc/%d/schedstat"):format(s:workers()[1])):match "%d+")
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

print "Throughput, handler of about 100 us, 16 connections"
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

--- The benchmark: runs the rows of bench/rows.lua with the contestants of bench/contestants.lua, prints a table, and writes
-- bench/results/DATE-HOST.json and bench/results/measure.svg. `make bench` builds everything and runs it on one CPU.
--
-- For each row every contestant gets a separate process, which opens only the row's events. Samples are taken in rounds: each
-- round takes one of every contestant, in an order that is shuffled again, after a shorter one that is discarded and warms the
-- caches. The output is the minimum and the median over all rounds, for one repetition.
--
--   BENCH_ROUNDS=31     rounds of a row, unless it says fewer
--   BENCH_ROWS=PATTERN  only rows whose id matches
--   BENCH_ONLY=a,b      only these contestants, by id
--   BENCH_WRITE=0       write no results; 1: write them, though only a part was run
package.path = "./?.lua;./lua/?.lua;./lua/?/init.lua;" .. package.path
local Child = require "bench.child"
local contestants = require "bench.contestants"
local machine = require "bench.machine"
local report = require "bench.report"

local build = os.getenv "BUILD" or "build"
local rounds_wanted = tonumber(os.getenv "BENCH_ROUNDS") or 31
local dir = build .. "/bench/run"
os.execute("mkdir -p '" .. dir .. "'")
math.randomseed(os.time())

local function shuffle(t)
  for i = #t, 2, -1 do
    local k = math.random(i)
    t[i], t[k] = t[k], t[i]
  end
end

local function summary(samples, n)
  table.sort(samples)
  local m = #samples
  local median = m % 2 == 1 and samples[(m + 1) / 2] or (samples[m / 2] + samples[m / 2 + 1]) / 2
  return { min = samples[1] / n, median = median / n, rounds = m }
end

-- The row's events as the groups for floor.c, or nil and the reason.
local known = {}
local function groups_of(events)
  if not events then return nil end
  if known[events] == nil then
    local lua = os.getenv "BENCH_RUN" or "luajit"
    local p = io.popen(("env LUA_PATH='lua/?.lua;lua/?/init.lua' LUA_CPATH='%s/%s/?.so;;' %s bench/groups.lua '%s' 2>&1")
      :format(build, lua, lua, events))
    known[events] = p:read "*l" or ""
    p:close()
  end
  if not known[events]:match "^%d+:%d" then return nil, known[events] end
  return known[events]
end

local function wanted(id, list)
  if not list then return true end
  for name in list:gmatch "[^,]+" do
    if name == id then return true end
  end
  return false
end

-- One row: {results = {[contestant id] = {min, median, rounds}}, missing = {[id] = why}}.
local function run_row(row, all)
  local running, out = {}, { id = row.id, results = {}, missing = {} }
  local groups, why = groups_of(row.events)
  for _, c in ipairs(all) do
    local child
    if c.why then
      why = c.why
    elseif row.events and not groups then
      child = nil
    else
      child, why = Child.start(dir, row.id .. "-" .. c.id, c.command(row.id, groups))
    end
    if child then
      running[#running + 1] = { id = c.id, child = child, samples = {} }
    else
      out.missing[c.id] = why
    end
  end
  for round = 0, row.rounds and math.min(row.rounds, rounds_wanted) or rounds_wanted do
    shuffle(running)
    for i = #running, 1, -1 do
      local r = running[i]
      local value, failure
      if row.n > 1 then value, failure = r.child:sample(math.ceil(row.n / 4)) else value = 0 end
      if value then value, failure = r.child:sample(row.n) end
      if not value then
        out.missing[r.id] = failure
        r.child:stop()
        table.remove(running, i)
      elseif round > 0 then -- the first is for the compiler
        r.samples[#r.samples + 1] = value
      end
    end
  end
  for _, r in ipairs(running) do
    r.child:stop()
    out.results[r.id] = summary(r.samples, row.n)
  end
  return out
end

local all = {}
for _, c in ipairs(contestants.all(build)) do
  if c.id == "floor" or wanted(c.id, os.getenv "BENCH_ONLY") then all[#all + 1] = c end
end
local host = machine.describe(build)
report.head(host, all)
local done = {}
for _, row in ipairs(require "bench.rows") do
  if row.id:find(os.getenv "BENCH_ROWS" or "") then
    local result = run_row(row, all)
    done[#done + 1] = { row = row, result = result }
    report.row(row, result, all)
  end
end
report.foot(done, all)
local part = os.getenv "BENCH_ROWS" or os.getenv "BENCH_ONLY"
if (os.getenv "BENCH_WRITE" or (part and "0" or "1")) ~= "0" then report.write(host, done, all) end
os.execute("rmdir '" .. dir .. "' 2>/dev/null")

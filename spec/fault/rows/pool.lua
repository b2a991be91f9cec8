--- Rows of threads. See inject.lua.
local perf = require "perf"
require "perf.names" -- loaded now, since a pool loads it only if the list of events was not measured before

local rows, row, method = require "spec.fault.list"()

-- One thread, which is idle while this one continues: only one of them at a time makes the failing calls.
local function pool() return perf.pool { size = 1, cpus = false, events = "page-faults:u" } end
local function add(a, b) return a + b end

row("perf.pool", { run = pool,
  survives = "perf_event_open" }) -- a list that cannot be opened again is opened like a new list
local function opened() return assert(pool()) end
method("Pool", opened, {
  close = { run = function(p) return p:close() end, again = false },
  stats = function(p) return p:stats() end,
  submit = { raises = true, survives = "read ioctl", run = function(p) return p:submit(add, 1, 2):get(), p:stats() end },
})
local function job()
  local p = opened()
  local j = assert(p:submit(add, 1, 2))
  j.close = function() p:close() end
  return j
end
method("Job", job, {
  cancel = function(j) return j:cancel() ~= nil end,
  counts = function(j) return j:wait() and j:counts() end,
  get = function(j) return j:get() end,
  wait = function(j) return j:wait(30) end,
})

return rows

--- Rows of snapshots of the heap. See inject.lua.
local perf = require "perf"

local rows, row, method = require "spec.fault.list"()

-- The places of the interpreter's structures are learned once, with memory of other states.
local function take() return perf.heap { collect = true } end
local out
local function taken()
  out = out or os.tmpname()
  return assert(take())
end
local NEEDS = { heap = true }
local kept = {}

row("perf.heap", { needs = NEEDS, run = take, codes = { mmap = "any", mremap = "any" } })
row("perf.heap (fork)", { needs = NEEDS, run = function()
  local h, message, code = perf.heap { fork = true }
  if not h then return nil, message, code end
  local ok
  ok, message, code = h:wait()
  if not ok then return nil, message, code end
  return h
end, codes = { mmap = "any", mremap = "any", pread = "ECHILD" }, survives = "waitpid kill mremap" })
method("Heap", taken, {
  wait = function(h) return h:wait() end,
  types = function(h) return h:types() end,
  paths = function(h) return h:paths() end,
  who = function(h) return h:who(kept) end,
  diff = function(h) return h:diff(h) end,
  html = function(h) return h:html() end,
  totable = function(h) return h:totable() end,
  json = function(h) return h:json() end,
  save = { run = function(h) return h:save(out .. ".txt") end, survives = "open:ENOENT" }, -- it does not exist yet
  close = function(h) return h:close() end,
}, NEEDS)

return rows

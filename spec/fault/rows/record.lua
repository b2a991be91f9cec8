--- Rows of rings and records: the reading methods of Event, Group and Set, and Record. See inject.lua.
local core = require "perf.core"
local kit = require "testkit"
local perf = require "perf"

local rows, row, method = require "spec.fault.list"()

local sampled = { event = "page-faults:u", sample_period = 1, sample_type = { "addr", "time", "identifier" } }

local function event() return assert(perf.open(sampled)) end

-- An event that runs, with a ring and a few records in it: each run of a row makes more.
local function ringed()
  local ev = event()
  assert(ev:map { pages = 8 })
  assert(ev:enable())
  return ev
end
local function touch(ev)
  kit.touch_pages(4)
  return ev
end

-- The number of records that an iterator gives.
local function count(...)
  local n = 0
  for _ in ... do n = n + 1 end
  return n
end

method("Event", ringed, {
  map = { run = function(ev) return ev:map { pages = 8 } end, setup = event, again = false,
    survives = "mmap" }, -- fewer pages if the allowance is too small
  drain = function(ev) return touch(ev):drain() end,
  has_record = function(ev) return touch(ev):has_record() end,
  kernel_attr = function(ev) return ev:kernel_attr() end,
  format = function(ev) return ev:format() end,
  ring_loss = { run = function(ev) return (ev:ring_loss()()) end, survives = "read" }, -- it counts as lost
  woken = function(ev) return not ev:woken() end,
  lost = { run = function(ev) return ev:lost() end, survives = "read" }, -- it reports that it is a lower bound
  wake = function(ev) return ev:wake() end,
  wake_fd = function(ev) return ev:wake_fd() end,
  pause_output = function(ev) return ev:pause_output() end,
  poll = function(ev) return touch(ev):poll(0) end,
  read_aux = function(ev) return select(2, pcall(ev.read_aux, ev, 0, 1)) end, -- no machine of ours has one
  read_raw = function(ev) return touch(ev):read_raw(0) end,
  read_record = function(ev) return touch(ev):read_record(0) end,
  records = { run = function(ev) return count(touch(ev):records { timeout = 0 }) end,
    survives = "poll" }, -- an iterator ends
  resume_output = function(ev) return ev:resume_output() end,
  set_output = { run = function(pair) return pair[2]:set_output(pair[1]) end,
    setup = function()
      local pair = { ringed(), event() }
      pair.close = function()
        pair[2]:close()
        pair[1]:close()
      end
      return pair
    end },
})

local function group()
  local g = assert(perf.group { sampled, "dummy:u" })
  assert(g:map { pages = 8 })
  assert(g:enable())
  return g
end
method("Group", group, {
  map = { run = function(g) return g:map { pages = 8 } end, again = false, survives = "mmap",
    setup = function() return assert(perf.group { sampled, "dummy:u" }) end },
  has_record = function(g) return touch(g):has_record() end,
  poll = function(g) return touch(g):poll(0) end,
  read_record = function(g) return touch(g):read_record(0) end,
  records = { run = function(g) return count(touch(g):records { timeout = 0 }) end, survives = "poll" },
  lost = { run = function(g) return g:lost() end, survives = "read ioctl" }, -- it reports that it is a lower bound
  wake = function(g) return g:wake() end,
  wake_fd = function(g) return g:wake_fd() end,
})

local function set()
  local s = assert(perf.set(sampled, { cpus = { kit.cpus()[1] }, deferred_enable = true, pid = kit.getpid() }))
  assert(s:map { pages = 8 })
  assert(s:enable())
  kit.pin(kit.cpus()[1])
  return s
end
method("Set", set, {
  map = { run = function(s) return s:map { pages = 8 } end, again = false, survives = "mmap",
    setup = function() return assert(perf.set(sampled, { cpus = { 0 } })) end },
  has_record = function(s) return touch(s):has_record() end,
  poll = function(s) return touch(s):poll(0) end,
  read_record = function(s) return touch(s):read_record(0) end,
  records = { run = function(s) return count(touch(s):records { timeout = 0 }) end, survives = "poll" },
  lost = { run = function(s) return s:lost() end, survives = "read" }, -- it reports that it is a lower bound
  wake = function(s) return s:wake() end,
  wake_fd = function(s) return s:wake_fd() end,
})

local function record()
  local ev = touch(ringed())
  local rec = assert(ev:read_record(0))
  ev:close()
  return rec
end
method("Record", record, {
  bytes = function(rec) return rec:bytes() end,
  info = function(rec) return rec:info() end,
  totable = function(rec) return rec:totable() end,
  ["(a field)"] = function(rec) return rec.addr end,
})

-- Bytes from a string, decoded by the layout of an attr.
row("core.layouts", { run = function()
  local ls = core.layouts()
  ls:add { type = 1, config = 2, sample_type = { "addr" } }
  return ls:record("\9\0\0\0\2\0\16\0" .. ("\1"):rep(8)).type
end })

return rows

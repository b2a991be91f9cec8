--- Rows of resty.perf, which needs LuaJIT, in a simulated nginx. See inject.lua.
local clock = require "perf.base.clock"
local core = require "perf.core"
local meter = require "perf.measure.open_list"
local names = require "perf.names"
local nginx = require "spec.support.nginx"
local perf = require "perf"

local rows, row, method = require "spec.fault.list"()
local luajit = { lua = "luajit" }

-- If a request cannot be counted, the site still works.
local serves = "read ioctl perf_event_open"

local options = { events = "page-faults:u,task-clock", slow = 0.1 }

local function host()
  local h = nginx.new()
  h:load()
  h:run(h.perf.install) -- as in init_by_lua: it loads modules, which needs descriptors
  function h.close()
    h:run(h.fire, h)
    h:run(h.perf.stop)
  end
  return h
end
local function starts(opts)
  return function()
    local h = host()
    assert(h:run(h.perf.start, opts))
    return h
  end
end
local started = starts(options)
-- With the watcher's thread, whose own system calls are open and pread: without them it takes no stacks.
local watched = starts { events = "page-faults:u,task-clock", waits = true, blocked = 0.002 }

-- Functions of resty.perf in a worker that counts.
local list = {}
for _, name in ipairs { "server_rewrite", "set", "rewrite", "access", "content", "balancer", "header_filter", "body_filter",
  "log", "ssl_client_hello", "ssl_certificate", "ssl_session_fetch", "ssl_session_store", "exit_worker" } do
  list[name] = { survives = serves, run = function(h)
    local result = h:run(h.perf[name], function() return "served" end)
    h:run(h.perf.log)
    return result
  end }
end
for _, name in ipairs { "install", "state", "status", "metrics" } do
  list[name] = { survives = serves, run = function(h) return h:run(h.perf[name]) end }
end
list.request = { survives = serves, run = function(h)
  return h:run(h.perf.content, function() return h.perf.request() or true end), h:run(h.perf.log)
end }
list.route = { survives = serves, run = function(h)
  return h:run(h.perf.content, function() return h.perf.route "another" ~= nil end), h:run(h.perf.log)
end }
list.span = { survives = serves, run = function(h)
  return h:run(h.perf.content, function() return h.perf.span() == nil end), h:run(h.perf.log)
end }
list.worker = { survives = serves, run = function(h) return h:run(h.perf.worker) end }
list.totals = { survives = serves, run = function(h) return h:run(h.perf.totals) end }
list.waits = { setup = watched, survives = serves, run = function(h)
  return h:run(h.perf.content, function() return "served" end), h:run(h.perf.log), h:run(h.perf.waits)
end }
list.wait_profile = { setup = watched, survives = serves, run = function(h)
  return h:run(h.perf.content, function() return "served" end), h:run(h.perf.log), h:run(h.perf.wait_profile)
end }
-- As for Profiler:live: without these calls some names are missing.
list.live_heap = { setup = starts { events = "page-faults:u", heap = 4096 }, needs = { lua = "luajit", registers = true },
  codes = { mmap = "any" },
  survives = serves .. " open fstat mmap", run = function(h)
    return h:run(h.perf.content, function() return "served" end), h:run(h.perf.live_heap)
  end }
list.blocked = { setup = watched, survives = serves .. " open pread", run = function(h)
  local served = h:run(h.perf.content, function()
    local to = clock.now() + 5e6
    repeat until clock.now() > to
    return "served"
  end)
  h:run(h.perf.log)
  return served, h:run(h.perf.blocked)
end }
list.profile = { survives = "mmap perf_event_open open fstat read", codes = { mmap = "any" }, again = false, run = function(h)
  return h:run(h.perf.profile, "page-faults:u", 0.1)
end }
list.start = { setup = host, survives = "perf_event_open", again = false, run = function(h)
  return h:run(h.perf.start, options)
end }
list.stop = { run = function(h) return h:run(h.perf.stop) end, survives = serves, again = false }
for name, t in pairs(list) do
  t.setup, t.needs = t.setup or started, t.needs or luajit
  row("resty.perf." .. name, t)
end

row("a start with a watcher", { setup = host, needs = luajit, survives = "open pread mmap munmap perf_event_open", again = false,
  run = function(h) return h:run(h.perf.start, { events = "page-faults:u", waits = true, blocked = 0.002 }) end })

-- The old events go on counting until the new ones are open.
row("other events while it counts", { setup = started, needs = luajit, again = false, survives = "read ioctl", run = function(h)
  local ok, message, code = h:run(h.perf.start, { events = "page-faults:u" })
  assert(ok or h:run(h.perf.worker), "it no longer counts")
  return ok, message, code
end })

row("a request with a span", { needs = luajit, survives = serves, run = function(h)
  return h:run(function()
    local ok = h.perf.content(function() return h.perf.span() ~= nil end)
    h.perf.log()
    return ok
  end)
end, setup = function()
  local h = host()
  local tracer = perf.tracer { service = "shop", exporter = false, events = false }
  assert(h:run(h.perf.start, { events = "page-faults:u", spans = tracer }))
  return h
end })

-- The C class of the accounting, which every interpreter has.
local function accounting()
  local set, message, code = meter.open { assert(names.resolve "page-faults:u") }
  if not set then return nil, message, code end
  local l
  l, message, code = core.accounting(set.meter, 4, 4, 0)
  for _, group in ipairs(set.groups) do group:close() end
  if not l then return nil, message, code end
  return l
end
row("core.accounting", { run = accounting, survives = "perf_event_open" })
method("Accounting", accounting, {
  close = function(l) return l:close() end,
})

return rows

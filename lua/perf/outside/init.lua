-- Profiles another process that runs Lua, without stopping it and without its help.
--
-- An event on each of its threads, which its new threads and children inherit, runs a BPF program at each sample. The program
-- copies registers and stacks into a ring, and a thread of this process unwinds them: see csrc/bpf/outside, csrc/core/outside.
local core = require "perf.core"
local copy = require "perf.base.copy"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local open = require "perf.event.open"
local seen = require "perf.outside.seen"
local threads = require "perf.event.threads"

local M = {}
local Session = {}
Session.__index = Session

local RING = 2 ^ 25 -- bytes, as in csrc/bpf/outside/pieces.h
local SAMPLES, DROPPED, NS, OFF, DROPPED_WEIGHT = 0, 1, 2, 3, 4 -- enum pf_snapshot_count

-- The program for an event: its name ends in the kind of the event.
local function program_name(kind)
  local name = rawget(_G, "jit") and "luajit" or "puc"
  return kind and name .. "_" .. kind or name
end

-- The BPF program; or nil, message, code.
local function load_program(name, opts)
  local have, ext = pcall(late, "perf.ext.outside")
  if not have and not tostring(ext):find("not found", 1, true) then error(ext, 0) end
  if not have then
    return nil, "other processes: not built (clang or libbpf's headers were missing: apt-get install clang libbpf-dev, "
      .. "then make)", "ENOTSUP"
  end
  local layout, global, code = core.snapshot_layout(not opts.alone, opts.native)
  if not layout then return nil, "other processes: this interpreter's structures are not known: " .. global, code end
  local obj, message
  local cpus = host.cpus "possible" or { 0 }
  obj, message, code = late "perf.bpf.load".load("other processes", { globals = { layout = layout },
    max_entries = { scratches = cpus[#cpus] + 1 }, programs = { name } }, ext.program())
  if not obj then
    if code == "EINVAL" then message = message .. "\n(other processes are profiled from Linux 5.17 on)" end
    return nil, message, code
  end
  return obj, global
end

-- Why no Lua state was found in a process.
local function no_state(pid)
  local found, program = seen.interpreter(pid)
  local name = ("process %d%s"):format(pid, program and " (" .. program .. ")" or "")
  if found and found ~= seen.own() then
    return nil, ("%s runs %s: profile it with that interpreter (LUA=%s luaperf ...)"):format(name, found, found), "ENOTSUP"
  elseif found then
    return nil, ("%s has %s, but no Lua state like those of this interpreter was found in its memory: it has made none yet, "
      .. "or is another build"):format(name, found), "ENOTSUP"
  end
  return nil, name .. " runs no Lua: no Lua state was found in its memory", "ENOTSUP"
end

-- Find the Lua states of a process and of its children, one of which must have some. known: the numbers of states, by process.
local function attach(collector, pid, known)
  local states, message, code = known[pid], nil, nil
  if not states then states, message, code = collector:attach(pid) end
  known[pid] = states
  for _, child in ipairs(states and host.descendants(pid) or {}) do
    known[child] = known[child] or collector:attach(child) or 0
    states = states + known[child]
  end
  if states and states > 0 then return true end
  -- A thread of the kernel has no memory (ESRCH), but is a process.
  local gone = code == "ESRCH"
  if (states or gone) and host.is_running(pid) then return no_state(pid) end
  if states or gone then return nil, ("no process %d"):format(pid), "ESRCH" end
  if code == "E2BIG" then
    message = "process %d: too many places in its memory look like a Lua state and are none, so the search was ended"
    return nil, message:format(pid), code
  end
  if code == "EPERM" or code == "EACCES" then message = late "perf.outside.access".refusal(pid) end
  return nil, message, code
end

-- Open the event that has a tracepoint's program. It is not one of those that count: they are inherited, and the kernel detaches
-- the program of such an event when the first child ends.
local function open_carrier(self, spec, attr)
  if self.kind == "switch" then
    local found, message, code = late "perf.names".resolve "sched:sched_switch"
    if not found then return nil, message, code end
    spec, attr = found, found.attrs[1]
  elseif self.kind ~= "tracepoint" then
    return true
  end
  attr = copy(attr)
  attr.inherit, attr.disabled, attr.sample_period = nil, true, nil
  local ev, message, code = open.attr(spec, attr, {})
  self.carrier = ev
  if not ev then return nil, message, code end
  return ev:set_bpf(self.program)
end

-- Whether a further event needs the program: the one of a kprobe runs it for every task, the one of a uprobe for its process.
local function needs_program(self, attr, tid, have)
  if self.kind ~= "probe" then return self.kind ~= "tracepoint" end
  local tasks = attr.uprobe_path and (host.status(tid) or {}).Tgid or "all"
  if have[tasks] then return false end
  have[tasks] = true
  return true
end

-- The event of a thread. The session is an argument, not an upvalue: LuaJIT's compiled code may keep a function for good, and
-- would keep with it a session that the program has dropped.
local function open_event(tid, opened, state)
  local self, attr = state.session, state.attr
  local ev, message, code = open.attr(state.spec, attr, { pid = tid })
  if #opened == 0 then state.have = {} end
  if not ev or not needs_program(self, attr, tid, state.have) then return ev, message, code end
  local ok
  ok, message, code = ev:set_bpf(self.program)
  if ok then return ev end
  ev:close()
  return nil, message, code
end

-- The events of all threads of processes and of their children.
local function open_events(self, spec, attr, pids)
  if self.kind == "switch" then return true end
  local state = { session = self, spec = spec, attr = attr }
  local events, message, code = threads.open(pids, true, open_event, state)
  self.events = events or {}
  return events ~= nil, message, code
end

-- The message of a refusal to load the program, with what this process will need next.
local function with_access(message, pids)
  for _, pid in ipairs(pids) do
    local lacks = late "perf.outside.access".lacks(pid)
    if lacks then return message .. "\n" .. lacks end
  end
  return message
end

local function make(self, spec, attr, pids, opts)
  local name = program_name(opts.kind)
  local obj, global, code = load_program(name, opts)
  if not obj then return nil, code == "EPERM" and with_access(global, pids) or global, code end
  self.obj, self.global = obj, global
  self.interpreters = {}
  for _, pid in ipairs(opts.native and pids or {}) do
    local _, _, path = seen.interpreter(pid)
    if path then self.interpreters[path] = true end
  end
  local message
  local maps = {}
  for _, map in ipairs { "ring", "processes", "known", "stacks", "generations", "counts", "switches" } do
    maps[map] = obj:map(map):fd()
  end
  self.collector, message, code = core.collector(maps, RING, #obj:map "counts":get(SAMPLES), opts.alone, opts.native)
  if not self.collector then return nil, message, code end
  local ok
  local known = {}
  for _, pid in ipairs(pids) do
    ok, message, code = attach(self.collector, pid, known)
    if not ok then return nil, message, code end
  end
  self.program = obj:program(name)
  ok, message, code = open_carrier(self, spec, attr)
  if not ok then return nil, message, code end
  return open_events(self, spec, attr, pids)
end

-- Prepare to profile processes.
-- @tab spec {label =, unit =, scale =}
-- @tab attr of the event, with its period or frequency
-- @tab pids
-- @tab opts `alone`: a coroutine is shown without its resumers; `native`: with C and kernel functions; `kind`: "tracepoint";
-- "probe"; "switch", whose weight is the time off the CPU; nil for other events
-- @return an object with the methods of core.profiler; or nil, message, code
function M.open(spec, attr, pids, opts)
  local self = setmetatable({ events = {}, kind = opts.kind }, Session)
  attr = copy(attr)
  attr.disabled, attr.inherit, attr.read_format, attr.sample_type = true, true, {}, nil
  if self.kind then attr.sample_period = nil end -- it only counts: the program, which runs for all tasks, takes the samples
  -- When a thread forks, the kernel would read the name of an inherited probe again, from that thread's memory. The name is not
  -- there, and the fork would fail.
  if opts.kind == "probe" then attr.inherit = nil end
  local ok, message, code = make(self, spec, attr, pids, opts)
  if ok then return self end
  self:close()
  return nil, message, code
end

function Session:start()
  local ok, message, code = self.collector:start()
  if not ok then return nil, message, code end
  self.began = core.unix_time()
  for _, ev in ipairs(self.events) do
    ok, message, code = ev:enable()
    if not ok then
      self:stop()
      return nil, message, code
    end
  end
  if self.kind then self.obj:set_global("active", 1) end
  return true
end

function Session:stop()
  if self.collector:state() ~= "running" then return true end
  if self.kind then self.obj:set_global("active", 0) end
  for _, ev in ipairs(self.events) do ev:disable() end
  self.ended = core.unix_time()
  self.collector:stop()
  return true
end

function Session:state() return self.collector and self.collector:state() or "closed" end

local function sum(obj, which)
  local n = 0
  for _, v in ipairs(obj:map "counts":get(which)) do n = n + v end
  return n
end

-- The fields of a result that the collector does not know.
-- @param[opt] total, samples what was counted of the event, and how many samples were taken; nil: what the samples tell
local function complete(self, r, total, samples)
  total = math.max(total or 0, r.sum + r.dropped_weight + sum(self.obj, DROPPED_WEIGHT))
  r.total, r.unsampled = total, total - r.sum + r.unsampled
  r.lost = sum(self.obj, DROPPED) + r.dropped
  r.accounting = { samples = samples or r.samples + r.lost, resolved = r.resolved, labelled = r.samples - r.resolved,
    dropped = r.lost, bpf_ns = sum(self.obj, NS), ns = r.ns }
  r.duration_ns = math.floor(((self.ended or core.unix_time()) - self.began) * 1e9)
  r.global, r.interpreters = self.global, self.interpreters
  return r
end

-- The result, as that of core.profiler. The event's count beyond the weight of the samples is unsampled, including the count of
-- samples that were lost because the ring had no room for them.
function Session:result()
  local r = self.collector:result()
  local total = 0
  if self.kind == "switch" then total = sum(self.obj, OFF) + r.off_ns end
  for _, ev in ipairs(self.events) do
    local found = ev:scan()
    total = total + (found and found[1] and found[1].value or 0)
  end
  return complete(self, r, total, sum(self.obj, SAMPLES))
end

-- The result so far, without what the threads have counted since their last samples. Samples may have come meanwhile.
function Session:snapshot() return complete(self, self.collector:snapshot()) end

function Session:close()
  for _, ev in ipairs(self.events) do ev:close() end
  if self.carrier then self.carrier:close() end
  self.events = {}
  if self.collector then self.collector:close() end
  if self.obj then self.obj:close() end
  self.collector, self.obj, self.carrier = nil, nil, nil
end

return M

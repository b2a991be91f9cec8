-- Loads profiles from a perf.data file: its samples with their call chains. Names come from the symbols of the mapped files, from
-- JIT maps that still exist, and from this machine's kernel if it is the recorded one.
--
-- Records are nearly in time order. For a process we use the maps that it has at the end of the file, which is only wrong for
-- samples of a process that ran another program before.
local core = require "perf.core"
local late = require "perf.base.late"
local pairs_of = require "perf.base.pairs"
local host = require "perf.kernel.host"
local jitmap = require "perf.symbols.jitmap"
local lua_frame = require "perf.profile.lua_frame"
local memo = require "perf.base.memo"
local merged = require "perf.profile.merged"
local printed = require "perf.base.printed"
local u64 = require "perf.base.u64"
local Profile = require "perf.profile.profile"

local M = {}

local tells = {}

local KERNEL = "^%[kernel%.kallsyms%]"

function tells.mmap(reader, rec)
  if rec.build_id and rec.filename:find(KERNEL) then reader.kernel_id = rec.build_id end
  if rec.filename:sub(1, 1) ~= "[" and rec.pid >= 0 then
    local maps = reader.processes[rec.pid].maps
    maps[#maps + 1] = { addr = rec.addr, len = rec.len, pgoff = rec.pgoff, filename = rec.filename,
      build_id = rec.build_id }
  end
end
tells.mmap2 = tells.mmap

function tells.comm(reader, rec)
  local p = reader.processes[rec.pid]
  if rec.pid == rec.tid or not p.comm then p.comm = rec.comm end
  if rec.exec then p.maps = {} end
end

function tells.fork(reader, rec)
  if rec.pid == rec.ppid then return end
  local from, to = reader.processes[rec.ppid], reader.processes[rec.pid]
  to.comm = to.comm or from.comm
  if #to.maps == 0 then
    for i, map in ipairs(from.maps) do to.maps[i] = map end
  end
end

function tells.lost_samples(reader, rec)
  local label = rec.event or "samples"
  reader.lost_of[label] = (reader.lost_of[label] or 0) + core.halves(rec.lost or 0)
end

-- The number of lost samples of one event, if the file has it by event; otherwise of all events.
local function lost_of(reader, label)
  if next(reader.lost_of) then return reader.lost_of[label] or 0 end
  return reader.lost
end

function tells.sample(reader, rec)
  local chain, addrs = rec.callchain, {}
  for _, addr in ipairs(chain or {}) do
    local low, high = core.halves(addr)
    -- The last 4095 addresses are context markers.
    if high ~= 4294967295 or low <= 4294963200 then addrs[#addrs + 1] = addr end
  end
  if #addrs == 0 then addrs[1] = rec.ip end
  local label = rec.event or "samples"
  local event = reader.events[label]
  local parts = { rec.pid or 0 }
  for i, addr in ipairs(addrs) do parts[i + 1] = core.hex(addr) end
  local key = table.concat(parts, ",")
  local stack = event.stacks[key]
  if not stack then
    stack = { pid = rec.pid or 0, addrs = addrs, weight = 0, count = 0 }
    event.stacks[key], event.list[#event.list + 1] = stack, stack
  end
  local period = tonumber(rec.period) or reader.period[label] or 1
  stack.weight, stack.count = stack.weight + period, stack.count + 1
  event.total, event.count = event.total + period, event.count + 1
  if rec.time then
    local time = tonumber(rec.time)
    reader.first, reader.last = math.min(reader.first or time, time), math.max(reader.last or time, time)
  end
end

-- A resolver for the addresses of a process, if perf.symbols is built.
local function resolver_of(p, symbols, kernel)
  if p.resolver == nil then
    local files = {}
    for _, map in ipairs(p.maps) do
      if not map.filename:find "^//" then files[#files + 1] = map end
    end
    p.resolver = symbols and symbols.open { maps = files, kernel = kernel or false } or false
  end
  return p.resolver
end

local function mapped(p, addr)
  for i = #p.maps, 1, -1 do
    local map = p.maps[i]
    local offset = u64.distance(addr, map.addr)
    if offset >= 0 and offset < tonumber(map.len) then return map end
  end
end

-- The frame of an address; addresses of one symbol in one process share a frame.
local function frame_of(reader, pid, addr, called)
  local p = reader.processes[pid]
  local key = core.hex(addr) .. (called and "+" or "")
  local frame = p.frames[key]
  if frame then return frame end
  local kernel = u64.is_kernel(addr)
  local resolver = resolver_of(p, reader.symbols, reader.kernel)
  local found = resolver and resolver:resolve(addr, called)
  local map = not kernel and not (found and found.symbol) and mapped(p, addr)
  local name, kind = found and found.symbol, kernel and "kernel" or "native"
  local module = found and found.module or kernel and "[kernel.kallsyms]" or nil
  if map and not name then
    module = map.filename
    if reader.symbols and module:find "^//anon" then name = reader.jit[pid]:find(addr) end
    kind = name and "jit" or kind
  end
  local base = module and module:match "[^/]+$" or "unknown"
  name = name or base:find "^%[" and base or "[" .. base .. "]"
  local same = table.concat({ name, kind, module or "" }, "\0")
  frame = p.frames[same]
  if not frame then
    local ours = module and module:find "%.symbols$" -- written by perf.profile.report.perf_data
    frame = ours and lua_frame.parse(name)
      or printed.table { name = name, func = name, kind = kind, module = module, address = addr }
    p.frames[same] = frame
  end
  p.frames[key] = frame
  return frame
end

local function profile_of(reader, event, file, pause)
  local list, pids, comm = {}, {}, nil
  for n, s in ipairs(event.list) do
    if pause then pause() end
    list[n] = { stack = {}, weight = s.weight, count = s.count }
    for i, addr in ipairs(s.addrs) do list[n].stack[i] = frame_of(reader, s.pid, addr, i > 1) end
    comm, pids[s.pid] = comm or reader.processes[s.pid].comm, true
  end
  list = merged(list)
  table.sort(list, function(a, b) return a.weight > b.weight end)
  local first = next(pids)
  local alone = first and next(pids, first) == nil
  local base = event.label:gsub(":%a+$", "")
  local attr = file.attrs[1] and file.attrs[1].attr or {}
  return Profile.new({ event = event.label, unit = (base == "task-clock" or base == "cpu-clock") and "ns" or "",
    total = event.total, lost = lost_of(reader, event.label), sample_count = event.count, freq = attr.sample_freq,
    period = not attr.sample_freq and attr.sample_period or nil, pid = alone and first or nil, comm = comm,
    duration_ns = reader.first and reader.last - reader.first or nil }, list)
end

-- This machine's kernel, if it is the recorded one: it has the same build id or, if the file has none, the same release and host.
local function kernel_of(reader, file)
  local symbols, theirs = reader.symbols, reader.kernel_id
  if not symbols then return nil end
  for _, entry in ipairs(file.features.build_id or {}) do
    local name = entry.filename
    if name:find(KERNEL) or name:find "vmlinux[^/]*$" then theirs = theirs or entry.build_id end
  end
  local same
  if theirs then
    local ours = symbols.build_id "[kernel]"
    same = ours and theirs:sub(1, #ours) == ours -- in a file, shorter ones are padded to 20 bytes
  else
    local here = file.features.osrelease == (core.uname())
    same = here and file.features.hostname == host.line "/proc/sys/kernel/hostname"
  end
  return same and symbols.kernel() or nil
end

-- Read a perf.data file.
-- @string path its name
-- @param[opt] pause called now and then
-- @return array of Profiles, one for each event that has samples; and a message if the file is damaged and only a part was read.
-- Or nil, message, code
function M.load(path, pause)
  local file, message, code = late "perf.data".open(path)
  if not file then return nil, message, code end
  local have, symbols = pcall(late, "perf.symbols")
  local order = {}
  local reader = { order = order, lost = 0, lost_of = {}, period = {}, symbols = have and symbols or nil,
    jit = memo(function(pid) return jitmap.new(pid, late "perf.ext.symbols".read_owned) end),
    processes = memo(function() return { maps = {}, frames = {} } end),
    events = memo(function(label)
      order[#order + 1] = { label = label, stacks = {}, list = {}, total = 0, count = 0 }
      return order[#order]
    end) }
  for _, e in ipairs(file.attrs) do
    reader.period[e.name] = not e.attr.sample_freq and tonumber(e.attr.sample_period) or nil
  end
  for rec in file:records() do
    local tell = tells[rec.type]
    if tell then tell(reader, rec) end
    if pause then pause() end
  end
  reader.lost = tonumber((file:lost()))
  message, code = file:error()
  message = message and ("%s: %s"):format(path, message)
  if message and #reader.order == 0 then
    file:close()
    return nil, message, code
  end
  reader.kernel = kernel_of(reader, file)
  local profiles = {}
  for i, event in ipairs(reader.order) do profiles[i] = profile_of(reader, event, file, pause) end
  for _, p in pairs_of(reader.processes) do
    if p.resolver then p.resolver:close() end
  end
  if reader.kernel then reader.kernel:close() end
  file:close()
  if #profiles == 0 then profiles[1] = Profile.new({ event = file.attrs[1] and file.attrs[1].name or "samples", unit = "",
    total = 0, lost = reader.lost, sample_count = 0 }, {}) end
  return profiles, message
end

return M

-- Makes a Profile from the sampler's result: names its frames, lists its stacks.
local core = require "perf.core"
local host = require "perf.kernel.host"
local late = require "perf.base.late"
local lua_frame = require "perf.profile.lua_frame"
local Profile = require "perf.profile.profile"
local merged = require "perf.profile.merged"
local printed = require "perf.base.printed"
local sorted = require "perf.base.sorted"
local source = require "perf.profile.source"

local M = {}

local states = { c = "(C function)", gc = "(garbage collector)", jit = "(JIT compiler)", outside = "(outside Lua)",
  unsampled = "(unsampled)", other = "(other)", strings = "(string table)" }

local function nothing() end

local function state_frame(state)
  local name = states[state]
  return printed.table { name = name, func = name, kind = "state" }
end

-- Frames --------------------------------------------------------------------------------------------------------------

-- The lines of a chunk, by its name: "@" and a path, or its own text.
-- @tab[opt] pids other processes, whose files these are
-- @func pause called now and then
local function lines_of(name, pids, pause)
  local path = name:match "^@(.*)"
  if not path then return source.split(name, pause) end
  if path:find "^/dev/" or path:find "^/proc/" then return {} end -- the interpreter's input may be there
  for _, pid in ipairs(pids or {}) do
    local lines = source.read(("/proc/%d%s%s"):format(pid, path:find "^/" and "/root" or "/cwd/", path), pause)
    if lines then return lines end
  end
  return source.read(path, pause) or {} -- the process has ended
end

-- The names of functions at their definition; callers may use another name or none.
-- @tab sources gets the lines of the files
local function definitions(pids, sources, pause)
  local chunks = {}
  return function(name, line)
    if not chunks[name] then
      local path = name:match "^@(.*)"
      chunks[name] = lines_of(name, pids, pause)
      if path and chunks[name][1] then sources[path] = chunks[name] end
    end
    local text = chunks[name][line] or ""
    -- If a line defines several functions, the right one is unknown.
    if text:find "%f[%w_]function%f[^%w_].*%f[%w_]function%f[^%w_]" then return nil end
    return text:match "%f[%w_]function%s+([%w_.:]+)" or text:match "([%a_][%w_.]*)%s*=%s*function%f[^%w_]"
  end
end

local load_text = rawget(_G, "loadstring") or load

local function frame_of(f, defined)
  local name = f.source or "=?"
  -- Lua shows a chunk by its path, or by a short form of its name.
  local file = name:match "^@(.*)" or debug.getinfo(load_text("", name), "S").short_src
  local line = f.line or f.linedefined
  local by_source = defined(name, f.linedefined)
  local func = line == 0 and "(stripped)" -- without debug information, LuaJIT has no line of the definition either
    or f.linedefined == 0 and "main chunk" or by_source or f.func or ("anonymous@%d"):format(f.linedefined)
  return lua_frame.new(file, line, f.lastline, func, f.linedefined)
end

-- The frame of a C function. A function that is in no table gets `code`, the address of its code, by which its symbol is found.
local function c_frame(f, functions)
  local name, own = functions:find(f.address)
  local by_caller = f.func ~= "for iterator" and f.func or nil
  local code = not name and f.address or nil
  name = name or by_caller or "function " .. core.hex(f.address)
  return printed.table { name = name, func = name, kind = own and "builtin" or "c", code = code,
    unknown = code and not by_caller }
end

-- The frame of a C function of another process; nil if no code is there.
local function foreign_frame(f, names)
  local name, own = names:find(f)
  return name and printed.table { name = name, func = name, kind = own and "builtin" or "c", unknown = not own }
end

-- Convert the result's frames to frames of a Profile; a zone's frame to the zone's number. Also returns which ones are results,
-- and which ones are the interpreter's own code, in another process.
-- @param[opt] names those of another process, see perf.profile.foreign
-- @tab[opt] pids these processes
-- @tab sources gets the lines of the source files
local function frames_of(raw, names, pids, sources, pause)
  local frames, zones, results, interpreter, functions, native = {}, {}, {}, {}, nil, nil
  local defined = definitions(pids, sources, pause)
  for i, f in ipairs(raw) do
    if lua_frame.is(f) then
      frames[i] = frame_of(f, defined)
    elseif f.kind == "c" and names then
      frames[i] = foreign_frame(f, names) or false
    elseif f.kind == "c" then
      functions = functions or late("perf.profile.c_functions").new(pause)
      frames[i] = c_frame(f, functions)
      -- PUC Lua's C functions have the address of their code. If no code is there, the function has returned: its first result is
      -- in its place, but the type is still the function's, since Lua 5.4 stores the value first.
      if frames[i].unknown and not rawget(_G, "jit") then
        native = native or late("perf.profile.native").new()
        results[i] = not native:mapping(f.address) or nil
      end
    elseif f.kind == "label" then
      zones[i] = f.label -- a text; a zone's number has its name in this process
    elseif f.kind == "zone" then
      zones[i] = f.zone
    elseif f.kind == "state" then
      frames[i] = f.state ~= "native" and state_frame(f.state) or false
    elseif names then
      frames[i], interpreter[i] = names:native(f)
    else
      native = native or late("perf.profile.native").new()
      frames[i] = native:frame(f.kind, f.address)
    end
    pause()
  end
  if native then native:close() end
  return frames, zones, results, interpreter
end

-- Stacks --------------------------------------------------------------------------------------------------------------

local function add(list, stack, weight, count, zone)
  local sample = { stack = stack, weight = weight, count = count, zone = zone }
  list[#list + 1] = sample
  return sample
end

-- Name functions that are in no table by their symbols; without a symbol and a name by the caller, by their place.
local function name_by_symbols(frames, pause)
  local native = #frames > 0 and late("perf.profile.native").new()
  pause()
  if native then native:open() end
  for _, f in ipairs(frames) do
    pause()
    f.name = native:symbol(f.code) or f.unknown and select(2, native:place(f.code)) or f.name
    f.func, f.code = f.name, nil
  end
  if native then native:close() end
end

-- The sampled stacks; and, for a timeline, the index of each stack by its node.
local function samples_of(found, zone_name, names, pids, sources, pause)
  local frames, zones, results, interpreter = frames_of(found.frames, names, pids, sources, pause)
  local parent, frame, weight, count = found.parent, found.frame, found.weight, found.count
  local allocated, allocated_count = found.allocated, found.allocated_count
  local list = {}
  local places = found.moments and {} or nil
  local nameless, seen = {}, {}
  local function show(f)
    if f and f.code and not seen[f] then
      seen[f], nameless[#nameless + 1] = true, f
    end
  end
  -- In its call chain, the frames from the interpreter's on are its callers; outside of Lua all are of interest.
  local function is_outside(node)
    while node ~= 0 do
      if found.frames[frame[node]].state == "outside" then return true end
      node = parent[node]
    end
    return false
  end
  for node = 1, #parent do
    -- The time off the CPU comes later than the sample.
    if count[node] ~= 0 or weight[node] ~= 0 or allocated and allocated_count[node] ~= 0 then
      local callers, outside = false, next(interpreter) and is_outside(node)
      local stack, n, at, zone, in_user = {}, 0, node, nil, false
      while at ~= 0 do
        local f = frame[at]
        local kind = found.frames[f].kind
        callers = not outside and (kind == "native" or kind == "kernel") and (callers or interpreter[f])
        if zones[f] then
          zone = type(zones[f]) == "string" and zones[f] or zone_name(zones[f])
        elseif frames[f] and not callers and not (results[f] and parent[at] ~= 0)
          and not (in_user and frames[f].kind == "jit" and not frames[f].module) then
          if n > 0 and stack[n].code then show(stack[n]) end
          n = n + 1
          stack[n] = frames[f]
          in_user = in_user or frames[f].kind == "native" or frames[f].kind == "jit"
        end
        at = parent[at]
      end
      -- The outermost frame is the program that called Lua: leave it out.
      if n > 1 and stack[n].kind == "c" and stack[n].unknown then stack[n] = nil end
      show(stack[n])
      local sample = add(list, stack, weight[node], count[node], zone)
      if allocated then sample.allocated, sample.allocated_count = allocated[node], allocated_count[node] end
      if places then places[node] = sample end
    end
    pause()
  end
  if found.unsampled ~= 0 or found.unsampled_count ~= 0 then
    add(list, { state_frame "unsampled" }, found.unsampled, found.unsampled_count)
  end
  name_by_symbols(nameless, pause)
  local into
  list, into = merged(list, pause)
  list = sorted(list, function(a, b)
    if a.weight ~= b.weight then return a.weight > b.weight end
    return (a.stack[1] and a.stack[1].name or "") < (b.stack[1] and b.stack[1].name or "")
  end, pause ~= nothing and pause or nil)
  return list, function(node) return into[places[node]] or places[node] end
end

-- The names of the code of other processes, which the profiler keeps for the next snapshot.
local function names_of(p, found)
  if not p.pids then return nil end
  if p.names then
    p.names:see(found.images)
  else
    p.names = late("perf.profile.foreign").new(found.images, found.global, found.interpreters)
  end
  return p.names
end

-- Make a Profile.
-- @param p the Profiler, stopped; `pids`: the processes, if they are others; `pause`: a function that a host which must not be
-- blocked has set, and that is called between two pieces of the work
-- @param found the result() of its sampler
function M.make(p, found)
  local zone_name = late("perf.profile.zone").name
  local comm = host.line(("/proc/%d/task/%d/comm"):format(p.pid, p.tid))
  local sources = {}
  local list, place = samples_of(found, zone_name, names_of(p, found), p.pids, sources, p.pause or nothing)
  local is_one = not p.pids or #p.pids == 1
  local timeline = found.moments and { moments = found.moments, place = place }
  return Profile.new({ event = p.label, unit = p.unit, total = found.total, lost = found.lost, sample_count = found.samples,
    freq = p.attr.sample_freq, period = p.attr.sample_period, requested = p.requested, started = p.started,
    duration_ns = found.duration_ns,
    pid = is_one and p.pid or nil, tid = is_one and p.tid or nil, comm = comm, memory = found.memory,
    timeline_lost = found.beyond, method = p.method, method_reason = p.why, user_only = p.user_only,
    failures = found.failures, accounting = found.accounting, blocks = found.blocks, sources = sources }, list, timeline,
    p.pause)
end

return M

-- Makes a Profile from the sampler's result: names its frames, lists its stacks.
local core = require "perf.core"
local host = require "perf.kernel.host"
local lua_frame = require "perf.profile.lua_frame"
local Profile = require "perf.profile.profile"
local merged = require "perf.profile.merged"

local M = {}

local states = { c = "(C function)", gc = "(garbage collector)", jit = "(JIT compiler)", outside = "(outside Lua)",
  unsampled = "(unsampled)", other = "(other)" }

local function state_frame(state)
  local name = states[state]
  return { name = name, func = name, kind = "state" }
end

-- Frames --------------------------------------------------------------------------------------------------------------

-- The lines of a chunk, by its name: "@" and a path, or its own text.
local function lines_of(source)
  local lines, path = {}, source:match "^@(.*)"
  local f = path and not path:find "^/dev/" and not path:find "^/proc/" and io.open(path) -- do not open what may be a pipe
  for text in f and f:lines() or not path and source:gmatch "([^\n]*)\n?" or function() end do lines[#lines + 1] = text end
  if f then f:close() end
  return lines
end

-- The names of functions at their definition; callers may use another name or none.
local function definitions()
  local chunks = {}
  return function(source, line)
    chunks[source] = chunks[source] or lines_of(source)
    local text = chunks[source][line] or ""
    -- If a line defines several functions, the right one is unknown.
    if text:find "%f[%w_]function%f[^%w_].*%f[%w_]function%f[^%w_]" then return nil end
    return text:match "%f[%w_]function%s+([%w_.:]+)" or text:match "([%a_][%w_.]*)%s*=%s*function%f[^%w_]"
  end
end

local load_text = rawget(_G, "loadstring") or load

local function frame_of(f, defined)
  local source = f.source or "=?"
  -- Lua shows a chunk by its path, or by a short form of its name.
  local file = source:match "^@(.*)" or debug.getinfo(load_text("", source), "S").short_src
  local line = f.line or f.linedefined
  local func = f.linedefined == 0 and "main chunk" or defined(source, f.linedefined) or f.func
    or ("anonymous@%d"):format(f.linedefined)
  return lua_frame.new(file, line, f.lastline, func, f.linedefined)
end

-- The frame of a C function. A function that is in no table gets `code`, the address of its code, by which its symbol is found.
local function c_frame(f, functions)
  local name, own = functions:find(f.address)
  local by_caller = f.func ~= "for iterator" and f.func or nil
  local code = not name and f.address or nil
  name = name or by_caller or "function " .. core.hex(f.address)
  return { name = name, func = name, kind = own and "builtin" or "c", code = code, unknown = code and not by_caller }
end

-- Convert the result's frames to frames of a Profile; a zone's frame to the zone's number. Also returns which ones are results.
local function frames_of(raw)
  local frames, zones, results, functions, native = {}, {}, {}, nil, nil
  local defined = definitions()
  for i, f in ipairs(raw) do
    if lua_frame.is(f) then
      frames[i] = frame_of(f, defined)
    elseif f.kind == "c" then
      functions = functions or require("perf.profile.c_functions").new()
      frames[i] = c_frame(f, functions)
      -- PUC Lua's C functions have the address of their code. If no code is there, the function has returned: its first result is
      -- in its place, but the type is still the function's, since Lua 5.4 stores the value first.
      if frames[i].unknown and not rawget(_G, "jit") then
        native = native or require("perf.profile.native").new()
        results[i] = not native:mapping(f.address) or nil
      end
    elseif f.kind == "zone" then
      zones[i] = f.zone
    elseif f.kind == "state" then
      frames[i] = f.state ~= "native" and state_frame(f.state) or false
    else
      native = native or require("perf.profile.native").new()
      frames[i] = native:frame(f.kind, f.address)
    end
  end
  if native then native:close() end
  return frames, zones, results
end

-- Stacks --------------------------------------------------------------------------------------------------------------

local function add(list, stack, weight, count, zone)
  local sample = { stack = stack, weight = weight, count = count, zone = zone }
  list[#list + 1] = sample
  return sample
end

-- Name functions that are in no table by their symbols; without a symbol and a name by the caller, by their place.
local function name_by_symbols(frames)
  local native = #frames > 0 and require("perf.profile.native").new()
  for _, f in ipairs(frames) do
    f.name = native:symbol(f.code) or f.unknown and select(2, native:place(f.code)) or f.name
    f.func, f.code = f.name, nil
  end
  if native then native:close() end
end

-- The sampled stacks; and, for a timeline, the index of each stack by its node.
local function samples_of(found, zone_name)
  local frames, zones, results = frames_of(found.frames)
  local parent, frame, weight, count = found.parent, found.frame, found.weight, found.count
  local list, native, into = {}, next(results) ~= nil, {}
  local places = found.moments and {} or nil
  local nameless, seen = {}, {}
  local function show(f)
    if f and f.code and not seen[f] then
      seen[f], nameless[#nameless + 1] = true, f
    end
  end
  for node = 1, #parent do
    if count[node] ~= 0 then
      local stack, n, at, zone, in_user = {}, 0, node, nil, false
      while at ~= 0 do
        local f = frame[at]
        if zones[f] then
          zone = zone_name(zones[f])
        elseif frames[f] and not (results[f] and parent[at] ~= 0)
          and not (in_user and frames[f].kind == "jit" and not frames[f].module) then
          if n > 0 and stack[n].code then show(stack[n]) end
          n = n + 1
          stack[n] = frames[f]
          native = native or frames[f].address ~= nil
          in_user = in_user or frames[f].kind == "native" or frames[f].kind == "jit"
        end
        at = parent[at]
      end
      -- The outermost frame is the program that called Lua: leave it out.
      if n > 1 and stack[n].kind == "c" and stack[n].unknown then stack[n] = nil end
      show(stack[n])
      local sample = add(list, stack, weight[node], count[node], zone)
      if places then places[node] = sample end
    end
  end
  if found.unsampled ~= 0 or found.unsampled_count ~= 0 then
    add(list, { state_frame "unsampled" }, found.unsampled, found.unsampled_count)
  end
  name_by_symbols(nameless)
  if native then list, into = merged(list) end
  table.sort(list, function(a, b)
    if a.weight ~= b.weight then return a.weight > b.weight end
    return (a.stack[1] and a.stack[1].name or "") < (b.stack[1] and b.stack[1].name or "")
  end)
  return list, function(node) return into[places[node]] or places[node] end
end

-- Make a Profile.
-- @param p the Profiler, stopped
-- @param found the result() of its sampler
function M.make(p, found)
  local zone_name = require("perf.profile.zone").name
  local comm = host.line(("/proc/%d/task/%d/comm"):format(p.pid, p.tid))
  local list, place = samples_of(found, zone_name)
  local timeline = found.moments and { moments = found.moments, place = place }
  return Profile.new({ event = p.label, unit = p.unit, total = found.total, lost = found.lost, sample_count = found.samples,
    freq = p.attr.sample_freq, period = p.attr.sample_period, requested = p.requested, started = p.started,
    duration_ns = found.duration_ns, pid = p.pid, tid = p.tid, comm = comm, memory = found.memory,
    timeline_lost = found.beyond, method = p.method, method_reason = p.why, failures = found.failures }, list, timeline)
end

return M

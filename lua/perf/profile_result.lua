--- From what the sampler found to a Profile: names for its frames, a list of its stacks.
-- @module perf.profile_result
local core = require "perf.core"
local every = require "perf.every"
local host = require "perf.host"
local Profile = require "perf.profile"
local merged = require "perf.profile_merged"

local M = {}

local states = { c = "(C function)", gc = "(garbage collector)", jit = "(JIT compiler)", outside = "(outside Lua)",
  unsampled = "(unsampled)", lua = "(unsampled)" }

local function state_frame(state)
  local name = states[state]
  return { name = name, func = name, kind = "state" }
end

---------------------------------------------------------------------------------------------------------------------
-- C functions

local standard = {}
for name in ("_G string table math io os debug coroutine package bit bit32 utf8 jit ffi"):gmatch "%S+" do
  standard[name] = true
end

-- The functions of loaded modules, by address: {name, whether Lua's own}.
local function c_functions()
  local found = {}
  local function add(module, own, t)
    for key, value in every(t) do
      if type(key) == "string" and type(value) == "function" then
        local address = core.object_address(value)
        local name, known = module == "_G" and key or module .. "." .. key, found[address]
        if not known or (own and not known[2]) or (own == known[2] and name < known[1]) then
          found[address] = { name, own }
        end
      end
    end
  end
  for module, t in every(package.loaded) do
    if type(t) == "table" then add(module, standard[module] or false, t) end
  end
  local file = debug.getmetatable(io.stdout)
  if file and type(file.__index) == "table" then add("file", true, file.__index) end
  return found
end

---------------------------------------------------------------------------------------------------------------------
-- Frames

-- The names that functions have where they are defined, which a caller may know by another or by none.
local function definitions()
  local files = {}
  return function(path, line)
    local lines = files[path]
    if not lines then
      lines = {}
      local f = not path:find "^/dev/" and not path:find "^/proc/" and io.open(path) -- what may be a pipe is left alone
      for text in f and f:lines() or function() end do lines[#lines + 1] = text end
      if f then f:close() end
      files[path] = lines
    end
    local text = lines[line] or ""
    -- Of several on a line none is known to be the one.
    if text:find "%f[%w_]function%f[^%w_].*%f[%w_]function%f[^%w_]" then return nil end
    return text:match "%f[%w_]function%s+([%w_.:]+)" or text:match "([%a_][%w_.]*)%s*=%s*function%f[^%w_]"
  end
end

local function lua_frame(f, defined)
  local file = f.file or f.short_src or "?"
  local func = f.linedefined == 0 and "main chunk" or f.file and defined(f.file, f.linedefined) or f.func
    or ("anonymous@%d"):format(f.linedefined)
  local line = f.line or f.linedefined
  return { name = ("%s:%d %s"):format(file, line, func), func = func, file = file, line = line, linedefined = f.linedefined,
    kind = "lua" }
end

local function c_frame(f, known)
  local named = known[f.address]
  local name = named and named[1] or f.func or "function " .. core.hex(f.address)
  return { name = name, func = name, kind = named and named[2] and "builtin" or "c", unknown = not (named or f.func) or nil }
end

-- The frames of the result as frames of a Profile, those of a zone as the zone's number.
local function frames_of(raw)
  local frames, zones, known, native = {}, {}, nil, nil
  local defined = definitions()
  for i, f in ipairs(raw) do
    if f.kind == "lua" then
      frames[i] = lua_frame(f, defined)
    elseif f.kind == "c" then
      known = known or c_functions()
      frames[i] = c_frame(f, known)
    elseif f.kind == "zone" then
      zones[i] = f.zone
    elseif f.kind == "state" then
      frames[i] = f.state ~= "native" and state_frame(f.state) or false
    else
      native = native or require("perf.profile_native").new()
      frames[i] = native:frame(f.kind, f.address)
    end
  end
  if native then native:close() end
  return frames, zones
end

---------------------------------------------------------------------------------------------------------------------
-- Stacks

local function add(list, stack, weight, count, zone)
  local sample = { stack = stack, weight = weight, count = count, zone = zone }
  list[#list + 1] = sample
  return sample
end

-- The stacks that were sampled; and for a timeline where each is: by node, and what is pending by minus its place.
local function samples_of(found, zone_name)
  local frames, zones = frames_of(found.frames)
  local parent, frame, weight, count = found.parent, found.frame, found.weight, found.count
  local list, native, into = {}, false, {}
  local places = found.moments and {} or nil
  for node = 1, #parent do
    if count[node] ~= 0 then
      local stack, n, at, zone, in_user = {}, 0, node, nil, false
      while at ~= 0 do
        local f = frame[at]
        if zones[f] then
          zone = zone_name(zones[f])
        elseif frames[f] and not (in_user and frames[f].kind == "jit" and not frames[f].module) then
          n = n + 1
          stack[n] = frames[f]
          native = native or frames[f].address ~= nil
          in_user = in_user or frames[f].kind == "native" or frames[f].kind == "jit"
        end
        at = parent[at]
      end
      -- The program that called Lua.
      if n > 1 and stack[n].kind == "c" and stack[n].unknown then stack[n] = nil end
      local sample = add(list, stack, weight[node], count[node], zone)
      if places then places[node] = sample end
    end
  end
  for i, p in ipairs(found.pending) do
    local sample = add(list, { state_frame(p.state) }, p.weight, p.count)
    if places then places[-i] = sample end
  end
  if found.unsampled ~= 0 then add(list, { state_frame "unsampled" }, found.unsampled, 0) end
  if native then list, into = merged(list) end
  table.sort(list, function(a, b)
    if a.weight ~= b.weight then return a.weight > b.weight end
    return (a.stack[1] and a.stack[1].name or "") < (b.stack[1] and b.stack[1].name or "")
  end)
  return list, function(node) return into[places[node]] or places[node] end
end

--- Make a Profile.
-- @param p the Profiler, stopped
-- @param found what its sampler's result() gave
function M.make(p, found)
  local zone_name = require("perf.zone").name
  local comm = host.line(("/proc/%d/task/%d/comm"):format(p.pid, p.tid))
  local list, place = samples_of(found, zone_name)
  local timeline = found.moments and { moments = found.moments, settled = found.settled, place = place }
  return Profile.new({ event = p.label, unit = p.unit, total = found.total, lost = found.lost, sample_count = found.samples,
    freq = p.attr.sample_freq, period = p.attr.sample_period, started = p.started, duration_ns = found.duration_ns, pid = p.pid,
    tid = p.tid, comm = comm, memory = found.memory, timeline_lost = found.beyond }, list, timeline)
end

return M

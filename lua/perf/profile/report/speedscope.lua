-- speedscope's file format, as a "sampled" profile. luaperf also stores profiles in this format: data that speedscope does not
-- know (a frame's kind, counts, zones, totals) is in additional fields, which speedscope ignores.
--
--     {"$schema": ..., "exporter": "lua-perf ...", "name": event, "activeProfileIndex": 0,
--      "shared": {"frames": [{"name", "file", "line", "func", "linedefined", "kind", "module", "address"}, ...]},
--      "profiles": [{"type": "sampled", "name", "unit", "startValue": 0, "endValue": sum,
--                    "samples": [[frame, ...], ...], "weights": [...],
--                    "counts": [...], "zones": [name or "", ...], "zone": [number, ...]}],
--      "lua_perf": {"event", "unit", "total", "lost", "sample_count", "freq", "period", "requested", "started",
--                   "duration_ns", "pid", "tid", "comm", "method", "method_reason", "failures"}}
--
-- Frames are numbered from 0; a stack begins with its outermost frame.
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"
local file = require "perf.base.file"
local json = require "perf.base.json"
local memo = require "perf.base.memo"
local text = require "perf.profile.report.frame_names"

local M = {}

local units = { ns = "nanoseconds", bytes = "bytes" }

-- Make the texts valid for JSON.
local function clean(t)
  for key, value in pairs_of(t) do
    if type(value) == "string" then t[key] = text.utf8(value) end
  end
  return t
end

-- A number with all its digits.
local function number(v)
  return json.encode(text.number(v))
end

local function address(v)
  return v ~= nil and core.hex(v) or nil
end

-- Write a list item by item, so that it can have any length.
local function list(put, pause, n, item)
  local parts, k = {}, 0
  for i = 1, n do
    k = k + 1
    parts[k] = item(i)
    if k == 256 then
      put(table.concat(parts, ",", 1, k) .. (i < n and "," or ""))
      k = 0
    end
    pause()
  end
  put(table.concat(parts, ",", 1, k))
end

-- Numbers items in the order of their first use; the array has the items.
local function numbering()
  local all = {}
  return all, memo(function(thing)
    all[#all + 1] = thing
    return #all - 1
  end)
end

local function samples_of(put, pause, samples)
  local frames, index = numbering()
  put '"profiles":[{"type":"sampled","samples":['
  local ids = {}
  list(put, pause, #samples, function(i)
    local stack = samples[i].stack
    local depth = #stack
    for k = 1, depth do ids[k] = index[stack[depth + 1 - k]] end
    return "[" .. table.concat(ids, ",", 1, depth) .. "]"
  end)
  put '],"weights":['
  list(put, pause, #samples, function(i) return number(samples[i].weight) end)
  put '],"counts":['
  list(put, pause, #samples, function(i) return number(samples[i].count or 1) end)
  local zones, zone = numbering()
  local none = zone[""]
  put '],"zone":['
  list(put, pause, #samples, function(i) return samples[i].zone and zone[samples[i].zone] or none end)
  put '],"zones":['
  list(put, pause, #zones, function(i) return json.encode(text.utf8(zones[i])) end)
  put "],"
  return frames
end

--- Write a profile for www.speedscope.app.
-- @function Profile:speedscope
-- @tparam[opt] string path the file; without it the text is returned
-- @treturn string|boolean the text, or true @fails if the file cannot be written
function M.speedscope(prof, path)
  return file.deliver(path, "speedscope", function(put, pause)
    local samples, sum = prof:samples(), 0
    for _, sample in ipairs(samples) do
      sum = sum + text.number(sample.weight)
      pause()
    end
    put('{"$schema":"https://www.speedscope.app/file-format-schema.json",')
    put(('"exporter":%s,"name":%s,"activeProfileIndex":0,'):format(json.encode("lua-perf " .. require "perf.version"),
      json.encode(text.utf8(("%s, %s"):format(prof.event, prof.comm or "?")))))
    local frames = samples_of(put, pause, samples)
    put(('"name":%s,"unit":"%s","startValue":0,"endValue":%s}],"shared":{"frames":['):format(
      json.encode(text.utf8(prof.event)), units[prof.unit] or "none", number(sum)))
    list(put, pause, #frames, function(i)
      local f = frames[i]
      return json.encode(clean { name = f.name, func = f.func, file = f.file, line = f.line,
        lastline = f.lastline, linedefined = f.linedefined, kind = f.kind, module = f.module, address = address(f.address) })
    end)
    put(']},"lua_perf":')
    put(json.encode(clean { event = prof.event, unit = prof.unit or "", total = prof.total, lost = prof.lost,
      sample_count = prof.sample_count, freq = prof.freq, period = prof.period, requested = prof.requested,
      started = prof.started, duration_ns = prof.duration_ns, pid = prof.pid, tid = prof.tid, comm = prof.comm,
      method = prof.method, method_reason = prof.method_reason, failures = prof.failures }))
    put "}\n"
  end, prof.stream)
end

return M

-- speedscope's file format, as a "sampled" profile. luaperf also stores profiles in this format: data that speedscope does not
-- know (a frame's kind, counts, totals) is in additional fields, which speedscope ignores.
--
--     {"$schema": ..., "exporter": "lua-perf ...", "name": event, "activeProfileIndex": 0,
--      "shared": {"frames": [{"name", "file", "line", "func", "linedefined", "kind", "module", "address"}, ...]},
--      "profiles": [{"type": "sampled", "name", "unit", "startValue": 0, "endValue": sum,
--                    "samples": [[frame, ...], ...], "weights": [...],
--                    "counts": [...], "allocated": [...], "allocated_counts": [...]}],
--      "lua_perf": {"event", "unit", "total", "lost", "sample_count", "freq", "period", "requested", "started",
--                   "duration_ns", "pid", "tid", "comm", "method", "method_reason", "user_only", "failures",
--                   "sources": {file: digest, see perf.profile.source}}}
--
-- Frames are numbered from 0; a stack begins with its outermost frame. The zone of a sample is a frame of the kind "zone" before
-- all others.
local file = require "perf.base.file"
local json = require "perf.base.json"
local memo = require "perf.base.memo"
local plain = require "perf.profile.report.plain"
local text = require "perf.profile.report.frame_names"

local M = {}

local math_type = math.type or function() end

local units = { ns = "nanoseconds", bytes = "bytes" }

-- A number with all its digits, as text; or a small integer, which needs no string of its own.
local function number(v)
  v = text.number(v)
  if v % 1 == 0 and v > -1e14 and v < 1e14 and math_type(v) ~= "float" then return v end
  return json.encode(v)
end

-- Write a list item by item, so that it can have any length.
-- @param item function(i, parts, k), which adds text or integers to an array after index k, and returns the last index
local function list(put, pause, n, item)
  local parts, k = {}, 0
  for i = 1, n do
    if i > 1 then
      k = k + 1
      parts[k] = ","
    end
    k = item(i, parts, k)
    if k >= 512 then
      put(table.concat(parts, "", 1, k))
      k = 0
    end
    pause()
  end
  put(table.concat(parts, "", 1, k))
end

-- The same, if an item is one text or integer.
local function values(put, pause, n, value)
  list(put, pause, n, function(i, parts, k)
    parts[k + 1] = value(i)
    return k + 1
  end)
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
  local zones = memo(function(zone) return index[{ name = zone, kind = "zone" }] end)
  put '"profiles":[{"type":"sampled","samples":['
  list(put, pause, #samples, function(i, parts, k)
    local stack = samples[i].stack
    local before = "["
    if samples[i].zone then
      parts[k + 1], parts[k + 2] = before, zones[samples[i].zone]
      k, before = k + 2, ","
    end
    for at = #stack, 1, -1 do
      parts[k + 1], parts[k + 2] = before, index[stack[at]]
      k, before = k + 2, ","
    end
    parts[k + 1] = before == "[" and "[]" or "]"
    return k + 1
  end)
  put '],"weights":['
  values(put, pause, #samples, function(i) return number(samples[i].weight) end)
  put '],"counts":['
  values(put, pause, #samples, function(i) return number(samples[i].count or 1) end)
  if samples[1] and samples[1].allocated then
    put '],"allocated":['
    values(put, pause, #samples, function(i) return number(samples[i].allocated) end)
    put '],"allocated_counts":['
    values(put, pause, #samples, function(i) return number(samples[i].allocated_count) end)
  end
  put "],"
  return frames
end

--- Write a profile for www.speedscope.app.
-- @function Profile:speedscope
-- @tparam[opt] string path the file; without it the text is returned
-- @treturn string|boolean the text, or true @fails if the file cannot be written
function M.speedscope(prof, path)
  return file.deliver(path, "speedscope", function(put, pause)
    local samples, sum = {}, 0
    for _, part in ipairs { prof:samples(), prof.freed } do
      for _, sample in ipairs(part) do
        samples[#samples + 1], sum = sample, sum + text.number(sample.weight)
        pause()
      end
    end
    put('{"$schema":"https://www.speedscope.app/file-format-schema.json",')
    put(('"exporter":%s,"name":%s,"activeProfileIndex":0,'):format(json.encode("lua-perf " .. require "perf.version"),
      json.encode(text.utf8(("%s, %s"):format(prof.event, prof.comm or "?")))))
    local frames = samples_of(put, pause, samples)
    put(('"name":%s,"unit":"%s","startValue":0,"endValue":%s}],"shared":{"frames":['):format(
      json.encode(text.utf8(prof.event)), units[prof.unit] or "none", number(sum)))
    values(put, pause, #frames, function(i)
      return json.encode(plain.frame(frames[i]))
    end)
    put(']},"lua_perf":')
    put(json.encode(plain.fields(prof)))
    put "}\n"
  end, prof.stream)
end

return M

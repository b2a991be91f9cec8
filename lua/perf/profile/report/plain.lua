-- A Profile as plain tables, and as their JSON text, which perf.load reads again.
local core = require "perf.core"
local json = require "perf.base.json"
local pairs_of = require "perf.base.pairs"
local source = require "perf.profile.source"
local text = require "perf.profile.report.frame_names"

local M = {}

-- Make the texts valid for JSON.
local function clean(t)
  for key, value in pairs_of(t) do
    if type(value) == "string" then t[key] = text.utf8(value) end
  end
  return t
end

-- The digests of the source files. A host that must not be blocked does not make them.
local function sources_of(prof)
  local digests = {}
  for name, lines in pairs_of(not prof.stream and prof.sources or {}) do digests[text.utf8(name)] = source.digest(lines) end
  return next(digests) and digests or nil
end

-- The fields of a profile that describe the whole.
function M.fields(prof)
  return clean { event = prof.event, unit = prof.unit or "", total = prof.total, lost = prof.lost,
    sample_count = prof.sample_count, freq = prof.freq, period = prof.period, requested = prof.requested,
    started = prof.started, duration_ns = prof.duration_ns, pid = prof.pid, tid = prof.tid, comm = prof.comm,
    method = prof.method, method_reason = prof.method_reason, user_only = prof.user_only, failures = prof.failures,
    blocks = prof.blocks, sources = sources_of(prof) }
end

-- A frame. Its address is text, since it may need more bits than a number of JSON has.
function M.frame(f)
  return clean { name = f.name, func = f.func, file = f.file, line = f.line, lastline = f.lastline,
    linedefined = f.linedefined, kind = f.kind, module = f.module, address = f.address ~= nil and core.hex(f.address) or nil }
end

--- Everything as plain tables.
-- @function Profile:totable
-- @treturn table the fields of the profile; `frames`, an array of the frames; and `samples`, an array of `{stack=, weight=,
-- count=, zone=, ...}` as `samples` returns them, but with the places of frames in `frames`
-- @since 0.2.0
function M.totable(prof)
  local t, place = M.fields(prof), {}
  t.frames, t.samples = {}, {}
  for _, part in ipairs { prof:samples(), prof.freed } do
    for _, s in ipairs(part) do
      local stack = {}
      for i, f in ipairs(s.stack) do
        if not place[f] then
          place[f] = #t.frames + 1
          t.frames[place[f]] = M.frame(f)
        end
        stack[i] = place[f]
      end
      t.samples[#t.samples + 1] = clean { stack = stack, weight = s.weight, count = s.count, zone = s.zone,
        allocated = s.allocated, allocated_count = s.allocated_count }
    end
  end
  return t
end

--- The table of totable as JSON text. A file of it is one that `perf.load` reads.
-- @function Profile:json
-- @treturn string
-- @since 0.2.0
function M.json(prof) return json.encode(M.totable(prof)) end

return M

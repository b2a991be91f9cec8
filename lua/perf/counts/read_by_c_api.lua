-- perf.counts.read by the C API.
local core = require "perf.core"
local counts = require "perf.counts"
local pairs_of = require "perf.base.pairs"

local M = {}

local class = counts.define(core.word, core.layout, core.reset_ns)
for name, f in pairs_of(class) do core.Counts[name] = f end
core.Counts.__name = "perf.Counts"
function counts.is_packed(v)
  return type(v) == "userdata" and getmetatable(v) == core.Counts
end
M.begin, M.try, M.finish, M.snap = core.begin, core.begin, core.finish, core.snap
M.measurer = core.measurer
M.thread_token = core.thread_token
local finish = core.finish
M.start, M.stop = core.start, core.stop
M.wall, M.add = core.wall, core.add

if _VERSION == "Lua 5.1" then
  local unpack_counts, snap = counts.unpack, core.snap
  local function wrap(c, ...) return unpack_counts(c), ... end
  function M.finish(...) return wrap(finish(...)) end
  function M.snap(...)
    local c, message, code = snap(...)
    if not c then return nil, message, code end
    return unpack_counts(c)
  end
end

return M

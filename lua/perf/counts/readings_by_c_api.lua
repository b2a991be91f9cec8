-- perf.counts.readings by the C API.
local core = require "perf.core"

local M = { start = core.start, stop = core.stop, snap = core.snap, add = core.add, word = core.word,
  layout = core.layout, reset_ns = core.reset_ns }

function M.is_packed(v) return type(v) == "userdata" and getmetatable(v) == core.Counts end

if _VERSION == "Lua 5.1" then
  function M.snap(...)
    local c, message, code = core.snap(...)
    if not c then return nil, message, code end
    return require "perf.counts".unpack(c) -- perf.counts.read has loaded it
  end
end

return M

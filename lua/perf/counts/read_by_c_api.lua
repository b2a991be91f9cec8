-- perf.counts.read by the C API.
local class = require "perf.counts.class"
local core = require "perf.core"
local pairs_of = require "perf.base.pairs"

for name, f in pairs_of(class) do core.Counts[name] = f end

local M = { begin = core.begin, try = core.begin, finish = core.finish, measurer = core.measurer,
  thread_token = core.thread_token, token_with = core.thread_token }

if _VERSION == "Lua 5.1" then
  local finish, unpack_counts = core.finish, require "perf.counts".unpack
  local function wrap(c, ...) return unpack_counts(c), ... end
  function M.finish(...) return wrap(finish(...)) end
end

return M

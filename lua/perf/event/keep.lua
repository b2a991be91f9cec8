-- perf.keep. It is not in perf.event.prewarm, since perf.measure loads that module and needs no names.
local argument = require "perf.base.argument"
local core = require "perf.core"
local names = require "perf.names"
local open = require "perf.event.open"
local prewarm = require "perf.event.prewarm"

local M = {}

--- Open one event and keep it open, so that its kind opens quickly from now on: the kernel patches its own code for the first
-- event of some kinds, which takes up to 40 ms for a tracepoint. `perf.open` does this itself, except for tracepoints of system
-- calls, since while one is open each system call of each process takes some 50 ns more. With PERF_KEEP=0 in the environment no
-- event is kept.
-- @tparam string|table event a name or attr table, as for `perf.open`
-- @treturn boolean true @fails
function M.keep(event)
  argument.check_dot(event)
  local spec, message, code = names.resolve(event)
  if not spec then return nil, message, code end
  for _, attr in ipairs(spec.attrs) do
    local kind = "k" .. core.hex(attr.type) .. ":" .. core.hex(attr.config or 0)
    if not prewarm.has(kind) then
      local ev
      ev, message, code = open.attr(spec, open.prepared(attr), {})
      if not ev then return nil, message, code end
      prewarm.add(kind, ev)
    end
  end
  return true
end

return M

-- Limits of a loop over records. Without them it ends if no record comes for its `timeout`, which may never happen.
local argument = require "perf.base.argument"
local checks = require "perf.api.check"
local clock = require "perf.base.clock"
local core = require "perf.core"

local M = {}

-- The check of the options of `records`. Event's methods in C ask for mistakes in theirs.
M.check, core.mistakes.records = checks.options "Event:records"
core.mistakes.each = select(2, checks.options "Event:each")

-- Whether the options limit a loop.
function M.bounded(opts) return opts ~= nil and (opts.max ~= nil or opts.duration ~= nil) end

-- Make a function that returns whether `duration` is over, from now on.
-- @param[opt] duration seconds; without it the function always returns false
function M.timer(duration)
  local ends = duration and clock.now() / 1e9 + duration
  return function() return ends ~= nil and clock.now() / 1e9 >= ends end
end

-- An iterator that ends at its limits.
-- @param opts `max` records, `duration` in seconds, `timeout` seconds without a record
-- @func read the reader's read_record
function M.records(opts, read, reader)
  local left, timeout = opts.max or math.huge, opts.timeout or 0
  local ends = opts.duration and clock.now() / 1e9 + opts.duration or math.huge
  return function()
    while left > 0 do
      local rest = ends == math.huge and ends or ends - clock.now() / 1e9
      if rest <= 0 then return nil end
      local rec, _, code = argument.call_as_method("records", read, reader, timeout < rest and timeout or rest)
      if rec then
        left = left - 1
        return rec
      end
      if code ~= "EBADMSG" then return nil end
    end
  end
end

return M

--- Ending a loop over records, and a read that waits.
--
-- A loop over `records` ends when none comes for its `timeout`, and that may be never. So it has bounds, `max` records and
-- `duration` seconds in all, and a reader can be woken: by `ev:wake()`, from a hook, a signal's handler or the loop itself; and
-- by a byte written into the descriptor `ev:wake_fd()`, from any thread, any Lua state (`perf.wake`) and any signal handler in C.
-- @module perf.wake
local blame = require "perf.names.blame"
local core = require "perf.core"

local M = {}

--- Wake the reader that a descriptor belongs to: for other threads and other states, which have the number alone.
-- @param fd what `wake_fd` gave of an Event, Group or Set that is still open
-- @return true; or nil, message, code
function M.wake(fd)
  if type(fd) ~= "number" or fd ~= math.floor(fd) or fd < 0 or fd >= 2 ^ 31 then
    blame.raise("descriptor expected, got " .. tostring(fd))
  end
  return core.wake(fd)
end

--- Whether options bound a loop.
function M.bounded(opts) return opts ~= nil and (opts.max ~= nil or opts.duration ~= nil) end

--- A function that says whether a loop is over that begins now.
-- @param[opt] duration seconds; without it, never
function M.timer(duration)
  local ends = duration and core.seconds() + duration
  return function() return ends ~= nil and core.seconds() >= ends end
end

--- An iterator that ends at its bounds.
-- @param opts `max` records, `duration` seconds in all, `timeout` seconds without a record
-- @param read function(timeout): Record, or nil, message, code
function M.records(opts, read)
  local left, timeout = opts.max or math.huge, opts.timeout or 0
  local ends = opts.duration and core.seconds() + opts.duration or math.huge
  return function()
    while left > 0 do
      local rest = ends == math.huge and ends or ends - core.seconds()
      if rest <= 0 then return nil end
      local rec, _, code = read(timeout < rest and timeout or rest)
      if rec then
        left = left - 1
        return rec
      end
      if code ~= "EBADMSG" then return nil end
    end
  end
end

return M

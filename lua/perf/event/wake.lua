-- Waking a reader that waits for records: by `ev:wake()`, from a hook, a signal handler in Lua or the loop itself; and by writing
-- a byte to the descriptor `ev:wake_fd()`, from any thread, any Lua state (`perf.wake`) and any signal handler in C.
local argument = require "perf.base.argument"
local core = require "perf.core"

local M = {}

--- Wake the reader to which a descriptor belongs: for other threads and other Lua states, which have only its number.
-- @tparam integer fd returned by `wake_fd` of an Event, Group or Set that is still open
-- @treturn boolean true @fails
-- @since 0.2.0
function M.wake(fd)
  if type(fd) ~= "number" or fd ~= math.floor(fd) or fd < 0 or fd >= 2 ^ 31 then
    argument.raise("descriptor expected, got " .. (type(fd) == "number" and fd or type(fd)))
  end
  return core.wake(fd)
end

return M

-- Long work in slices, between which the worker serves other requests.
local clock = require "perf.base.clock"

local M = {}

local SLICE = 0.3e6 -- nanoseconds

-- A function that lets the worker serve other requests, if this one has run for SLICE.
function M.pausing()
  local since = clock.now()
  return function()
    if clock.now() - since < SLICE then return end
    ngx.sleep(0.001) -- the wrapped one, which ends the turn; nginx logs a warning for each 0
    since = clock.now()
  end
end

return M

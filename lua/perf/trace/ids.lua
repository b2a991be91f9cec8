-- Ids of traces and spans: lower-case hexadecimal digits, as every header and every backend writes them.
--
-- They are cut out of a supply of random digits. The child of a fork must throw its copy away (`forget`), or it would give
-- its spans the ids that the parent gives to others.
local core = require "perf.core"

local M = {}

local BYTES = 4096
local supply, at, left = "", 1, 0

local function take(digits)
  if left < digits then
    supply, at, left = assert(core.random_hex(BYTES)), 1, 2 * BYTES
  end
  local from = at
  at, left = from + digits, left - digits
  return supply:sub(from, from + digits - 1)
end

-- A new span id: 16 digits.
function M.span() return take(16) end

-- A new trace id: 32 digits.
function M.trace() return take(32) end

-- Throw the supply away: this is the child of a fork.
function M.forget() left = 0 end

return M

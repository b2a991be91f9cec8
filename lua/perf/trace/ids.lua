-- Ids of traces and spans: lower-case hexadecimal digits, as in every header and backend.
--
-- They are cut from a supply of random digits. The child of a fork must discard its copy (`forget`), or its spans would get ids
-- that the parent also uses.
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

-- Discard the supply: this is the child of a fork.
function M.forget() left = 0 end

return M

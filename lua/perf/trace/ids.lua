-- Ids of traces and spans: lower-case hexadecimal digits, as in every header and backend.
--
-- They are cut from a supply of random digits. The child of a fork must discard its copy (`forget`), or its spans would get ids
-- that the parent also uses.
local core = require "perf.core"

local M = {}

local sub = string.sub

local BYTES = 4096
local supply, used = "", 2 * BYTES -- digits, and how many of them are used

local function take(digits)
  local from = used
  used = from + digits
  if used > 2 * BYTES then
    supply, from, used = assert(core.random_hex(BYTES)), 0, digits
  end
  return sub(supply, from + 1, used)
end

-- A new span id: 16 digits.
function M.span() return take(16) end

-- A new trace id: 32 digits.
function M.trace() return take(32) end

-- Discard the supply: this is the child of a fork.
function M.forget() used = 2 * BYTES end

return M

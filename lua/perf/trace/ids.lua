-- Ids of traces and spans: lower-case hexadecimal digits, as in every header and backend.
--
-- They are cut from a supply of random digits. The child of a fork must discard its copy (`forget`), or its spans would get ids
-- that the parent also uses.
local core = require "perf.core"

local M = {}

local sub = string.sub

local BYTES = 4096
local supply, used = "", 2 * BYTES -- digits, and how many of them are used

-- Take some digits. Returns the supply, and the place in it after which they begin: while the caller cuts them out, a
-- finalizer may make spans, and so replace the supply.
local function take(digits)
  local from = used
  used = from + digits
  if used > 2 * BYTES then
    supply, from, used = assert(core.random_hex(BYTES)), 0, digits
  end
  return supply, from
end

-- A new span id: 16 digits.
function M.span()
  local digits, from = take(16)
  return sub(digits, from + 1, from + 16)
end

-- A new trace id, 32 digits, and the id of its first span.
function M.trace()
  local digits, from = take(48)
  return sub(digits, from + 1, from + 32), sub(digits, from + 33, from + 48)
end

-- Discard the supply: this is the child of a fork.
function M.forget() used = 2 * BYTES end

return M

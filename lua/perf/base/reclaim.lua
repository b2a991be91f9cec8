-- Retries a call that the kernel refused for lack of a resource, after an idle object with that resource was closed.
--
-- The resources are "any" (a descriptor, or memory: every open event takes them), "breakpoint" (a debug register) and "hardware"
-- (a counter, or lockable memory: a counter that is read without a system call takes a page of it).
local M = {}

local givers = {}

-- Register a function that frees a resource.
-- @param give_way function(resource): close one idle object that holds the resource, and return whether there was one
-- @param[opt] first call it before those that are registered already
function M.register(give_way, first) table.insert(givers, first and 1 or #givers + 1, give_way) end

local function give_way(what)
  for _, give in ipairs(givers) do
    if give(what) then return true end
  end
  return false
end

-- Call f(...) until it succeeds or no idle object is left to close.
-- @param resource function(code, attr): the missing resource; nil if closing something would not help
-- @param f returns a true value; or nil, message, code
-- @return its results
function M.retry(resource, attr, f, ...)
  local result, message, code = f(...)
  while not result do
    local what = resource(code, attr)
    if not what or not give_way(what) then break end
    result, message, code = f(...)
  end
  return result, message, code
end

local function of_file(number) return (number == 23 or number == 24) and "any" or nil end -- ENFILE, EMFILE

-- io.open with such retries.
-- @return file; or nil, message, errno's number
function M.open_file(...) return M.retry(of_file, nil, io.open, ...) end

-- Make room for a descriptor, for a caller that cannot retry when its open fails.
-- @return if there is none: the message and the errno's symbol
function M.make_room()
  local file, message, number = M.open_file "/dev/null"
  if file then file:close() elseif of_file(number) then return message, number == 23 and "ENFILE" or "EMFILE" end
end

return M

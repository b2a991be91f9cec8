-- Outputs of reports: a file that appears only when it is complete, or a string for the caller.
local argument = require "perf.base.argument"
local attempt = require "perf.base.attempt"
local core = require "perf.core"

local M = {}

local function fill(out, write)
  write(function(part) attempt.try(out:write(part)) end)
  return true
end

-- Write a file. An old file stays until the new one is complete, and stays if that fails; no symbolic link is
-- followed; a device or a pipe is written into as it is.
-- @param path its name
-- @param write function(put) that calls put(string) for each part; its errors are raised, except refusals of put
-- @return true; or nil, message, code, and nothing of the file remains
function M.write(path, write)
  local out, message, code = core.output(path)
  if not out then return nil, message, code end
  local returned, ok, why, errno = pcall(attempt.catch, fill, out, write)
  if returned and ok then return out:commit() end
  out:close()
  if not returned then error(ok, 0) end
  return nil, why, errno
end

-- The absolute path of a file, for others and for when this process is in another directory.
function M.absolute(path)
  local dir = path:sub(1, 1) ~= "/" and core.cwd()
  return dir and dir:gsub("/$", "") .. "/" .. path or path
end

local function nothing() end

-- Write a report into a file, or return it as a string if there is no path.
-- @param path string or nil
-- @param what the function's name, for its error
-- @param write function(put, pause), which calls put(string) for each part, and pause() now and then
-- @param[opt] stream {put=, pause=}: these functions, instead of a string
-- @return true, or the string; or nil, message, code
function M.deliver(path, what, write, stream)
  if path ~= nil then
    return M.write(argument.check_path(path, what, 2), function(put) write(put, nothing) end)
  end
  if stream then return write(stream.put, stream.pause) end
  local parts = {}
  write(function(part) parts[#parts + 1] = part end, nothing)
  return table.concat(parts)
end

return M

-- Outputs of reports: a file that appears only when it is complete, or a string for the caller.
local argument = require "perf.base.argument"
local core = require "perf.core"

local M = {}

-- Write a file. An old file stays until the new one is complete, and stays if that fails; no symbolic link is
-- followed; a device or a pipe is written into as it is.
-- @param path its name
-- @param write function(put) that calls put(string) for each part; its errors are raised, except refusals of put
-- @return true; or nil, message, code, and nothing of the file remains
function M.write(path, write)
  local out, message, code = core.output(path)
  if not out then return nil, message, code end
  local refused = {}
  local ok, err = pcall(write, function(part)
    local done, m, c = out:write(part)
    if not done then
      message, code = m, c
      error(refused, 0)
    end
  end)
  if not ok then
    out:close()
    if err == refused then return nil, message, code end
    error(err, 0)
  end
  return out:commit()
end

-- The absolute path of a file, for others and for when this process is in another directory.
function M.absolute(path)
  local dir = path:sub(1, 1) ~= "/" and core.cwd()
  return dir and dir:gsub("/$", "") .. "/" .. path or path
end

-- Write a report into a file, or return it as a string if there is no path.
-- @param path string or nil
-- @param what the function's name, for its error
-- @param write function(put)
-- @return true, or the string; or nil, message, code
function M.deliver(path, what, write)
  if path ~= nil then
    return M.write(argument.check_path(path, what, 2), write)
  end
  local parts = {}
  write(function(part) parts[#parts + 1] = part end)
  return table.concat(parts)
end

return M

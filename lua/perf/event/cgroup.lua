-- Opens the directory of a cgroup, for events that count its tasks.
local core = require "perf.core"
local host = require "perf.kernel.host"

local M = {}

-- The mount point of the cgroup hierarchy that perf uses, once it is known.
local root

local function find_root()
  if root then return root end
  local text = host.read_file "/proc/self/mounts"
  if not text then return "/sys/fs/cgroup" end -- search again the next time
  root = text:match "%S+ (%S+) cgroup %S*perf_event%S* " or text:match "%S+ (%S+) cgroup2 " or "/sys/fs/cgroup"
  return root
end

-- @string cgroup its path; relative to the hierarchy's mount point if it does not begin with a slash
-- @return an object that holds the directory open; or nil, message, code
function M.open(cgroup)
  local path = cgroup:sub(1, 1) == "/" and cgroup or find_root() .. "/" .. cgroup
  local dir, message, code = core.opendir(path)
  if not dir then return nil, "cgroup " .. message, code end
  return dir
end

return M

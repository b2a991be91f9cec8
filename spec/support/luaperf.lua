--- The tree's luaperf, under the interpreter that runs this.
local util = require "spec.support.util"

local here = util.shell("pwd"):gsub("%s+$", "")

-- The module's places from anywhere: those of a run of specs are relative.
local function absolute(name)
  return ("%s='%s'"):format(name, ((";" .. (os.getenv(name) or "")):gsub(";%./", ";" .. here .. "/"):sub(2)))
end

local M = {}

--- A shell command in a directory; luaperf is the tree's.
function M.shell(dir, command)
  return util.shell(("export %s %s LUA=%s; root=%s; cd %s; luaperf() { timeout -s KILL 60 $root/bin/luaperf \"$@\"; }\n%s")
    :format(absolute "LUA_PATH", absolute "LUA_CPATH", util.lua(), here, dir, command))
end

return M

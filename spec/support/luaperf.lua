--- Runs the tree's luaperf under the interpreter that runs the specs. A command that hangs is ended after ten minutes, since an
-- emulated machine may need some.
local util = require "spec.support.util"

local here = util.shell("pwd"):gsub("%s+$", "")

-- The module's search path with absolute directories; the path of a run of specs is relative.
local function absolute(name)
  return ("%s='%s'"):format(name, ((";" .. (os.getenv(name) or "")):gsub(";%./", ";" .. here .. "/"):sub(2)))
end

local M = {}

local function run(lua_path, lua_cpath, root, dir, command)
  return util.shell(("export %s %s LUA=%s; root=%s; cd %s; luaperf() { timeout -s KILL 600 $root/bin/luaperf \"$@\"; }\n%s")
    :format(lua_path, lua_cpath, util.lua(), root, dir, command))
end

--- Runs a shell command in a directory, with the tree's luaperf in PATH.
function M.shell(dir, command)
  return run(absolute "LUA_PATH", absolute "LUA_CPATH", here, dir, command)
end

--- The same for another user, who may not be able to read this tree: luaperf and the module are copied into the directory, and
-- everybody may read what is in it then.
function M.copied(dir)
  local modules = os.getenv "LUA_CPATH":match "^[^?]*"
  util.execute(("cp -r %s/lua %s/bin %s/. %s && chmod -R a+rX %s"):format(here, here, modules, dir, dir))
  local lua_path = ("LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;'"):format(dir, dir)
  local lua_cpath = ("LUA_CPATH='%s/?.so;;'"):format(dir)
  return function(command) return run(lua_path, lua_cpath, dir, dir, command) end
end

--- Runs a luaperf command and, when its script or program has opened the pipe `going` for writing, sends a signal to luaperf; or,
-- if `group` is true, to luaperf's whole process group. Returns the command's status and its output.
function M.signalled(dir, signal, line, group)
  -- A shell starts background commands with SIGQUIT ignored.
  local _, status = M.shell(dir, ("rm -f going; mkfifo going; %s env --default-signal=QUIT $root/bin/luaperf %s >out 2>&1 & "
    .. "p=$!; timeout 600 cat going; sleep 0.1; kill -s %s -- %s$p; wait $p; echo $? >rc")
    :format(group and "setsid" or "", line, signal, group and "-" or ""))
  assert(status == 0)
  return tonumber(util.read_file(dir .. "/rc")), util.read_file(dir .. "/out")
end

return M

-- Finds the module perf: in the directory that `setup {path =}` names, in Lua's search paths, or in the clone that this plugin is
-- in.
local M = {}

local clone = debug.getinfo(1, "S").source:match "^@(.*)/nvim/lua/perf/nvim/module%.lua$"
local interpreter = rawget(_G, "jit") and "luajit" or "lua5.1"
local templates = {
  path = { "/lua/?.lua", "/lua/?/init.lua", "/share/lua/5.1/?.lua", "/share/lua/5.1/?/init.lua" },
  cpath = { "/build/" .. interpreter .. "/?.so", "/lib/lua/5.1/?.so" },
}

-- Put the directories below `dir` in front of the search paths. `dir` is a clone, the PREFIX of an installation, or the tree of a
-- rock.
local function add(dir)
  for name, list in pairs(templates) do
    local new = {}
    for i, template in ipairs(list) do new[i] = dir .. template end
    package[name] = table.concat(new, ";") .. ";" .. package[name]
  end
end

local function has(dir)
  for _, template in ipairs(templates.cpath) do
    if (vim.uv or vim.loop).fs_stat(dir .. template:gsub("%?", "perf/core")) then return true end
  end
  return false
end

-- Remove what a failed require left in package.loaded: a placeholder, because of which the next require reports a loop, and the
-- parts of the module that could be loaded.
local function forget()
  for name in pairs(package.loaded) do
    local own = name == "perf.health" or name == "perf.nvim" or name:find "^perf%.nvim%."
    if name == "perf" or name:find "^perf%." and not own then package.loaded[name] = nil end
  end
end

local function try()
  if package.loaded.perf then forget() end
  local ok, perf = pcall(require, "perf")
  if not ok then forget() end
  return ok, perf
end

--- The module.
-- @tparam[opt] string path the directory that setup got
-- @return the module; nil and a message if it is not found or cannot be loaded
function M.load(path)
  if type(package.loaded.perf) == "table" then return package.loaded.perf end
  local dir = path and vim.fn.fnamemodify(path, ":p"):gsub("/$", "")
  if dir and not has(dir) then
    return nil, ("%s has no module perf for %s: run `make LUA=%s` there"):format(path, interpreter, interpreter)
  end
  if dir then add(dir) end
  local ok, perf = try()
  if not ok and not dir and clone and has(clone) then
    add(clone)
    ok, perf = try()
  end
  if ok then return perf end
  if not tostring(perf):find "^module '?perf'? not found" and not tostring(perf):find "module 'perf[%w.]*' not found" then
    return nil, "the module perf cannot be loaded: " .. tostring(perf)
  end
  local where = clone and ("run `make LUA=%s` in %s"):format(interpreter, clone) or "build or install lua-perf"
  return nil, ("the module perf is not found: %s, or name its directory in require(\"perf.nvim\").setup {path =}"):format(where)
end

return M

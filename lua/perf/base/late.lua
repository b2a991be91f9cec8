-- Loads a module of this library when it is first used: `late "perf.names".resolve(event)`.
--
-- `require` alone does not suffice. Without a free descriptor it reports that the module does not exist. And if memory ran out
-- while it loaded a module, every later `require` of the module reports a loop on Lua 5.1 and LuaJIT.
local reclaim = require "perf.base.reclaim"

local loaded = package.loaded

-- Whether a value in package.loaded is the mark of a `require` that has not ended: userdata, which LuaJIT may store as a number
-- if memory runs out. No module of this library returns such a value.
local function is_mark(value) return type(value) == "userdata" or type(value) == "number" end

-- Remove the marks that a failed `require` leaves.
local function clear_marks()
  for name, value in next, loaded do
    if is_mark(value) and type(name) == "string" and name:find "^perf%." then loaded[name] = nil end
  end
end

local function is_missing(err) return tostring(err):find("' not found", 1, true) ~= nil end

-- @string module its name
-- @return the module. Raises an error if it cannot be loaded; a later call tries again
return function(module)
  local found = loaded[module]
  if found ~= nil and not is_mark(found) then return found end
  local ok, result = pcall(require, module)
  local full
  if not ok and is_missing(result) then
    require "perf.base.core".add_searcher() -- the program may have replaced the table of searchers
    full = reclaim.make_room()
    clear_marks()
    ok, result = pcall(require, module)
  end
  if ok then return result end
  clear_marks()
  if full then result = ("a part of lua-perf cannot be loaded, %s: %s"):format(module, (full:gsub("^.*: ", ""))) end
  error(result, 0)
end

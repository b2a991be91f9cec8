--- Checks after each spec that the same descriptors and mappings of events exist as before it, and that the spec has left the
-- collector as it was.
--
-- A perf.* module that keeps events open on purpose has a function `_release` in its table, which is called if there is a
-- difference. If there is still one, a full collection closes unreferenced objects by their __gc. LuaJIT may still refer to some
-- of them in compiled code, so that is dropped if the collection does not suffice.
local kit = require "testkit"

local leaks = {}
local before

-- Whether the collector runs (nil if the interpreter does not tell), and its pause.
local function collector()
  local tells, runs = pcall(collectgarbage, "isrunning")
  local pause = collectgarbage("setpause", 200)
  collectgarbage("setpause", pause)
  return tells and runs or nil, pause
end

-- A spec that leaves the collector stopped, or with another pause, may make later ones fail. Adds what has changed to the list,
-- and sets the collector as it was before.
local function collector_left(list)
  local runs, pause = collector()
  if runs ~= before.runs then
    list[#list + 1] = "the collector is " .. (runs and "running" or "stopped")
    collectgarbage(before.runs and "restart" or "stop")
  end
  if pause ~= before.pause then
    list[#list + 1] = ("the collector's pause is %d"):format(pause)
    collectgarbage("setpause", before.pause)
  end
  return list
end

local function release()
  for name, module in pairs(package.loaded) do
    if type(name) == "string" and name:find("^perf") and type(module) == "table" then
      local fn = rawget(module, "_release")
      if fn then fn() end
    end
  end
end

local function look()
  local mappings = {}
  for _, line in ipairs(kit.mappings()) do
    mappings[line:match("^%S+")] = line
  end
  return {fds = kit.fds(), mappings = mappings}
end

--- Drops LuaJIT's compiled code. Then compiles a loop, so that the area for machine code is mapped already: mapping it in a spec
-- would add page faults.
function leaks.flush()
  local jit = rawget(_G, "jit")
  if not jit then return end
  jit.flush()
  assert(loadstring "for _ = 1, 1000 do end")()
end

local function added(old, new, what, list)
  for key, value in pairs(new) do
    if old[key] == nil or old[key] ~= value then
      list[#list + 1] = what .. " " .. key .. " (" .. value .. ")"
    end
  end
end

local function removed(old, new, what, list)
  for key, value in pairs(old) do
    if new[key] == nil then
      list[#list + 1] = what .. " " .. key .. " (" .. value .. "), which it did not open, is gone"
    end
  end
end

local function differences()
  local now, list = look(), {}
  added(before.fds, now.fds, "descriptor", list)
  added(before.mappings, now.mappings, "mapping", list)
  removed(before.fds, now.fds, "descriptor", list)
  removed(before.mappings, now.mappings, "mapping", list)
  table.sort(list)
  return list
end

function leaks.start()
  before = look()
  before.runs, before.pause = collector()
end

--- nil; or one line that lists the descriptors and mappings that the spec left open, or that it closed, and the settings of the
-- collector that it changed.
function leaks.finish()
  if not before then return nil end
  local settings = collector_left {}
  local list = differences()
  if #list > 0 then
    release()
    list = differences()
  end
  for i = 1, 4 do -- the second collection frees objects that a finalizer of the first let go
    if #list == 0 then break end
    if i == 3 then leaks.flush() end
    collectgarbage()
    list = differences()
  end
  before = nil
  for _, text in ipairs(settings) do list[#list + 1] = text end
  if #list > 0 then return table.concat(list, ", ") end
end

return leaks

-- Checks the interpreter, and the parts of this module that need a library.
local core = require "perf.core"
local features = require "perf.doctor.features"
local keys_of = require "perf.base.keys"

local function interpreter(add)
  local i = features.interpreter()
  local unwinds, why = core.unwinds()
  local stacks = unwinds and "the profiler reads stacks from the registers"
    or "the profiler takes stacks at safe points, which may be a line later: " .. why
  if not i.jit then
    return add("interpreter", nil, ("%s: %s; a measurement costs more than on LuaJIT"):format(i.version, stacks))
  end
  local text = ("%s, %s, compiler %s"):format(i.version, i.ffi and "FFI" or "no FFI", i.compiler and "on" or "off")
  if not unwinds then text = text .. "; " .. stacks end
  add("interpreter", i.ffi and i.compiler, text, not i.compiler and "jit.on()  -- in the program"
    or "a LuaJIT built with its FFI")
end

local function libraries(add)
  local has, missing, fix = {}, {}, {}
  local modules = features.modules()
  for _, name in ipairs(keys_of(modules)) do
    local value = modules[name]
    if value == true then
      has[#has + 1] = name
    else
      missing[#missing + 1] = name
      local package = value:match "apt%-get install (%S+),"
      fix[#fix + 1] = package
      if not package then add("library of " .. name, false, value) end
    end
  end
  local text = {}
  if #has > 0 then text[1] = "built: " .. table.concat(has, " ") end
  if #missing > 0 then text[#text + 1] = "not built: " .. table.concat(missing, " ") end
  add("optional parts", #missing == 0, table.concat(text, "; "),
    #fix > 0 and ("apt-get install %s && make"):format(table.concat(fix, " ")) or nil)
end

return { interpreter, libraries }

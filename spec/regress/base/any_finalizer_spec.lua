-- The story: the finalizer of a channel took any userdata for a channel, and freed its content. Programs can get finalizers:
-- debug.getmetatable returns them. So did a later one, which counts collections for profiles of the heap.
local core = require "perf.core"
local perf = require "perf"

-- The metatables of this library's classes, by name.
local function classes()
  local found = {}
  for name, t in pairs(debug.getregistry()) do
    if type(name) == "string" and name:find "^perf%." and type(t) == "table" then found[name] = t end
  end
  return found
end

local NOTHING = {}

describe("an argument of a class's functions", function()
  it("may be of any type: the function raises an error, or does nothing", function()
    for _, ext in ipairs { "zstd", "bpf", "symbols", "tracefields", "pfm" } do pcall(require, "perf.ext." .. ext) end
    pcall(perf.profile, function() end)
    pcall(perf.profile, { event = "heap", survived = 1 }, collectgarbage)
    local wrong = { NOTHING, {}, 1, "text", true, print, io.stdout, coroutine.create(function() end), core.channel(),
      core.layouts() }
    local n = 0
    for class, metatable in pairs(classes()) do
      local functions = {}
      for key, value in pairs(metatable) do
        if type(value) == "function" then functions[key] = value end
      end
      for key, value in pairs(type(metatable.__index) == "table" and metatable.__index or {}) do
        if type(value) == "function" then functions["." .. key] = value end
      end
      for key, fn in pairs(functions) do
        for i, v in ipairs(wrong) do
          local own = debug.getmetatable(v) == metatable
          if not own and i == 1 then pcall(fn) elseif not own then pcall(fn, v) end
          if not own and key == "__gc" and class == "perf.Channel" then assert.is_false((pcall(fn, v))) end
        end
        n = n + 1
      end
    end
    assert.is_true(n > 50, n)
  end)

  it("may have been finalized", function()
    local channel, layouts = core.channel(), core.layouts()
    for _, object in ipairs { channel, layouts } do
      local metatable = debug.getmetatable(object)
      metatable.__gc(object)
      metatable.__gc(object)
      for _, method in pairs(metatable.__index) do pcall(method, object) end
    end
    assert.is_false((pcall(channel.push, channel, 1, "x")))
  end)
end)
